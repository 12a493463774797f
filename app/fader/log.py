"""The app's log file: tracebacks and warnings, for people who ask what went wrong.

Knows one file, and that failing to write it must not fail anything else.
"""

from __future__ import annotations

import os
import traceback
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from fader_backends.errors import StoreError

from .paths import make_folder

KEPT_BYTES = 2**20
"""A log that has grown over this is renamed to `<name>.1`."""


def write_log(path: Path, text: str, now: datetime) -> bool:
    """Append `text` under a time stamp; return whether it could be written."""
    with suppress(OSError, StoreError):
        make_folder(path.parent)
        if path.exists() and path.stat().st_size > KEPT_BYTES:
            path.replace(path.with_name(path.name + ".1"))
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"--- {now.isoformat(timespec='seconds')}\n{text.rstrip()}\n")
        return True
    return False


def log_exception(path: Path, error: BaseException, now: datetime) -> bool:
    """Append an exception with its traceback; return whether it could be written."""
    return write_log(path, "".join(traceback.format_exception(error)), now)
