"""The shape of a conversation: its messages without their texts, and cutting and copying parts of it.

Knows rows of the message table, not what was said.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from . import search
from .values import Twig

SKETCH = 200
"""Characters of a message that its sketch is made of."""


def twigs(db: sqlite3.Connection, conversation: str) -> list[Twig]:
    """Return every message of a conversation, oldest first."""
    rows = db.execute(
        "SELECT id, parent, role, state, substr(content, 1, ?) FROM message WHERE conversation = ? ORDER BY id",
        (SKETCH, conversation),
    )
    return [Twig(node, parent, role, state, " ".join(text.split())) for node, parent, role, state, text in rows]


def cut(db: sqlite3.Connection, node: int, indexed: bool) -> None:
    """Delete a message with everything below it; the conversation then stands at its parent if it stood there."""
    conversation, parent = db.execute("SELECT conversation, parent FROM message WHERE id = ?", (node,)).fetchone()
    below = "WITH RECURSIVE down (id) AS (SELECT ? UNION ALL SELECT m.id FROM message AS m JOIN down ON m.parent = down.id) "
    gone = [row[0] for row in db.execute(f"{below}SELECT id FROM down ORDER BY id DESC", (node,))]
    if indexed:
        search.drop(db, gone)
    db.execute(
        f"{below}UPDATE conversation SET leaf = ? WHERE id = ? AND leaf IN (SELECT id FROM down)",
        (node, parent, conversation),
    )
    # Children first: SQLite follows a cascade through a thousand generations and no further.
    db.executemany("DELETE FROM message WHERE id = ?", [(one,) for one in gone])


def copy(db: sqlite3.Connection, nodes: Sequence[int], target: str) -> int | None:
    """Copy messages, each below the one before, into conversation `target`; return the last copy's id."""
    parent: int | None = None
    for node in nodes:
        cursor = db.execute(
            "INSERT INTO message (conversation, parent, role, content, ids, state, created, record) "
            "SELECT ?, ?, role, content, ids, CASE state WHEN 'streaming' THEN 'interrupted' ELSE state END, created, record "
            "FROM message WHERE id = ?",
            (target, parent, node),
        )
        parent = int(cursor.lastrowid or 0)
        db.execute("INSERT INTO odds SELECT ?, data FROM odds WHERE message = ?", (parent, node))
    return parent
