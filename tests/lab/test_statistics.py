from __future__ import annotations

from itertools import combinations
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from fader.lab import statistics
from fader.lab.statistics import (
    ALPHA,
    Statistic,
    aligned,
    compare,
    distance,
    mann_whitney,
    permutation,
    ratio,
    self_spread,
    smallest_p,
)
from fader.metrics import percentile
from hypothesis import given, settings
from hypothesis import strategies as st

MALES, FEMALES = [19.0, 22, 16, 29, 24], [20.0, 11, 17, 12]
"""The example in scipy's documentation of the test, U = 17: p is 0.1111 counted, 0.1113 by the normal approximation."""


def test_published_values() -> None:
    assert mann_whitney(MALES, FEMALES) == pytest.approx(0.1111111111)
    assert mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert mann_whitney([1.0], [1.0]) == 1.0


def brute_force(before: list[int], after: list[int]) -> float:
    """The definition, written down: all ways to choose which values are `before`."""
    together = [*before, *after]
    order = sorted(together)
    rank = {value: order.index(value) + 1 + (order.count(value) - 1) / 2 for value in together}
    middle = len(before) * (len(together) + 1) / 2
    sums = [
        abs(sum(rank[together[i]] for i in chosen) - middle)
        for chosen in combinations(range(len(together)), len(before))
    ]
    seen = abs(sum(rank[value] for value in before) - middle)
    return sum(one >= seen for one in sums) / len(sums)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.lists(st.integers(0, 4), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_ties_are_counted_as_the_definition_says(before: list[int], after: list[int]) -> None:
    assert mann_whitney(before, after) == pytest.approx(brute_force(before, after))


def test_the_normal_approximation_agrees_with_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    sides = [
        (generator.normal(0, 1, 30).round(1), generator.normal(shift, 1, 30).round(1)) for shift in (0.2, 0.5, 0.8)
    ]
    exact = [mann_whitney(before.tolist(), after.tolist()) for before, after in sides]
    monkeypatch.setattr(statistics, "EXACT", 0)
    approximate = [mann_whitney(before.tolist(), after.tolist()) for before, after in sides]
    assert approximate == pytest.approx(exact, abs=0.005)
    assert mann_whitney(MALES, FEMALES) == pytest.approx(0.1113468865)
    assert mann_whitney([1.0] * 50, [1.0] * 50) == 1.0


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    held = 0
    for _ in range(100):
        before, after = generator.lognormal(0, 0.2, 20), generator.lognormal(np.log(1.3), 0.2, 20)
        found = ratio(before.tolist(), after.tolist())
        assert found is not None
        held += found.low <= 1.3 <= found.high
    assert 0.90 <= held / 100 <= 0.99


def test_equal_input_gives_equal_output() -> None:
    assert compare(MALES, FEMALES) == compare(list(MALES), list(FEMALES))


def test_what_is_not_defined_is_none() -> None:
    assert ratio([0.0, 0.0], [1.0]) is None
    assert ratio([], [1.0]) is None
    assert mann_whitney([], [1.0]) is None
    assert compare([], [1.0]).doubt == "no samples"
    assert self_spread([0.0], [1.0]) is None
    assert distance(0.5) == distance(2.0) == 1.0


def noise(generator: np.random.Generator, n: int, drift: float) -> npt.NDArray[np.float64]:
    """Times per token as a shared machine gives them: 3 % of spread, now and then a slow one, and a slow wander."""
    wander = np.cumsum(generator.normal(0, drift, n))
    return 20 * np.exp(generator.normal(0, 0.03, n) + wander) * np.where(generator.random(n) < 0.05, 1.4, 1.0)


def trial(generator: np.random.Generator, factor: float, n: int = 12, drift: float = 0.0) -> bool:
    """Whether an ABAB run of n and n calls them different, with A/A halves measured before it."""
    base = noise(generator, 2 * n, drift)
    spread = self_spread(base[0::2].tolist(), base[1::2].tolist())
    run = noise(generator, 2 * n, drift)
    return compare(run[0::2].tolist(), (run[1::2] * factor).tolist(), spread=spread).different


@pytest.mark.parametrize("drift", [0.0, 0.005])
def test_a_baseline_is_rarely_called_different_from_itself(drift: float) -> None:
    generator = np.random.default_rng(7)
    assert sum(trial(generator, 1.0, drift=drift) for _ in range(200)) <= 200 * 2 / 40 / 2


@pytest.mark.parametrize("drift", [0.0, 0.005])
def test_ten_percent_are_found(drift: float) -> None:
    generator = np.random.default_rng(8)
    assert sum(trial(generator, 1.1, drift=drift) for _ in range(100)) >= 100 * 18 / 20


def test_reasons_for_doubt() -> None:
    few = compare([1, 2, 3], [7, 8, 9])
    assert (few.different, few.doubt) == (False, "too few samples to tell: 3 and 3")
    assert smallest_p(3, 3) > ALPHA > smallest_p(5, 5)
    same = compare([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])
    assert (same.different, same.doubt) == (False, "p = 1")
    before, after = [float(i) for i in range(100, 108)], [float(i) for i in range(110, 118)]
    assert compare(before, after).different
    assert compare(before, after, spread=0.05).different
    assert compare(before, after, spread=0.2).doubt == "the baseline differed from itself by 20.0%"


def test_cases_that_differ_do_not_hide_what_the_setting_did() -> None:
    """Prompts of 10 and 1,000 ms under a change of 10 %: pooled ranks see the prompts, aligned ones the change."""
    before = [10.0, 10.1, 9.9, 10.2, 1000, 1010, 990, 1020]
    after = [value * 1.1 for value in before]
    cases = ["short"] * 4 + ["long"] * 4
    assert not compare(before, after).different
    left, right = aligned(before, after, (cases, cases))
    found = compare(left, right)
    assert found.different
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1.1, rel=0.02)
    assert aligned([0.0], [0.0], (["a"], ["a"])) == ([0.0], [0.0])


@given(st.lists(st.floats(0.1, 9), min_size=1, max_size=30), st.sampled_from([50, 95, 99]))
@settings(max_examples=40, deadline=None)
def test_percentiles_are_those_of_the_metrics(samples: list[float], percent: int) -> None:
    found = ratio([1.0], samples, cast("Statistic", f"p{percent}"))
    assert found is not None
    assert found.value == pytest.approx(percentile(samples, percent))


def test_a_longer_tail_is_found_where_the_median_is_the_same() -> None:
    generator = np.random.default_rng(3)
    before = generator.normal(20, 1, 200).tolist()
    after = [
        value * 3 if place % 10 == 0 else value for place, value in enumerate(generator.normal(20, 1, 200).tolist())
    ]
    assert not compare(before, after).different
    tail = compare(before, after, "p95")
    assert tail.different
    assert tail.ratio is not None
    assert tail.ratio.value > 2
    assert compare(before[:19], after[:19], "p95").doubt == "too few samples to tell: 19 and 19"


def test_gaps_of_one_reply_are_one_witness() -> None:
    """Four replies of 50 gaps, one of them slow throughout: 200 gaps seem to agree, but only one reply does."""
    generator = np.random.default_rng(4)
    before = generator.normal(20, 0.2, 200).tolist()
    after = [
        value * (1.5 if place < 50 else 1.0) for place, value in enumerate(generator.normal(20, 0.2, 200).tolist())
    ]
    replies = [place // 50 for place in range(200)]
    assert compare(before, after, "mean").different
    judged = compare(before, after, "mean", together=(replies, replies))
    assert (judged.different, judged.doubt) == (False, "too few samples to tell: 4 and 4")


def test_a_permutation_is_as_likely_as_counting_says() -> None:
    """Of the 252 splits of ten values, the two extreme ones are as far as this one."""
    found = permutation([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], "mean")
    assert found == pytest.approx(2 / 252, abs=0.004)
    assert permutation([1.0], [], "mean") is None
