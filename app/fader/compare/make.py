"""Columns from texts and sweeps, and from what was stored.

Knows switchboards; runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from string import ascii_uppercase

from fader_backends.errors import BadValue, FaderError, LoadError

from ..switchboard import Switchboard
from . import spec
from .column import Column
from .sides import SideBySide
from .values import Comparison


def columns(base: Switchboard, changes: Sequence[spec.Changes], makers: spec.Makers, least: int = 2) -> list[Column]:
    """Return the columns, lettered from A. A model that is not there fails its column only. Raises UsageError, BadValue."""
    if not least <= len(changes) <= spec.MOST:
        step = 'For example: -c "temperature=0.2" -c "temperature=1.2".'
        raise BadValue(f"A comparison has {least} to {spec.MOST} columns, not {len(changes)}.", "", step)
    return [column(letter, base, one, makers) for letter, one in zip(ascii_uppercase, changes, strict=False)]


def column(letter: str, base: Switchboard, changes: spec.Changes, makers: spec.Makers) -> Column:
    """Return one column."""
    try:
        return Column(letter, changes, spec.board_of(base, changes, makers))
    except LoadError as error:
        return Column(letter, changes, None, error.failure)


def change(column: Column, base: Switchboard, changes: spec.Changes, makers: spec.Makers) -> None:
    """Let a column change something else from its next run on. Raises FaderError, and then it stays as it was."""
    board = spec.board_of(base, changes, makers)
    column.changes, column.board, column.note = dict(changes), board, spec.lacking(changes, board)


def reopened(comparison: Comparison, base: Switchboard, makers: spec.Makers) -> list[Column]:
    """Return the columns of a stored comparison with what they gave; one that cannot run any more says why."""
    made = []
    for letter, stored in zip(ascii_uppercase, comparison.columns, strict=False):
        try:
            one = column(letter, base, stored.changes, makers)
        except FaderError as error:  # a plugin or profile of then is gone
            one = Column(letter, stored.changes, None, error.failure)
        one.stored, one.note, one.alone = stored.answer, stored.note, stored.alone
        reason = stored.answer.record.numbers.finish_reason if stored.answer is not None else "failed"
        one.state = "failed" if reason == "failed" else "stopped" if reason in (None, "cancelled") else "done"
        one.failure = stored.failure or one.failure
        made.append(one)
    return made


def grid(columns: Sequence[Column], base: Switchboard) -> list[tuple[str, list[str]]]:
    """Return what differs: (name, the value in each column), in the order in which columns name it."""
    names = list(dict.fromkeys(name for one in columns for name in one.changes))
    rows = []
    for name in names:
        cells = [one.changes.get(name) or spec.shown(name, one.board or base) for one in columns]
        rows.append((name.removeprefix(f"{spec.SAMPLER}."), cells))
    return rows


def stored(side: SideBySide, created: datetime, profile: str) -> Comparison:
    """Return a comparison as it stands now, to be stored; where it belongs in a conversation is added by who knows."""
    asked = side.asked
    return Comparison(
        created=created,
        messages=asked.messages,
        clock=asked.now,
        profile=profile,
        seed=asked.seed,
        fair=side.fair,
        columns=tuple(column.to_store() for column in side.columns),
    )
