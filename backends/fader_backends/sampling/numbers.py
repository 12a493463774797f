"""Random numbers by counting, and the draw. Knows no samplers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

DRAW = 0
"""Stream of the draw."""
XTC = 1
"""Stream of XTC's coin."""
SPAN = 256
"""Candidates per group when the running sum is searched."""
BLOCK = 64
"""Positions whose numbers are made together: a generator costs more than its numbers."""


def uniform(seed: int, row: int, position: int, stream: int = DRAW) -> float:
    """Return the number in [0, 1) that belongs to (seed, row, position, stream).

    Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) as numpy ships it, keyed by seed
    and row, counting positions and streams.
    """
    block, place = divmod(position, BLOCK)
    return _block(seed, row, block, stream)[place]


@lru_cache(maxsize=64)
def _block(seed: int, row: int, block: int, stream: int) -> list[float]:
    key = np.array([seed, row], dtype=np.uint64)
    bits = np.random.Philox(key=key, counter=(stream << 64) + block * BLOCK).random_raw(4 * BLOCK)[::4]  # 4 per count
    numbers: list[float] = ((bits >> np.uint64(11)) * 2.0**-53).tolist()
    return numbers


def draw(odds: npt.NDArray[np.float32], number: float) -> tuple[int, float]:
    """Return the index at which the running sum of odds passes `number` times their sum, and that sum.

    Sums are taken per group first: one pass that vectorises, then two short searches.
    """
    groups = -(-len(odds) // SPAN)
    padded = np.zeros(groups * SPAN, dtype=np.float32)
    padded[: len(odds)] = odds
    heaps = padded.reshape(groups, SPAN)
    mass = np.cumsum(heaps.sum(axis=1, dtype=np.float64))
    total = float(mass[-1])
    group = min(int(mass.searchsorted(number * total, side="right")), groups - 1)
    before = float(mass[group - 1]) if group else 0.0
    inner = heaps[group].cumsum(dtype=np.float64)
    chosen = group * SPAN + int(inner.searchsorted(number * total - before, side="right"))
    return _possible(odds, min(chosen, len(odds) - 1)), total


def draw_of_few(odds: Sequence[float], number: float) -> tuple[int, float]:
    """Do the same in plain Python, which is quicker for few."""
    mass = list(accumulate(odds))
    return _possible(odds, min(bisect_right(mass, number * mass[-1]), len(odds) - 1)), mass[-1]


def _possible(odds: Sequence[float] | npt.NDArray[np.float32], chosen: int) -> int:
    """Return the index, or the nearest before it that can be: rounding at a border must not pick what cannot."""
    while odds[chosen] == 0.0:
        chosen -= 1
    return chosen
