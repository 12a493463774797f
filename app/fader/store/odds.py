"""What tokens were chosen from, kept beside their messages within a budget.

Knows blobs and their sizes, not what is in them.
"""

from __future__ import annotations

import sqlite3


def put(db: sqlite3.Connection, message: int, data: bytes, budget: int) -> None:
    """Keep `data` for a message; where all of them then take more than `budget` bytes, the oldest messages' go."""
    db.execute("INSERT OR REPLACE INTO odds VALUES (?, ?)", (message, data))
    over = db.execute("SELECT sum(length(data)) FROM odds").fetchone()[0] - budget
    if over <= 0:
        return
    for oldest, size in db.execute("SELECT message, length(data) FROM odds ORDER BY message").fetchall():
        db.execute("DELETE FROM odds WHERE message = ?", (oldest,))
        over -= size
        if over <= 0:
            return


def get(db: sqlite3.Connection, message: int) -> bytes | None:
    """Return what is kept for a message."""
    row = db.execute("SELECT data FROM odds WHERE message = ?", (message,)).fetchone()
    return None if row is None else bytes(row[0])
