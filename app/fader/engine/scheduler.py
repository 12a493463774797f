"""Which rows go into the next batch, with how many tokens each.

Knows rows by what they still need; evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from .row import Row

SHARE = 4
"""Prompts get this part of a batch even beside rows that check long drafts."""


def choose(rows: Sequence[Row], batch: int) -> list[tuple[Row, int]]:
    """Return (row, most tokens) for one call of at most `batch` tokens together.

    Rows that are decoding come first, since a person is reading them, and among them those with the shortest steps, so
    that none waits for another's drafts; prompts share what is left, each at most its chunk.
    """
    if len(rows) == 1:
        return [(rows[0], min(rows[0].remaining, rows[0].request.chunk, batch))]
    plan: list[tuple[Row, int]] = []
    room = batch
    kept = batch // SHARE if any(row.prefilling for row in rows) else 0
    for row in sorted(rows, key=lambda row: (row.prefilling, 0 if row.prefilling else row.remaining)):
        most = room if row.prefilling else max(room - kept, min(room, 1))
        count = min(row.remaining, row.request.chunk, most)
        if count > 0:
            plan.append((row, count))
            room -= count
    return plan
