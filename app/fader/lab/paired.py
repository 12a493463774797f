"""Whether two sides differ, told from rounds in which both were measured side by side.

A round is the unit of evidence. Its two sides share a moment and each has an engine of its own, so neither a machine that wanders
from minute to minute nor a process that happens to be slow for all its life passes for a difference. Knows numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from .statistics import (
    ALPHA,
    CONFIDENCE,
    DRAWS,
    ENOUGH,
    SEED,
    Judged,
    Ratio,
    Statistic,
    Values,
    double_ranks,
    doubt,
    evaluate,
    gather,
    random_rows,
)

Rounds: TypeAlias = Sequence[Sequence[float]]
"""Samples of one side, round by round; the other side has as many rounds, and none is empty."""


def compare(before: Rounds, after: Rounds, statistic: Statistic = "p50", spread: float | None = None) -> Judged:
    """Return whether `after` differs from `before`; the three conditions are those of `statistics.compare`.

    Medians and means: each round gives one ratio, the middle one counts, and Wilcoxon's signed-rank test asks whether the
    rounds agree on the direction. Tails need more samples than a round has: they are taken over all rounds, and the test
    swaps the sides of rounds.
    """
    if statistic in ("p50", "mean"):
        logs = _logs(before, after, statistic)
        found, p = _middle(logs), (None if logs is None else signed_rank(logs.tolist()))
    else:
        found, p = _tail(before, after, statistic)
    sizes = sum(map(len, before)), sum(map(len, after))
    if p is not None and smallest_p(len(before)) >= ALPHA:
        why = f"too few rounds to tell: {len(before)}"
    else:
        why = doubt(found, p, spread, sizes, few=min(sizes) < ENOUGH[statistic])
    return Judged(
        statistic=statistic,
        ratio=found,
        p=p,
        before_n=sizes[0],
        after_n=sizes[1],
        spread=spread,
        different=not why,
        doubt=why,
    )


def ratio(before: Rounds, after: Rounds, statistic: Statistic = "p50") -> Ratio | None:
    """Return the ratio alone, as `compare` gives it; None where it is not defined."""
    if statistic in ("p50", "mean"):
        return _middle(_logs(before, after, statistic))
    return _tail(before, after, statistic)[0]


def smallest_p(rounds: int) -> float:
    """Return the smallest p that so many rounds can give: all of them in one direction."""
    return min(1.0, 2 / 2.0**rounds)


def signed_rank(differences: Sequence[float]) -> float:
    """Return the two-sided p of Wilcoxon's signed-rank test (1945), counted over all signs; zeros are left out.

    Ties get their mean rank. `chances[s]` is how likely the doubled ranks of the positive ones add up to s.
    """
    values = np.asarray([one for one in differences if one], dtype=np.float64)
    if not len(values):
        return 1.0
    ranks, _ = double_ranks(np.abs(values))
    most, positive = int(ranks.sum()), int(ranks[values > 0].sum())
    chances = np.zeros(most + 1)
    chances[0] = 1.0
    for rank in ranks:
        chances[rank:], chances[:rank] = (chances[rank:] + chances[: most + 1 - rank]) / 2, chances[:rank] / 2
    far = np.abs(2 * np.arange(most + 1) - most) >= abs(2 * positive - most)
    return min(1.0, float(chances[far].sum()))


def _logs(before: Rounds, after: Rounds, statistic: Statistic) -> Values | None:
    """Return the logarithm of each round's ratio; None where a round has none."""
    if not before:
        return None
    of = np.median if statistic == "p50" else np.mean
    low, high = (np.asarray([of(one) for one in side], dtype=np.float64) for side in (before, after))
    if (low <= 0).any() or (high <= 0).any():
        return None
    logs: Values = np.log(high / low)
    return logs


def _middle(logs: Values | None) -> Ratio | None:
    if logs is None:
        return None
    drawn = np.random.default_rng(SEED).integers(0, len(logs), (DRAWS, len(logs)))
    return _ratio(math.exp(float(np.median(logs))), np.exp(np.median(logs[drawn], axis=1)))


def _tail(before: Rounds, after: Rounds, statistic: Statistic) -> tuple[Ratio | None, float | None]:
    if not before:
        return None, None
    count = len(before)
    names = [(side, number) for side, rounds in enumerate((before, after)) for number in range(count)]
    sample = gather(
        [value for side in (before, after) for one in side for value in one],
        [name for name, one in zip(names, (*before, *after), strict=True) for _ in one],
    )
    whole = np.ones((1, count), np.int64)
    nothing = np.zeros_like(whole)

    def ratios(first: Values, second: Values) -> Values:
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Values = evaluate(statistic, sample, second.astype(np.int64)) / evaluate(
                statistic, sample, first.astype(np.int64)
            )
        return found

    value = float(ratios(np.hstack([whole, nothing]), np.hstack([nothing, whole]))[0])
    if not math.isfinite(value) or value <= 0:
        return None, None
    generator = np.random.default_rng(SEED)
    drawn, swapped, far = [], 0, 0
    for rows in random_rows(2 * count * len(sample.values)):
        draws = generator.multinomial(count, np.full(count, 1 / count), rows)
        drawn.append(ratios(np.hstack([draws, 0 * draws]), np.hstack([0 * draws, draws])))
        stay = generator.integers(0, 2, (rows, count))
        other = ratios(np.hstack([stay, 1 - stay]), np.hstack([1 - stay, stay]))
        far += int((np.abs(np.log(other)) >= abs(math.log(value)) - 1e-12).sum())
        swapped += rows
    found = np.concatenate(drawn)
    return _ratio(value, found[np.isfinite(found)]), (far + 1) / (swapped + 1)


def _ratio(value: float, drawn: Values) -> Ratio:
    edge = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [edge, 1 - edge])
    return Ratio(value=value, low=float(low), high=float(high))
