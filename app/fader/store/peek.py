"""What can be asked of a store before it is opened. Changes nothing: a damaged file is for `Store.open` to find and tell."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def last_profile(path: Path) -> str:
    """Return the profile of the conversation changed last; "" when there is none, or the file cannot be read."""
    query = (
        "SELECT profile FROM conversation AS c WHERE EXISTS (SELECT 1 FROM message WHERE conversation = c.id) "
        "ORDER BY updated DESC, c.rowid DESC LIMIT 1"
    )
    try:
        with closing(sqlite3.connect(path.as_uri() + "?mode=ro", uri=True)) as reader:
            row = reader.execute(query).fetchone()
    except sqlite3.Error:
        return ""
    return str(row[0]) if row else ""
