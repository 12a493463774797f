"""Rows of the tables as values. Knows columns and their order."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from . import owner
from .values import Conversation, Node, from_micros, unpack_ids

NODE = (
    "SELECT m.id, m.conversation, m.parent, m.role, m.content, m.ids, m.state, m.created, m.record, m.owner "
    "FROM message AS m"
)
CONVERSATION = (
    "SELECT id, title, profile, created, updated, clock, leaf, "
    "(SELECT count(*) FROM message WHERE conversation = c.id) AS messages FROM conversation AS c"
)


def node_of(row: Any) -> Node:
    """Return a row of `NODE`; a reply whose process is gone is interrupted."""
    *_, state, created, record, holder = row
    if state == "streaming" and not owner.alive(holder):
        state = "interrupted"
    return Node(
        id=row[0],
        conversation=row[1],
        parent=row[2],
        role=row[3],
        content=row[4],
        ids=unpack_ids(row[5]),
        state=state,
        created=from_micros(created),
        record=record,
    )


def conversation_of(row: Any) -> Conversation:
    """Return a row of `CONVERSATION`."""
    return Conversation(
        id=row[0],
        title=row[1],
        profile=row[2],
        created=from_micros(row[3]),
        updated=from_micros(row[4]),
        clock=datetime.fromisoformat(row[5]),
        leaf=row[6],
        messages=row[7],
    )
