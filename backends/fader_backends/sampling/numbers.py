"""Random numbers by counting, and the draw. Knows no samplers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .candidates import Floats

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


def draw(odds: Floats, number: float) -> tuple[int, float]:
    """Return the index at which the running sum of odds passes `number` times their sum, and that sum.

    Sums are taken per group first: one pass that vectorises, then two short searches.
    """
    before, group = 0.0, 0
    if len(odds) <= SPAN:
        inner = odds.cumsum(dtype=np.float64)
        total = float(inner[-1])
        wanted = number * total
    else:
        groups = -(-len(odds) // SPAN)
        padded = np.zeros(groups * SPAN, dtype=np.float32)
        padded[: len(odds)] = odds
        heaps = padded.reshape(groups, SPAN)
        mass = np.cumsum(heaps.sum(axis=1, dtype=np.float64))
        total = float(mass[-1])
        wanted = number * total
        group = min(int(mass.searchsorted(wanted, side="right")), groups - 1)
        before = float(mass[group - 1]) if group else 0.0
        inner = heaps[group].cumsum(dtype=np.float64)
    chosen = group * SPAN + int(inner.searchsorted(wanted - before, side="right"))
    chosen = min(chosen, len(odds) - 1)
    while odds[chosen] == 0.0:  # rounding at a border must not pick what cannot be
        chosen -= 1
    return chosen, total
