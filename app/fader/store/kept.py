"""What is kept beside messages within a budget: what tokens were chosen from, and the events of turns.

Knows blobs and their sizes, not what is in them.
"""

from __future__ import annotations

import sqlite3
from typing import Literal, TypeAlias

Table: TypeAlias = Literal["odds", "events"]


def put(db: sqlite3.Connection, table: Table, message: int, data: bytes, budget: int) -> None:
    """Keep `data` for a message; where all of them then take more than `budget` bytes, the oldest messages' go."""
    db.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", (message, data))
    over = db.execute(f"SELECT sum(length(data)) FROM {table}").fetchone()[0] - budget
    if over <= 0:
        return
    for oldest, size in db.execute(f"SELECT message, length(data) FROM {table} ORDER BY message").fetchall():
        db.execute(f"DELETE FROM {table} WHERE message = ?", (oldest,))
        over -= size
        if over <= 0:
            return


def get(db: sqlite3.Connection, table: Table, message: int) -> bytes | None:
    """Return what is kept for a message."""
    row = db.execute(f"SELECT data FROM {table} WHERE message = ?", (message,)).fetchone()
    return None if row is None else bytes(row[0])
