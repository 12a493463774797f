"""Random numbers by counting, and the draw. Knows no samplers."""

from __future__ import annotations

import numpy as np

from .candidates import Floats

DRAW = 0
"""Stream of the draw."""
XTC = 1
"""Stream of XTC's coin."""
SPAN = 256
"""Candidates per group when the running sum is searched."""


def uniform(seed: int, row: int, position: int, stream: int = DRAW) -> float:
    """Return the number in [0, 1) that belongs to (seed, row, position, stream).

    Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) as numpy ships it, keyed by seed
    and row, counting positions and streams.
    """
    key = np.array([seed, row], dtype=np.uint64)
    bits = np.random.Philox(key=key, counter=(stream << 64) + position).random_raw()
    return (int(bits) >> 11) * 2.0**-53


def draw(odds: Floats, number: float) -> tuple[int, float]:
    """Return the index at which the running sum of odds passes `number` times their sum, and that sum.

    Sums are taken per group first: one pass that vectorises, then two short searches.
    """
    groups = -(-len(odds) // SPAN)
    padded = np.zeros(groups * SPAN, dtype=np.float32)
    padded[: len(odds)] = odds
    heaps = padded.reshape(groups, SPAN)
    mass = np.cumsum(heaps.sum(axis=1, dtype=np.float64))
    total = float(mass[-1])
    wanted = number * total
    group = min(int(np.searchsorted(mass, wanted, side="right")), groups - 1)
    before = float(mass[group - 1]) if group else 0.0
    inner = np.cumsum(heaps[group], dtype=np.float64)
    chosen = group * SPAN + int(np.searchsorted(inner, wanted - before, side="right"))
    chosen = min(chosen, len(odds) - 1)
    while odds[chosen] == 0.0:  # rounding at a border must not pick what cannot be
        chosen -= 1
    return chosen, total
