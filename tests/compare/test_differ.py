"""Where replies part, why, and which words differ; figures of made-up replies."""

from __future__ import annotations

import math

import msgspec
import pytest
from fader.compare import differ
from fader.compare.figures import distinct, figures, lines, repeat_rate
from fader.compare.values import Answer
from fader_plugins.turn import Numbers
from hypothesis import given
from hypothesis import strategies as st

from tests.compare.conftest import MakeDesk


def answers(desk: MakeDesk, *changes: str, **profile: object) -> list[Answer]:
    found = [column.answer() for column in desk(**profile).run(*changes)]
    assert all(found)
    return [answer for answer in found if answer is not None]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ("temperature=1.4", "settings"),
        ("seed=8", "seed"),
        ("seed=8 temperature=1.4", "settings and seed"),
        ("model=another seed=8", "model and seed"),
    ],
)
def test_the_cause_is_what_differs(desk: MakeDesk, changes: str, cause: str) -> None:
    one, other = answers(desk, "", changes)
    found = differ.divergence(one, other)
    assert found is not None
    at = next(place for place in range(24) if one.ids[place] != other.ids[place])
    assert (found.at, found.cause) == (at, cause)
    assert found.one == differ.Candidate(one.pieces[at], one.logprobs[at])
    assert found.other == differ.Candidate(other.pieces[at], other.logprobs[at])
    assert found.before == "".join(one.pieces[:at])[-40:]
    assert found.one.probability == pytest.approx(math.exp(one.logprobs[at]))
    assert str(found).startswith(f"parts at token {at}: ")


def test_a_switch_that_may_not_change_words_makes_a_near_tie(desk: MakeDesk) -> None:
    """Two turns with the same sampler and seed can only part by rounding; the gap is said."""
    one, other = answers(desk, "", "kv_cache=off")
    assert differ.divergence(one, other) is None
    changed = msgspec.structs.replace(other, ids=(*other.ids[:5], 0, *other.ids[6:]))
    found = differ.divergence(one, changed)
    assert found is not None
    assert (found.at, found.cause) == (5, "near-tie")
    assert "0.000 nats apart" in str(found)


def test_seeds_do_not_matter_to_greedy_columns(desk: MakeDesk) -> None:
    one, other = answers(desk, "temperature=0", "temperature=0 seed=8")
    assert one.record.request.sampler.seed != other.record.request.sampler.seed
    assert differ.cause(one.record, other.record) == "near-tie"


def test_a_shorter_reply_differs_only_where_it_ended_by_itself(desk: MakeDesk) -> None:
    one, other = answers(desk, "", "max_tokens=9")
    assert differ.divergence(one, other) is None
    numbers = msgspec.structs.replace(other.record.numbers, finish_reason="end")
    ended = msgspec.structs.replace(other, record=msgspec.structs.replace(other.record, numbers=numbers))
    found = differ.divergence(one, ended)
    assert found is not None
    assert (found.at, found.other.probability) == (9, None)
    assert "against the end" in str(found)


def test_words_are_aligned() -> None:
    pieces = differ.words("the red boat sails home", "the boat sails home now")
    assert [(piece.kind, piece.text.strip()) for piece in pieces] == [
        ("same", "the"),
        ("gone", "red"),
        ("same", "boat sails home"),
        ("new", "now"),
    ]


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_word_diff_holds_all_of_the_second_text(one: str, other: str) -> None:
    pieces = differ.words(one, other)
    assert "".join(piece.text for piece in pieces if piece.kind != "gone") == other


def test_what_words_are_like() -> None:
    """By hand: 1 2 1 2 3 has 3 of 5 different tokens, 3 of 4 different pairs, and repeats 2 of 5."""
    ids = (1, 2, 1, 2, 3)
    assert (distinct(ids, 1), distinct(ids, 2), repeat_rate(ids)) == (0.6, 0.75, 0.4)
    assert (distinct((), 1), distinct((1,), 2), repeat_rate(())) == (None, None, None)
    assert repeat_rate([1, *range(2, 35), 1]) == 0, "33 tokens back is too far to count"


def test_rounds_make_medians() -> None:
    rounds = [Numbers(ttft_ms=20, tpot_ms=None), Numbers(ttft_ms=60, tpot_ms=4.0)]
    found = figures(Numbers(ttft_ms=10, tpot_ms=2.0, drafted_tokens=3, proposed_tokens=4), (1,), (-0.5,), rounds)
    assert (found.ttft_ms, found.tpot_ms, found.runs, found.acceptance) == (20, 3.0, 3, 0.75)
    assert ("accepted", "75%") in lines(found)
    assert "distinct-2" not in dict(lines(found))
