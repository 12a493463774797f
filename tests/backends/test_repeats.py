"""DRY's search for repetitions against a plain search, on texts that repeat a lot."""

from __future__ import annotations

import numpy as np
from fader_backends.base import FORBIDDEN, SamplerSettings
from fader_backends.sampling.candidates import everything
from fader_backends.sampling.cuts import top_n_sigma
from fader_backends.sampling.scores import ROUNDS, common_ends, dry, penalised, repeats
from hypothesis import given, settings
from hypothesis import strategies as st

texts = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=40), min_size=1, max_size=4).map(
    lambda parts: [token for part in parts for token in part * 3]
)
"""Pieces written three times each, so that copies are longer than `ROUNDS` again and again."""


def plain(text: list[int], limit: int) -> dict[int, int]:
    longest: dict[int, int] = {}
    for end in range(len(text) - 1):
        length = 0
        while length <= end and text[end - length] == text[-1 - length]:
            length += 1
        if length:
            longest[text[end + 1]] = max(longest.get(text[end + 1], 0), min(length, limit))
    return longest


@settings(max_examples=300, deadline=None)
@given(texts, st.one_of(st.integers(1, 8), st.just(ROUNDS), st.just(10_000)))
def test_repeats_equal_a_plain_search(text: list[int], limit: int) -> None:
    """For each token the longest copy before it, at most `limit`."""
    assert repeats(text, limit) == plain(text, limit)


def test_common_ends() -> None:
    """The end of the text itself is not measured."""
    assert common_ends([1, 2, 1, 2, 1, 2]) == [0, 2, 0, 4, 0, 0]


def test_a_cap_on_the_exponent_is_a_cap_on_the_length() -> None:
    """A repetition so long that its penalty is the largest there is: stopping the search there changes nothing."""
    strong = SamplerSettings(dry_multiplier=0.5, dry_base=4.0, dry_window=-1)
    text = [1, 2, 3] * 200
    found = dry(everything(np.zeros(8, dtype=np.float32)), text, strong, {})
    assert found.scores[1] == np.float32(-0.5 * 4.0**63)


def test_top_n_sigma_passes_over_what_is_forbidden_and_bears_huge_penalties() -> None:
    """A forbidden token does not widen the spread; a penalty beyond float32's squares drops nothing and warns of nothing."""
    scores = np.array([5.0, 4.0, 0.0, 0.0, 0.0, 0.0], dtype=np.float32)
    forbidden = scores.copy()
    forbidden[5] = FORBIDDEN
    rest = everything(scores[:5])
    assert (top_n_sigma(everything(forbidden), 1.0).by_id().scores[:5] == top_n_sigma(rest, 1.0).by_id().scores).all()
    penalised_hard = scores.copy()
    penalised_hard[5] = -1e25
    assert (top_n_sigma(everything(penalised_hard), 1.0).by_id().scores == penalised_hard).all()


def test_given_scores_are_never_changed() -> None:
    """Steps after the first may work in place, but not on what the model gave."""
    row = np.ones(8, dtype=np.float32)
    s = SamplerSettings(repeat_penalty=1.5, dry_multiplier=1.0, dry_window=-1)
    text = [1, 2, 3, 1, 2, 3]
    dry(penalised(everything(row), text, s), text, s, {})
    assert (row == 1.0).all()
