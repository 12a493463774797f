"""Rounds whose two sides were measured next to each other: the test, the interval, and how often both are right."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from fader.lab.paired import compare, ratio, signed_rank, smallest_p
from hypothesis import given, settings
from hypothesis import strategies as st

Side = list[list[float]]


def test_published_values() -> None:
    """The example in scipy's documentation of the test: 15 differences in plant height, p = 0.0413."""
    differences = [6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75]
    assert signed_rank(differences) == pytest.approx(0.041259765625)
    assert signed_rank([1.0] * 8) == smallest_p(8) == 2 / 256
    assert signed_rank([0.0, 0.0]) == 1.0


def brute_force(differences: list[int]) -> float:
    """The definition, written down: all ways to choose the signs."""
    values = [value for value in differences if value]
    order = sorted(map(abs, values))
    ranks = [order.index(abs(value)) + 1 + (order.count(abs(value)) - 1) / 2 for value in values]
    seen = abs(sum(rank if value > 0 else -rank for rank, value in zip(ranks, values, strict=True)))
    sums = [
        abs(sum(rank * sign for rank, sign in zip(ranks, signs, strict=True)))
        for signs in product((1, -1), repeat=len(ranks))
    ]
    return sum(one >= seen for one in sums) / len(sums)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_ties_and_zeros_are_counted_as_the_definition_says(differences: list[int]) -> None:
    assert signed_rank(differences) == pytest.approx(brute_force(differences))


def measured(generator: np.random.Generator, rounds: int, factor: float, drift: float) -> tuple[Side, Side]:
    """Two sides on a shared machine that wanders; each engine is 2 % faster or slower for all its life."""
    wander = np.cumsum(generator.normal(0, drift, rounds))
    sides = [
        20
        * np.exp(wander[:, None] + generator.normal(0, 0.02, (rounds, 1)) + generator.normal(0, 0.03, (rounds, 3)))
        * np.where(generator.random((rounds, 3)) < 0.05, 1.4, 1.0)
        for _ in range(2)
    ]
    return sides[0].tolist(), (sides[1] * factor).tolist()


def trial(generator: np.random.Generator, factor: float, drift: float) -> bool:
    """Whether ten rounds call them different, with four of the baseline against itself before."""
    own = ratio(*measured(generator, 4, 1.0, drift))
    assert own is not None
    spread = max(own.value, 1 / own.value) - 1
    return compare(*measured(generator, 10, factor, drift), spread=spread).different


@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_a_baseline_is_rarely_called_different_from_itself(drift: float) -> None:
    generator = np.random.default_rng(7)
    assert sum(trial(generator, 1.0, drift) for _ in range(200)) <= 200 * 2 / 40 / 2


@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_ten_percent_are_found(drift: float) -> None:
    generator = np.random.default_rng(8)
    assert sum(trial(generator, 1.1, drift) for _ in range(100)) >= 100 * 18 / 20


def test_an_engine_that_is_slow_for_all_its_life_is_one_witness() -> None:
    """One round of ten is slower by half in all of its 50 gaps: 500 gaps seem to agree, but one round does."""
    generator = np.random.default_rng(4)
    before = generator.normal(20, 0.2, (10, 50)).tolist()
    after = generator.normal(20, 0.2, (10, 50))
    after[3] *= 1.5
    for statistic in ("p50", "mean", "p95"):
        judged = compare(before, after.tolist(), statistic)
        assert not judged.different, (statistic, judged)


def test_a_longer_tail_is_found_where_the_median_is_the_same() -> None:
    generator = np.random.default_rng(3)
    before, after = generator.normal(20, 1, (10, 40)), generator.normal(20, 1, (10, 40))
    after[:, ::10] *= 3
    assert not compare(before.tolist(), after.tolist()).different
    tail = compare(before.tolist(), after.tolist(), "p95")
    assert tail.different
    assert tail.ratio is not None
    assert tail.ratio.value > 2
    assert tail.ratio.low > 1


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    generator, held = np.random.default_rng(5), 0
    for _ in range(100):
        found = ratio(*measured(generator, 10, 1.3, 0.02))
        assert found is not None
        held += found.low <= 1.3 <= found.high
    assert 0.88 <= held / 100 <= 0.99


def test_reasons_for_doubt() -> None:
    few: Side = [[1.0]] * 7
    assert compare(few, [[2.0]] * 7).doubt == "too few rounds to tell: 7"
    same = [[float(i)] for i in range(1, 11)]
    assert compare(same, same).doubt == "p = 1"
    slower = [[value * 1.1 for value in one] for one in same]
    assert compare(same, slower).different
    assert compare(same, slower, spread=0.05).different
    assert compare(same, slower, spread=0.2).doubt == "the baseline differed from itself by 20.0%"
    assert compare([], []).doubt == "no samples"
    assert compare([[0.0]] * 9, [[1.0]] * 9).doubt == "not defined"
    assert compare(same, slower) == compare([list(one) for one in same], slower)
