"""What a chain says of its choice: probabilities before and after, and who removed whom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from fader_backends.base import FORBIDDEN, SamplerSettings
from fader_backends.odds import REMOVERS, Odds, bits
from fader_backends.sampling import chain
from hypothesis import given, settings
from hypothesis import strategies as st

SIZE = 400


def scores(seed: int = 0, size: int = SIZE, spread: float = 4.4) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(0, spread, size).astype(np.float32)


def odds(row: np.ndarray[tuple[int], np.dtype[np.float32]], watch: int = 10, **chosen: Any) -> tuple[int, Odds]:
    pick = chain(SamplerSettings(seed=3, **chosen), size=len(row), watch=watch)(row, [1, 2, 3])
    assert pick.odds is not None
    return pick.token, pick.odds


def reference(row: np.ndarray[tuple[int], np.dtype[np.float32]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Log-softmax in double precision, written down as it is defined."""
    wide = row.astype(np.float64)
    made: np.ndarray[tuple[int], np.dtype[np.float64]] = wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())
    return made


@given(
    seed=st.integers(0, 10**6), spread=st.sampled_from([0.1, 4.4, 30.0]), temperature=st.sampled_from([0.0, 0.7, 1.5])
)
@settings(max_examples=60, deadline=None)
def test_log_probabilities_and_entropy_are_those_of_a_softmax(seed: int, spread: float, temperature: float) -> None:
    row = scores(seed, spread=spread)
    token, found = odds(row, temperature=temperature, top_k=30, min_p=0.02)
    want = reference(row)
    assert found.logprob == pytest.approx(want[token], abs=1e-5)
    assert found.entropy == pytest.approx(-(np.exp(want) * want).sum(), abs=1e-4)
    seen = found.candidates()
    assert [one.logprob for one in seen] == sorted((one.logprob for one in seen), reverse=True)
    assert {one.token for one in seen} >= set(np.argsort(-row)[:10].tolist())
    for one in seen:
        assert one.logprob == pytest.approx(want[one.token], abs=1e-5)


def test_without_a_chain_nothing_changes() -> None:
    """Temperature 1 and no sampler: after is before, and everything is left."""
    row = scores()
    _, found = odds(row, temperature=1.0)
    assert found.left == SIZE
    for one in found.candidates():
        assert one.chain_logprob == pytest.approx(one.logprob, abs=1e-5)
        assert one.removed_by == ""


def test_what_is_left_adds_up() -> None:
    """Few candidates left: their probabilities after the chain add up to one, and the chosen one's is the pick's."""
    row = scores()
    pick = chain(SamplerSettings(seed=3, temperature=0.8, top_k=6), size=SIZE, watch=10)(row, [1])
    assert pick.odds is not None
    after = {one.token: one.chain_logprob for one in pick.odds.candidates() if one.chain_logprob is not None}
    assert pick.odds.left == len(after) == 6
    assert sum(map(math.exp, after.values())) == pytest.approx(1, abs=1e-6)
    assert after[pick.token] == pytest.approx(pick.logprob, abs=1e-6)


STEEP = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.0, -1.0, -2.0], dtype=np.float32)


@pytest.mark.parametrize(
    ("by", "chosen", "gone"),
    [
        ("top_k", {"top_k": 3}, {3, 4, 5, 6, 7}),
        ("top_p", {"top_p": 0.6}, {1, 2, 3, 4, 5, 6, 7}),
        ("min_p", {"min_p": 0.1}, {3, 4, 5, 6, 7}),
        ("top_n_sigma", {"top_n_sigma": 1.0}, {3, 4, 5, 6, 7}),
        ("xtc", {"xtc_probability": 1.0, "xtc_threshold": 0.2}, {0}),
        ("logit_bias", {"logit_bias": {0: FORBIDDEN}}, {0}),
        ("mirostat", {"mirostat": 2, "mirostat_tau": 0.5}, {1, 2, 3, 4, 5, 6, 7}),
        ("temperature", {"temperature": 0.0}, {1, 2, 3, 4, 5, 6, 7}),
    ],
)
def test_who_removed_whom(by: str, chosen: dict[str, Any], gone: set[int]) -> None:
    _, found = odds(STEEP, **{"temperature": 1.0, **chosen})
    removed = {one.token: one.removed_by for one in found.candidates() if one.removed_by}
    assert removed == dict.fromkeys(gone, by)


def test_the_first_to_remove_is_named() -> None:
    """top-k comes before top-p, so what both would drop is top-k's."""
    _, found = odds(STEEP, temperature=1.0, top_k=4, top_p=0.6)
    removed = {one.token: one.removed_by for one in found.candidates() if one.removed_by}
    assert removed == {**dict.fromkeys((4, 5, 6, 7), "top_k"), **dict.fromkeys((1, 2, 3), "top_p")}


def test_a_chosen_token_outside_the_likeliest_is_there() -> None:
    """XTC and a flat distribution choose far down; the record has the chosen one all the same."""
    row = scores(spread=0.01)
    token, found = odds(row, watch=1, temperature=1.0)
    assert token in [one.token for one in found.candidates()]


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_watching_changes_no_choice(seed: int) -> None:
    """The same tokens come with and without, also where a sampler learns from what it chose."""
    for more in ({}, {"mirostat": 1}, {"mirostat": 2}, {"adaptive_target": 0.3}, {"xtc_probability": 0.5}):
        chosen = SamplerSettings(seed=seed, temperature=1.1, top_p=0.95, **more)
        one, other = chain(chosen, size=SIZE), chain(chosen, size=SIZE, watch=10)
        history = [1]
        for step in range(5):
            row = scores(seed + step)
            pick, watched = one(row, history), other(row, history)
            assert (pick.token, pick.logprob) == (watched.token, watched.logprob)
            history.append(pick.token)


def test_masked_scores_are_no_candidates() -> None:
    row = scores()
    row[:395] = -np.inf
    _, found = odds(row, temperature=1.0)
    assert found.left == 5
    assert sorted(one.token for one in found.candidates()) == [395, 396, 397, 398, 399]


def test_numbers_of_removers_are_stored_so_they_stay() -> None:
    assert (
        *(
            "",
            "logit_bias",
            "grammar",
            "penalties",
            "dry",
            "top_n_sigma",
            "top_k",
            "typical_p",
            "top_p",
            "min_p",
            "xtc",
        ),
        *("temperature", "mirostat"),
    ) == REMOVERS


def test_bits() -> None:
    assert bits(math.log(0.25)) == pytest.approx(2.0)
    assert str(bits(0.0)) == "0.0"
