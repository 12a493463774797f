"""What can be asked of a store before it is opened. Changes nothing: a damaged file is for `Store.open` to find and tell."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec


class Start(NamedTuple):
    """What the conversation changed last was held with; "" where that is not known."""

    profile: str = ""
    model: str = ""


class _Model(msgspec.Struct, frozen=True):
    model: str = ""


class _Request(msgspec.Struct, frozen=True):
    model: _Model = _Model()


class _Record(msgspec.Struct, frozen=True):
    """The part of `RunRecord` that names the model."""

    request: _Request = _Request()


def last_start(path: Path) -> Start:
    """Return how the conversation changed last was held; nothing when there is none, or the file cannot be read."""
    query = (
        "SELECT profile, (SELECT record FROM message WHERE conversation = c.id AND record IS NOT NULL "
        "ORDER BY id DESC LIMIT 1) FROM conversation AS c "
        "WHERE EXISTS (SELECT 1 FROM message WHERE conversation = c.id) ORDER BY updated DESC, c.rowid DESC LIMIT 1"
    )
    try:
        with closing(sqlite3.connect(path.as_uri() + "?mode=ro", uri=True)) as reader:
            row = reader.execute(query).fetchone()
    except sqlite3.Error:
        return Start()
    if row is None:
        return Start()
    try:
        return Start(str(row[0]), msgspec.json.decode(row[1] or b"{}", type=_Record).request.model.model)
    except msgspec.MsgspecError:
        return Start(str(row[0]))
