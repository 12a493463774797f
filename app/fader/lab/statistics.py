"""Whether two sets of samples differ: ratio of a statistic with its interval, a test, and the "~" of doubt.

Knows numbers only. Nothing is dropped as an outlier, and equal input gives equal output: seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

SEED = 20_000
DRAWS = 2_000
"""How often samples are drawn again, for an interval or for a test."""
CONFIDENCE = 0.95
ALPHA = 0.01
"""A report asks of a dozen figures; at the usual 0.05 two identical sides would often differ in one of them."""
EXACT = 60
"""Up to so many samples together, the distribution of U is counted; above, the normal one stands for it."""
BLOCK = 2_000_000
"""Values held in memory at once while drawing."""

Statistic: TypeAlias = Literal["p50", "mean", "p95", "p99"]
ENOUGH: dict[Statistic, int] = {"p50": 1, "mean": 1, "p95": 20, "p99": 100}
"""Samples a side must have before a difference in a statistic may be claimed."""
Values: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]
Together: TypeAlias = tuple[Sequence[Hashable], Sequence[Hashable]]
"""For each sample of both sides, what it was measured with: gaps of one reply come and go together."""


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """A statistic after / the same before, with a bootstrap percentile interval."""

    value: float
    low: float
    high: float


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said of `after` against `before`."""

    statistic: Statistic
    ratio: Ratio | None
    """None where the statistic before is 0, or a side has no samples."""
    p: float | None
    """Two-sided: of Mann-Whitney U for medians of single samples, else of a permutation test on the ratio."""
    before_n: int
    after_n: int
    spread: float | None
    """How far the baseline was from itself: 0.02 is 2 % in either direction. None: nobody measured it."""
    different: bool
    doubt: str
    """Why it is not called different; empty where it is."""


def compare(
    before: Sequence[float],
    after: Sequence[float],
    statistic: Statistic = "p50",
    spread: float | None = None,
    together: Together | None = None,
) -> Judged:
    """Return whether `after` differs from `before`.

    It does when all three hold: the chance of this between equal sides is below `ALPHA`, the interval of the ratio
    leaves out 1, and the ratio is further from 1 than the baseline was from itself (`spread`, see `self_spread`).
    """
    found = ratio(before, after, statistic, together)
    plain = statistic == "p50" and together is None
    p = mann_whitney(before, after) if plain else permutation(before, after, statistic, together)
    sizes = (len(before), len(after)) if together is None else (len(set(together[0])), len(set(together[1])))
    why = doubt(found, p, spread, sizes, min(len(before), len(after)) < ENOUGH[statistic])
    return Judged(
        statistic=statistic,
        ratio=found,
        p=p,
        before_n=len(before),
        after_n=len(after),
        spread=spread,
        different=not why,
        doubt=why,
    )


def doubt(found: Ratio | None, p: float | None, spread: float | None, sizes: tuple[int, int], few: bool) -> str:
    """Return why a difference is not called one; empty where it is."""
    if p is None:
        return "no samples" if 0 in sizes else "not defined"
    if few or smallest_p(*sizes) >= ALPHA:
        return f"too few samples to tell: {sizes[0]} and {sizes[1]}"
    if p >= ALPHA:
        return f"p = {p:.2g}"
    if found is None:
        return ""
    if found.low <= 1 <= found.high:
        return "the interval holds 1"
    if spread is not None and distance(found.value) <= spread:
        return f"the baseline differed from itself by {spread:.1%}"
    return ""


def distance(value: float) -> float:
    """Return how far a ratio is from 1, the same for 0.5 and 2 (which gives 1.0)."""
    return math.inf if value <= 0 else max(value, 1 / value) - 1


def self_spread(first: Sequence[float], second: Sequence[float], statistic: Statistic = "p50") -> float | None:
    """Return how far the baseline was from itself, as `Judged.spread`; None where it cannot be told."""
    value = _quotient(first, second, statistic)
    return None if value is None else distance(value)


def aligned(before: Sequence[float], after: Sequence[float], groups: Together) -> tuple[list[float], list[float]]:
    """Return both sides with each value divided by its group's median over both, so that only the sides differ.

    Cases of a workload differ among each other by more than a setting changes them; ranks taken over all of them would
    see nothing else (aligned ranks: Hodges and Lehmann 1962). A group whose median is 0 is left as it is.
    """
    gathered: dict[Hashable, list[float]] = {}
    for values, names in zip((before, after), groups, strict=True):
        for value, name in zip(values, names, strict=True):
            gathered.setdefault(name, []).append(value)
    middle = {name: float(np.median(values)) or 1.0 for name, values in gathered.items()}
    sides = [
        [value / middle[name] for value, name in zip(values, names, strict=True)]
        for values, names in zip((before, after), groups, strict=True)
    ]
    return sides[0], sides[1]


def ratio(
    before: Sequence[float], after: Sequence[float], statistic: Statistic = "p50", together: Together | None = None
) -> Ratio | None:
    """Return the statistic after / before with its `CONFIDENCE` interval; None where it is not defined.

    Percentile bootstrap (Efron 1979): each side is drawn again from itself `DRAWS` times, whole groups of `together` at
    once. Draws whose statistic before is 0 do not count.
    """
    value = _quotient(before, after, statistic)
    if value is None:
        return None
    generator = np.random.default_rng(SEED)
    sides = []
    for samples, names in zip((before, after), together or (None, None), strict=True):
        sample = gather(samples, names)
        size = len(sample.until)
        draws = (generator.multinomial(size, np.full(size, 1 / size), count) for count in random_rows(size))
        sides.append(np.concatenate([evaluate(statistic, sample, draw) for draw in draws]))
    ratios = sides[1][sides[0] != 0] / sides[0][sides[0] != 0]
    edge = (1 - CONFIDENCE) / 2
    low, high = np.quantile(ratios, [edge, 1 - edge])
    return Ratio(value=value, low=float(low), high=float(high))


def permutation(
    before: Sequence[float], after: Sequence[float], statistic: Statistic, together: Together | None = None
) -> float | None:
    """Return the share of random splits into two sides whose ratio is at least as far from 1; None where not defined.

    Groups of `together` stay whole. The split that was seen counts as one, so the result is never 0.
    """
    value = _quotient(before, after, statistic)
    if value is None:
        return None
    names = together or (range(len(before)), range(len(after)))
    sample = gather([*before, *after], [*((0, one) for one in names[0]), *((1, one) for one in names[1])])
    size, count = len(sample.until), len(set(names[0]))
    generator = np.random.default_rng(SEED)
    far = 0
    for rows in random_rows(size):
        first = generator.permuted(np.tile(np.arange(size) < count, (rows, 1)), axis=1).astype(np.int64)
        low, high = evaluate(statistic, sample, first), evaluate(statistic, sample, 1 - first)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = high / low
            far += int((np.maximum(ratios, 1 / ratios) - 1 >= distance(value) - 1e-12).sum())
    return (far + 1) / (DRAWS + 1)


def _quotient(before: Sequence[float], after: Sequence[float], statistic: Statistic) -> float | None:
    if not before or not after:
        return None
    low, high = (
        float(evaluate(statistic, gather(side, [0] * len(side)), np.ones((1, 1), np.int64))[0])
        for side in (before, after)
    )
    return high / low if low else None


class Gathered(NamedTuple):
    """Samples in order, so that a statistic of any choice of their groups is quickly found."""

    values: Values
    """Sorted, shape (n,)."""
    until: Counts
    """How many of a group's values are among the first 1, 2 … n: shape (groups, n)."""
    sums: Values
    """Of each group's values, shape (groups,)."""


def gather(samples: Sequence[float], names: Sequence[Hashable] | None) -> Gathered:
    """Return samples with what they were measured with; without names each is a group of its own."""
    numbers: dict[Hashable, int] = {}
    group = np.asarray([numbers.setdefault(name, len(numbers)) for name in names or range(len(samples))], np.int64)
    values = np.asarray(samples, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    until = np.cumsum(group[order] == np.arange(len(numbers))[:, None], axis=1)
    return Gathered(values[order], until, np.bincount(group, values).astype(np.float64))


def random_rows(width: int) -> Iterator[int]:
    """Yield how many of `DRAWS` rows of that width to hold at once."""
    at_once = max(1, BLOCK // width)
    for start in range(0, DRAWS, at_once):
        yield min(at_once, DRAWS - start)


def evaluate(statistic: Statistic, sample: Gathered, draws: Counts) -> Values:
    """Return a statistic for each row of `draws`, shape (rows, groups): how often each group is in it.

    Percentiles are those of `fader.metrics.percentile`. A row without any value gives nan.
    """
    total = draws @ sample.until[:, -1]
    if statistic == "mean":
        with np.errstate(invalid="ignore"):
            mean: Values = draws @ sample.sums / total
        return mean
    place = (total - 1) * (int(statistic[1:]) / 100)
    low = np.floor(place).astype(np.int64)
    below = sample.values[_place(sample, draws, low)]
    above = sample.values[_place(sample, draws, np.minimum(low + 1, total - 1))]
    found: Values = below + (above - below) * (place - low)
    return np.where(total > 0, found, np.nan)


def _place(sample: Gathered, draws: Counts, rank: Counts) -> Counts:
    """Return, for each row, where in the sorted values the one of that rank (from 0) is: by halving, all rows at once."""
    low = np.zeros(len(draws), np.int64)
    high = np.full(len(draws), len(sample.values) - 1)
    while (low < high).any():
        middle = (low + high) // 2
        enough = (draws * sample.until[:, middle].T).sum(axis=1) > rank
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low


def mann_whitney(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return the two-sided p of the Mann-Whitney U test; None without samples on a side.

    Ties get their mean rank. Up to `EXACT` samples the chance is counted over all ways to split these very ranks into
    two sides, which is right with ties too; above, it is the normal approximation with tie and continuity correction.
    """
    count = len(before)
    if not before or not after:
        return None
    ranks, sizes = double_ranks(np.asarray([*before, *after], dtype=np.float64))
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
    return min(1.0, 2 / math.comb(before + after, before))


def double_ranks(values: Values) -> tuple[Counts, Counts]:
    """Return twice the mean rank of each value (a whole number), and the sizes of the groups of equal values."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    return (2 * ends - sizes + 1)[group], sizes


def _counted(ranks: Counts, count: int, observed: int) -> float:
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
