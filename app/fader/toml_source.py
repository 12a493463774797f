"""A TOML file as data, and the line on which a key of it stands.

Knows TOML, not what the keys mean.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fader_backends.errors import BadValue


def read_toml(path: Path) -> dict[str, Any]:
    """Return what the file holds. Raises BadValue with file and line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise BadValue(f"{path}, line {line}: not UTF-8 text.", "", "Save the file as UTF-8.") from error
    except OSError as error:
        raise BadValue(f"{path}: {error.strerror or error}.", "", "Name a TOML file that can be read.") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, line = _place(str(error), text)
        raise BadValue(f"{path}, line {line}: not valid TOML: {reason}.", "", "Mend that line.") from error


def where(path: Path, key: Sequence[str]) -> str:
    """Return `file, line N` for the line on which `key` begins, or just the file when it cannot be told."""
    line = line_of(path, key)
    return f"{path}, line {line}" if line else str(path)


def line_of(path: Path, key: Sequence[str]) -> int | None:
    """Return the line on which `key` begins; None when it is not there.

    The file is parsed line by line longer until the key appears, so every way of writing it that TOML allows is understood.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError):
        return None
    sound = 0
    for count in range(1, len(lines) + 1):
        try:
            data = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue  # in the middle of a value of several lines
        if _holds(data, key):
            return sound + 1
        sound = count
    return None


def _holds(data: Any, key: Sequence[str]) -> bool:
    for part in key:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True


def _place(message: str, text: str) -> tuple[str, int]:
    """Split tomllib's "reason (at line 3, column 5)"."""
    reason, _, place = message.rpartition(" (at ")
    if place.startswith("line "):
        return reason, int(place.removeprefix("line ").partition(",")[0])
    return reason or message, max(len(text.splitlines()), 1)
