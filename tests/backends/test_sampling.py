"""The sampler chain against a naive reference, its draw against exact probabilities, and what it refuses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fader_backends.base import FORBIDDEN, SamplerSettings
from fader_backends.errors import BadScores, BadValue
from fader_backends.sampling import Floats, chain, check, draw, uniform
from fader_backends.sampling.candidates import STRIDE, everything
from fader_backends.sampling.scores import penalised
from hypothesis import assume, given, settings
from hypothesis import strategies as st

LARGEST_SEED = 2**64 - 1
FEW = settings(max_examples=150, deadline=None)
grid = st.one_of(st.integers(-12, 12).map(lambda n: n / 2), st.just(-math.inf))
"""Scores on a grid: ties are common, and borders fall exactly or clearly aside."""
vectors = st.lists(grid, min_size=1, max_size=200).filter(lambda scores: max(scores) > -math.inf)


def floats(scores: Sequence[float]) -> Floats:
    return np.array(scores, dtype=np.float32)


def softmax(scores: Sequence[float]) -> list[float]:
    best = max(scores)
    odds = [math.exp(score - best) for score in scores]
    return [one / sum(odds) for one in odds]


def by_rank(kept: dict[int, float]) -> list[int]:
    return sorted(kept, key=lambda token: (-kept[token], token))


def reference(scores: Sequence[float], s: SamplerSettings) -> dict[int, float]:
    """The chain as its documentation says it, one candidate at a time, in double precision."""
    kept = {token: score for token, score in enumerate(scores) if score > -math.inf}
    best = max(kept.values())
    if s.top_k:
        kept = {token: kept[token] for token in by_rank(kept)[: s.top_k]}
    if s.top_p < 1.0:
        ranked, mass, few = by_rank(kept), 0.0, []
        share = dict(zip(kept, softmax(list(kept.values())), strict=True))
        for token in ranked:
            few.append(token)
            mass += share[token]
            assume(abs(mass - s.top_p) > 1e-5)  # a border within rounding is nobody's mistake
            if mass >= s.top_p:
                break
        kept = {token: kept[token] for token in few}
    if s.min_p > 0.0:
        floor = math.log(s.min_p)
        assume(all(abs(score - best - floor) > 1e-5 for score in kept.values()))
        kept = {token: score for token, score in kept.items() if score - best >= floor}
    return {token: kept[token] / s.temperature for token in sorted(kept)}


def left(scores: Floats, s: SamplerSettings, history: Sequence[int] = ()) -> dict[int, float]:
    tokens, kept, *_ = chain(s).candidates(scores, history)
    return {int(token): float(score) for token, score in zip(tokens, kept, strict=True) if score > -math.inf}


@FEW
@given(
    vectors,
    st.sampled_from([0, 1, 2, 3, 7, 40, 500]),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.95, 0.999, 1.0]),
    st.sampled_from([0.0, 0.01, 0.05, 0.3, 1.0]),
    st.sampled_from([0.25, 0.7, 1.0, 1.7]),
)
def test_chain_equals_reference(
    scores: list[float], top_k: int, top_p: float, min_p: float, temperature: float
) -> None:
    """Candidates and their probabilities are those of the naive chain, ties and impossible tokens included."""
    s = SamplerSettings(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    only_best = {by_rank(dict(enumerate(scores)))[0]: max(scores) / temperature}
    want = reference(scores, s) if top_p else only_best
    got = left(floats(scores), s)
    assert list(want) == list(got)
    assert softmax(list(want.values())) == pytest.approx(softmax(list(got.values())), abs=1e-5)


@pytest.mark.parametrize("size", [1, STRIDE - 1, STRIDE, STRIDE + 1, 7 * STRIDE + 13, 49152 + 5])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_top_k_on_vocabularies_of_any_size(size: int, k: int) -> None:
    """The grouped search finds the k best, also in the tail that fills no group and with many ties."""
    generator = np.random.default_rng(size + k)
    for scores in (
        generator.normal(0, 3, size).astype(np.float32),
        generator.integers(0, 3, size).astype(np.float32),
        np.concatenate([np.zeros(size - 1), [9.0]]).astype(np.float32),
    ):
        want = sorted(np.argsort(-scores, kind="stable")[:k].tolist())
        assert want == list(left(scores, SamplerSettings(temperature=1.0, top_k=k)))


def test_k_larger_than_the_vocabulary_keeps_all() -> None:
    """A top_k beyond the vocabulary is no cut."""
    assert left(floats([1, 0, 2]), SamplerSettings(temperature=1.0, top_k=1000)) == {0: 1.0, 1: 0.0, 2: 2.0}


def test_top_k_drops_the_impossible() -> None:
    """Tokens of probability zero do not fill up a top_k."""
    scores = floats([-math.inf, 1, -math.inf, 2, -math.inf])
    assert list(left(scores, SamplerSettings(temperature=1.0, top_k=4))) == [1, 3]


@pytest.mark.parametrize(
    "off",
    [
        {"top_k": 0},
        {"top_p": 1.0},
        {"min_p": 0.0},
        {"repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0},
        {"repeat_penalty": 3.0, "frequency_penalty": 2.0, "presence_penalty": 2.0, "penalty_window": 0},
    ],
)
def test_off_value_is_the_identity(off: dict[str, Any]) -> None:
    """Each sampler at its off value leaves every score as it was, bit for bit."""
    scores = np.random.default_rng(3).normal(0, 4, 300).astype(np.float32)
    tokens, kept, *_ = chain(SamplerSettings(temperature=1.0, **off)).candidates(scores, list(range(100)))
    assert list(range(300)) == tokens.tolist()
    assert scores.tobytes() == kept.astype(np.float32).tobytes()


def test_greedy_takes_the_lowest_of_the_best() -> None:
    """Temperature 0 keeps one candidate, and of equal ones the lower id, with certainty."""
    pick = chain(SamplerSettings(seed=9))(floats([1, 5, 5, 2]), [])
    assert pick[:2] == (1, 0.0)


@FEW
@given(
    st.lists(st.integers(-8, 8).map(float), min_size=8, max_size=20),
    st.lists(st.integers(0, 30), max_size=80),
    st.sampled_from([0.5, 1.0, 1.3]),
    st.sampled_from([-0.5, 0.0, 0.7]),
    st.sampled_from([-0.25, 0.0, 1.5]),
    st.sampled_from([-1, 0, 1, 5, 64]),
)
def test_penalties_equal_reference(
    scores: list[float], history: list[int], repeat: float, frequency: float, presence: float, window: int
) -> None:
    """Repeat by sign, frequency per occurrence, presence once, in the window only; unknown ids are passed over."""
    recent = history if window < 0 else history[-window:] if window else []
    want = list(scores)
    for token, times in Counter(recent).items():
        if token < len(want):
            score = want[token]
            score = score * repeat if score <= 0 else score / repeat
            want[token] = score - times * frequency - presence
    given_scores = floats(scores)
    s = SamplerSettings(
        repeat_penalty=repeat, frequency_penalty=frequency, presence_penalty=presence, penalty_window=window
    )
    got = penalised(everything(given_scores), history, s).by_id().scores
    assert want == pytest.approx(got.tolist(), abs=1e-4)
    assert scores == given_scores.tolist(), "the caller's array is left alone"


def test_number_depends_on_seed_row_and_position_only() -> None:
    """The same three give the same number; each of them alone changes it; the history's content does not."""
    sample = chain(SamplerSettings(temperature=1.0, seed=5, row=2))
    scores = np.zeros(1000, dtype=np.float32)
    assert sample(scores, [1, 2, 3]) == sample(scores, [7, 8, 9])
    numbers = {uniform(seed, row, at) for seed in (0, 5, LARGEST_SEED) for row in (0, 1) for at in (0, 1, 4095)}
    assert len(numbers) == 18
    assert all(0.0 <= number < 1.0 for number in numbers)


def test_numbers_are_fixed_for_ever() -> None:
    """The stream is an interface: saved runs are replayed by it. Values are numpy's Philox at these keys."""
    want = [0.011546754286331562, 0.6158465803571243]
    assert want == [uniform(0, 0, 0), uniform(LARGEST_SEED, 3, 17)]


def test_a_dropped_candidate_does_not_shift_the_draw() -> None:
    """Removing tokens of no weight, or raising k beyond what is drawn, leaves each draw where it was."""
    scores = np.random.default_rng(8).normal(0, 2, 500).astype(np.float32)
    scores[250:] = -math.inf
    for position in range(50):
        history = [0] * position
        full = chain(SamplerSettings(temperature=1.0, seed=1))(scores, history)
        cut = chain(SamplerSettings(temperature=1.0, seed=1, top_k=250))(scores, history)
        assert full.token == cut.token
        assert full.logprob == pytest.approx(cut.logprob, abs=1e-5)


def test_draw_walks_in_id_order() -> None:
    """Whatever the order of weights, the number picks by the running sum over ids."""
    for odds in ([1, 2, 1], [2, 1, 1], [1, 1, 2]):
        edges = np.cumsum(odds) / 4
        for number in (0.0, 0.2, 0.3, 0.6, 0.8, 0.999):
            want = int(np.searchsorted(edges, number, side="right"))
            assert (want, 4.0) == draw(floats(odds), number)


@pytest.mark.parametrize("seed", [0, 12345, LARGEST_SEED])
def test_draws_follow_the_distribution(seed: int) -> None:
    """8,000 draws at temperature 0.8 pass a chi-square test against the exact probabilities (p = 0.001)."""
    scores = floats([2.0, -math.inf, 1.0, 0.0, 1.0, -1.0, 0.5])
    n, sample = 8_000, chain(SamplerSettings(temperature=0.8, seed=seed))
    histories = [range(position) for position in range(n)]
    counts = Counter(sample(scores, history).token for history in histories)
    share = softmax([score / 0.8 for score in scores.tolist()])
    assert counts[1] == 0, "an impossible token was drawn"
    chi = sum((counts[token] - n * p) ** 2 / (n * p) for token, p in enumerate(share) if p)
    assert chi < 20.5, "the 0.999 quantile of chi-square with 5 degrees of freedom"


@FEW
@given(vectors, st.integers(0, 400), st.sampled_from([0.3, 1.0, 2.0]))
def test_logprob_is_that_of_the_pick(scores: list[float], position: int, temperature: float) -> None:
    """The reported log-probability is the pick's own among the candidates that were left."""
    s = SamplerSettings(temperature=temperature, top_k=5, seed=4)
    pick = chain(s)(floats(scores), range(position))
    want = reference(scores, s)
    share = dict(zip(want, softmax(list(want.values())), strict=True))
    assert math.log(share[pick.token]) == pytest.approx(pick.logprob, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [[math.nan, 1.0], [1.0, math.inf], [-math.inf, -math.inf], [math.nan, math.nan]])
def test_scores_that_cannot_be_sampled(bad: list[float], temperature: float) -> None:
    """NaN, +inf and nothing but -inf are an error, greedy or not, with each sampler on."""
    for more in ({}, {"top_k": 1}, {"top_p": 0.5}, {"min_p": 0.5}):
        with pytest.raises(BadScores):
            chain(SamplerSettings(temperature=temperature, **more))(floats(bad), [])


@pytest.mark.parametrize("temperature", [1e-3, 1e-12, 1e-40, 5e-324])
def test_a_tiny_temperature_is_greedy(temperature: float) -> None:
    """However close to zero, the best token is chosen and nothing overflows."""
    scores = floats([3.0, -20.0, 6.5, 6.0])
    assert chain(SamplerSettings(temperature=temperature))(scores, [])[:2] == (2, 0.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 101.0),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", -0.01),
        ("top_p", 1.01),
        ("top_p", math.nan),
        ("min_p", 1.01),
        ("repeat_penalty", 0.0),
        ("frequency_penalty", -101.0),
        ("presence_penalty", 101.0),
        ("penalty_window", -2),
        ("seed", -1),
        ("seed", 2**64),
        ("row", -1),
    ],
)
def test_values_out_of_range(name: str, value: Any) -> None:
    """A value outside its range is refused before anything is sampled, and the message names it."""
    with pytest.raises(BadValue, match=name):
        chain(SamplerSettings(**{name: value}))


def test_ends_of_ranges_are_fine() -> None:
    """The ends themselves are allowed, and give a token."""
    for seed in (0, LARGEST_SEED):
        s = SamplerSettings(temperature=100.0, top_p=0.0, min_p=1.0, repeat_penalty=100.0, penalty_window=-1, seed=seed)
        check(s)
        assert chain(s)(floats([1, 2, 3]), [2]).token in (0, 1, 2)


def test_a_forbidden_token_never_comes_and_forbidding_all_is_said() -> None:
    """Logit bias reaches single tokens; nothing left to choose is an error, not a choice."""
    scores = floats([9, 1, 1, 0])
    forbid = {0: FORBIDDEN}
    picks = {
        chain(SamplerSettings(temperature=1.0, seed=seed, logit_bias=forbid))(scores, []).token for seed in range(60)
    }
    assert picks == {1, 2, 3}
    assert chain(SamplerSettings(logit_bias={3: 20.0}))(scores, []).token == 3
    with pytest.raises(BadScores):
        chain(SamplerSettings(temperature=1.0, logit_bias=dict.fromkeys(range(4), FORBIDDEN)))(scores, [])
    with pytest.raises(BadValue):
        chain(SamplerSettings(logit_bias={4: 1.0}))(scores, [])
