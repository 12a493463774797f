"""Sampler presets of other programs, read into what a profile of ours can say.

Knows how to tell the formats apart, not what they hold.

    common.py       what all share: values, the order, notes on what cannot be carried over
    lmstudio.py     LM Studio: JSON, a list of fields
    textgen.py      text-generation-webui: YAML, differences from its own neutral preset
    sillytavern.py  SillyTavern: JSON, all settings of its text completion side
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from fader_backends.errors import BadValue

from . import lmstudio, sillytavern, textgen
from .common import Imported, Note

__all__ = ["FORMATS", "Imported", "Note", "read"]

FORMATS: Mapping[str, Callable[[Mapping[str, Any]], Imported | None]] = {
    "lmstudio": lmstudio.read,
    "sillytavern": sillytavern.read,
    "textgen": textgen.read,
}
"""Each returns None for data that is not in its format."""
LARGEST = 1_000_000
"""Bytes; a preset has a few hundred."""


def read(path: Path, kind: str | None = None) -> Imported:
    """Return what a preset file says; `kind` names its format, else it is found out. Raises BadValue."""
    data = _parsed(path)
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
        raise BadValue(f"{path} is not a preset.", "It is not a table of names and values.", _which())
    if "inference_params" in data:
        raise BadValue(
            f"{path} is a preset of LM Studio 0.2.", "", "Open it in LM Studio 0.3 or later and save it again."
        )
    for name, read_format in FORMATS.items():
        if kind in (None, name):
            found = read_format(data)
            if found is not None:
                return found
    if kind is not None:
        raise BadValue(f"{path} is not a preset of {kind}.", "", "Leave --from out, so that Fader finds out.")
    raise BadValue(f"{path} is not a preset that Fader knows.", "", _which())


def _which() -> str:
    return "Give it a preset of LM Studio (JSON), text-generation-webui (YAML) or SillyTavern (JSON)."


def _parsed(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise BadValue(f"Cannot read {path}: {error.strerror or error}.", "", "Check the path.") from error
    if len(raw) > LARGEST:
        raise BadValue(f"{path} is not a preset.", f"It has more than {LARGEST:,} bytes.", _which())
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadValue(f"{path} is not a preset.", f"Byte {error.start + 1:,} is not UTF-8 text.", _which()) from error
    try:
        return _json(text) if text.lstrip()[:1] in ("{", "[") else _yaml(text)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"{path} is damaged.", f"{error}.", "Save it once more in the program it is from.") from error


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"It is not JSON: {error}") from error


def _yaml(text: str) -> Any:
    import yaml  # late: no other command needs it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it cannot be read"
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"It is not YAML: {problem}{place}") from error
