"""The search for an input that overturns a claim: explore, follow what hurts, confirm, make it smaller.

Knows points and a function that measures one; runs nothing itself.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from . import inputs
from .inputs import Point

Grade: TypeAlias = Literal["", "gone", "reversed"]
"""gone: of the claimed difference nothing is left. reversed: it is there in the other direction. Empty: the claim holds."""
GRADES: tuple[Grade, ...] = ("", "gone", "reversed")
CONFIRMED = 3
"""How many suspects are measured in full, at the most."""
RESTART = 4
"""Every so many steps a point anywhere is tried, so that the search does not stay where it began."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One quick trial."""

    point: Point
    ratio: float | None
    """After / before of the claim's figure; None: it could not be run."""
    why: str = ""


class Confirmed(NamedTuple):
    """One measurement in full."""

    point: Point
    grade: Grade
    name: str
    """Where its evidence lies."""


class Outcome(NamedTuple):
    """What a search came to."""

    tried: list[Tried]
    counter: Confirmed | None
    checked: int
    """Measurements in full."""


class Search:
    """One search. `quick` measures a point roughly, `full` beyond doubt; `claimed` is the claim's ratio."""

    def __init__(
        self,
        quick: Callable[[Point], Tried],
        full: Callable[[Point], Confirmed],
        claimed: float,
        dimensions: Sequence[str],
        *,
        trials: int,
        seed: int,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.quick = quick
        self.full = full
        self.claimed = claimed
        self.dimensions = dimensions
        self.trials = trials
        self.stopped = stopped
        self.generator = random.Random(seed)
        self.tried: list[Tried] = []
        self.checked = 0

    def run(self, start: Point) -> Outcome:
        """Search from `start` with `trials` quick trials; half of them explore and follow, the rest make it smaller."""
        self._try(start)
        while len(self.tried) * 3 < self.trials * 2 and not self.stopped():
            worst = max(self.tried, key=self.hurt)
            fresh = len(self.tried) <= RESTART or len(self.tried) % RESTART == 0
            self._try(
                inputs.anywhere(self.generator, self.dimensions)
                if fresh
                else inputs.near(worst.point, self.generator, self.dimensions)
            )
        counter = self._confirm()
        return Outcome(self.tried, self._shrink(counter) if counter else None, self.checked)

    def hurt(self, one: Tried) -> float:
        """Return how far a trial is from the claim towards its opposite: 0 at the claim, 1 where nothing is left of it.

        A claim of no difference is hurt by any.
        """
        if one.ratio is None or one.ratio <= 0:
            return -math.inf
        claimed = math.log(self.claimed) if self.claimed > 0 else 0.0
        if abs(claimed) < math.log(1.01):
            return abs(math.log(one.ratio)) / math.log(1.1)
        return 1 - math.log(one.ratio) / claimed

    def _try(self, point: Point) -> Tried | None:
        """Try a point that was not tried yet."""
        if any(one.point == point for one in self.tried):
            point = inputs.anywhere(self.generator, self.dimensions)
        if any(one.point == point for one in self.tried):
            point = inputs.near(point, self.generator, self.dimensions)
        self.tried.append(self.quick(point))
        return self.tried[-1]

    def _confirm(self) -> Confirmed | None:
        """Measure the worst suspects in full; return the best that stands, a reversal before a loss."""
        suspects = [one for one in sorted(self.tried, key=self.hurt, reverse=True) if self.hurt(one) > 0.75]
        found: list[Confirmed] = []
        for one in suspects[:CONFIRMED]:
            if self.stopped():
                break
            found.append(self._full(one.point))
            if found[-1].grade == "reversed":
                break
        standing = [one for one in found if one.grade]
        return max(
            standing, key=lambda one: (GRADES.index(one.grade), [-size for size in one.point.size]), default=None
        )

    def _shrink(self, counter: Confirmed) -> Confirmed:
        """Make it smaller, dimension by dimension, as long as quick trials say that the claim is hurt as much.

        The smallest is measured in full; where it does not stand, the next larger one is.
        """
        needed = 0.9 if counter.grade == "gone" else 1.0
        chain = [counter.point]
        moved = True
        while moved and len(self.tried) < self.trials and not self.stopped():
            moved = False
            for point in inputs.smaller(chain[-1], self.dimensions):
                if len(self.tried) >= self.trials or self.stopped():
                    break
                known = next((one for one in self.tried if one.point == point), None)
                if known is None:
                    known = self.quick(point)
                    self.tried.append(known)
                if self.hurt(known) > needed:
                    chain.append(point)
                    moved = True
                    break
        for point in reversed(chain[1:]):
            if self.stopped():
                break
            smaller = self._full(point)
            if GRADES.index(smaller.grade) >= GRADES.index(counter.grade):
                return smaller
        return counter

    def _full(self, point: Point) -> Confirmed:
        self.checked += 1
        return self.full(point)
