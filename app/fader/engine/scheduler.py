"""Which rows go into the next batch, with how many tokens each.

Knows rows by what they still need; evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from .row import Row


def choose(rows: Sequence[Row], batch: int) -> list[tuple[Row, int]]:
    """Return (row, most tokens) for one call of at most `batch` tokens together.

    Rows that are decoding come first, since a person is reading them, those without drafts before those with long ones, so that
    none waits for another's guesses; prompts share what is left, each at most its chunk.
    """
    plan: list[tuple[Row, int]] = []
    room = batch
    for row in sorted(rows, key=lambda row: (row.prefilling, 0 if row.prefilling else row.remaining)):
        count = min(row.remaining, row.request.chunk, room)
        if count > 0:
            plan.append((row, count))
            room -= count
    return plan
