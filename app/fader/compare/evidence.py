"""Two columns of a comparison as what a bundle is made of.

Knows columns and recorded turns; what goes into a bundle is `fader.lab.chatted`'s.
"""

from __future__ import annotations

from fader_plugins.registry import Registry

from .. import kept
from ..lab.chatted import NoPair, Pair, check
from ..lab.evidence import Condition
from .column import PREFIX, Column
from .sides import SideBySide

COLD = "the prefix cache was off on both sides, so that each turn read the prompt anew"
THEN = "ask once more (Enter), then /bundle."


def pair(side: SideBySide, one: Column, other: Column, registry: Registry) -> Pair:
    """Return all runs of two columns. Raises NoPair where they ran at once, or differ in more or less than one setting."""
    if not side.fair:
        raise NoPair(
            "The columns ran together, so their times are each other's.",
            "",
            "F8 (fair timing), Enter: they run one at a time; then /bundle.",
        )
    a, b = _runs(one, side.cold), _runs(other, side.cold)
    check(a[0], b[0], registry, f"columns {one.letter} and {other.letter}", THEN)
    rounds = min(len(a), len(b))
    condition: Condition = "cold" if side.cold else "warm"
    return Pair(a[:rounds], b[:rounds], (condition, condition), "ABAB", (COLD,) * side.cold)


def _runs(column: Column, cold: bool) -> list[kept.Kept]:
    if column.state != "done" or column.run is None or column.board is None:
        raise NoPair(f"Column {column.letter} has no whole reply of this session.", "", f"Let it end, or {THEN}")
    board = column.board.copy()
    if cold and PREFIX in board.states:
        board.switch(PREFIX, False)
    profile = board.to_profile(board.profile.name)
    return [kept.of(run.stats.request, profile, run.events) for run in (column.run, *column.timed)]
