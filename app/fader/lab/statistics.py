"""Whether two sets of samples differ: ratio of medians with its interval, Mann-Whitney U, and the "~" of doubt.

Knows numbers only. Nothing is dropped as an outlier, and equal input gives equal output: the bootstrap's seed is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

SEED = 20_000
RESAMPLES = 2_000
CONFIDENCE = 0.95
ALPHA = 0.01
"""A report asks of a dozen figures; at the usual 0.05 two identical sides would often differ in one of them."""
EXACT = 60
"""Up to so many samples together, the distribution of U is counted; above, the normal one stands for it."""
BLOCK = 2_000_000
"""Resampled values held in memory at once."""

Values = npt.NDArray[np.float64]


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Median after / median before, with a bootstrap percentile interval."""

    value: float
    low: float
    high: float


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said of `after` against `before`."""

    ratio: Ratio | None
    """None where the median before is 0, or a side has no samples."""
    p: float | None
    """Two-sided, of Mann-Whitney U."""
    before_n: int
    after_n: int
    spread: float | None
    """How far the baseline was from itself: 0.02 is 2 % in either direction. None: nobody measured it."""
    different: bool
    doubt: str
    """Why it is not called different; empty where it is."""


def compare(before: Sequence[float], after: Sequence[float], spread: float | None = None) -> Verdict:
    """Return whether `after` differs from `before`.

    It does when all three hold: the chance of such ranks between equal sides is below `ALPHA`, the interval of the ratio
    leaves out 1, and the ratio is further from 1 than the baseline was from itself (`spread`, see `self_spread`).
    """
    ratio, p = ratio_of_medians(before, after), mann_whitney(before, after)
    return Verdict(
        ratio=ratio,
        p=p,
        before_n=len(before),
        after_n=len(after),
        spread=spread,
        different=not (doubt := _doubt(before, after, ratio, p, spread)),
        doubt=doubt,
    )


def _doubt(
    before: Sequence[float], after: Sequence[float], ratio: Ratio | None, p: float | None, spread: float | None
) -> str:
    if not before or not after or p is None:
        return "no samples"
    if smallest_p(len(before), len(after)) >= ALPHA:
        return f"too few samples to tell: {len(before)} and {len(after)}"
    if p >= ALPHA:
        return f"p = {p:.2g}"
    if ratio is None:
        return ""
    if ratio.low <= 1 <= ratio.high:
        return "the interval holds 1"
    if spread is not None and distance(ratio.value) <= spread:
        return f"the baseline differed from itself by {spread:.1%}"
    return ""


def distance(ratio: float) -> float:
    """Return how far a ratio is from 1, the same for 0.5 and 2 (which gives 1.0)."""
    return math.inf if ratio <= 0 else max(ratio, 1 / ratio) - 1


def self_spread(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return how far the baseline's second half was from its first, as `Verdict.spread`; None where it cannot be told."""
    ratio = _ratio(first, second)
    return None if ratio is None else distance(ratio)


def aligned(
    before: Sequence[float], after: Sequence[float], groups: tuple[Sequence[Hashable], Sequence[Hashable]]
) -> tuple[list[float], list[float]]:
    """Return both sides with each value divided by its group's median over both, so that only the sides differ.

    Cases of a workload differ among each other by more than a setting changes them; ranks taken over all of them would
    see nothing else (aligned ranks: Hodges and Lehmann 1962). A group whose median is 0 is left as it is.
    """
    together: dict[Hashable, list[float]] = {}
    for values, names in zip((before, after), groups, strict=True):
        for value, name in zip(values, names, strict=True):
            together.setdefault(name, []).append(value)
    middle = {name: float(np.median(values)) or 1.0 for name, values in together.items()}
    sides = [
        [value / middle[name] for value, name in zip(values, names, strict=True)]
        for values, names in zip((before, after), groups, strict=True)
    ]
    return sides[0], sides[1]


def ratio_of_medians(before: Sequence[float], after: Sequence[float]) -> Ratio | None:
    """Return median(after) / median(before) with its `CONFIDENCE` interval; None where it is not defined.

    Percentile bootstrap (Efron 1979): each side is drawn again from itself `RESAMPLES` times. Draws whose median before
    is 0 do not count.
    """
    value = _ratio(before, after)
    if value is None:
        return None
    generator = np.random.default_rng(SEED)
    low, high = _medians(before, generator), _medians(after, generator)
    ratios = high[low != 0] / low[low != 0]
    edge = (1 - CONFIDENCE) / 2
    bounds = np.quantile(ratios, [edge, 1 - edge])
    return Ratio(value=value, low=float(bounds[0]), high=float(bounds[1]))


def _ratio(before: Sequence[float], after: Sequence[float]) -> float | None:
    if not before or not after or not (base := float(np.median(before))):
        return None
    return float(np.median(after)) / base


def _medians(samples: Sequence[float], generator: np.random.Generator) -> Values:
    values = np.asarray(samples, dtype=np.float64)
    at_once = max(1, BLOCK // len(values))
    parts = []
    for start in range(0, RESAMPLES, at_once):
        shape = (min(at_once, RESAMPLES - start), len(values))
        parts.append(np.median(values[generator.integers(0, len(values), shape)], axis=1))
    return np.concatenate(parts)


def mann_whitney(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return the two-sided p of the Mann-Whitney U test; None without samples on a side.

    Ties get their mean rank. Up to `EXACT` samples the chance is counted over all ways to split these very ranks into
    two sides, which is right with ties too; above, it is the normal approximation with tie and continuity correction.
    """
    count = len(before)
    if not before or not after:
        return None
    ranks, sizes = _double_ranks(np.asarray([*before, *after], dtype=np.float64))
    total = len(ranks)
    observed = abs(2 * int(ranks[:count].sum()) - 2 * count * (total + 1))  # four times the distance from its mean
    if total <= EXACT:
        return _counted(ranks, count, observed)
    variance = count * (total - count) / 12 * (total + 1 - float((sizes**3 - sizes).sum()) / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    return math.erfc(max(observed / 4 - 0.5, 0.0) / math.sqrt(2 * variance))


def smallest_p(before: int, after: int) -> float:
    """Return the smallest p that so many samples without ties can give."""
    return 2 / math.comb(before + after, before)


def _double_ranks(values: Values) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return twice the mean rank of each value (a whole number), and the sizes of the groups of equal values."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    return (2 * ends - sizes + 1)[group], sizes


def _counted(ranks: npt.NDArray[np.int64], count: int, observed: int) -> float:
    """Return the share of all choices of `count` ranks whose sum is at least as far from its mean as the observed one.

    `ways[k, s]` is how many choices of k ranks have the doubled sum s, built up rank by rank.
    """
    most = int(ranks.sum())
    ways = np.zeros((count + 1, most + 1))
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : most + 1 - rank]
    far = np.abs(2 * np.arange(most + 1) - 2 * count * (len(ranks) + 1)) >= observed
    return float(ways[count, far].sum() / ways[count].sum())
