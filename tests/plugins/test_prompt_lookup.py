"""Prompt lookup: what it finds, where it stops, what it costs, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from time import perf_counter
from typing import Any

import pytest
from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.echo import EchoBackend
from fader_backends.errors import BadValue
from fader_plugins.ngrams import LONGEST, Index, Match, belief, kind
from fader_plugins.prompt_lookup import Plugin, info
from fader_plugins.turn import Draft, GenerationRequest, PluginState, RequestDraft
from hypothesis import given, settings
from hypothesis import strategies as st

END = 256


def naive(history: Sequence[int], low: int, high: int) -> Match | None:
    """The longest match of the last tokens, the last one among equals, by looking everywhere."""
    length = len(history)
    for size in range(min(high, length), low - 1, -1):
        for place in range(length - 1, size - 1, -1):
            if history[place - size : place] == history[length - size :]:
                while size < min(LONGEST, place) and history[place - 1 - size] == history[length - 1 - size]:
                    size += 1
                return Match(place, size)
    return None


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 3), max_size=60),
    st.integers(1, 4),
    st.integers(0, 4),
    st.lists(st.integers(1, 9), max_size=40),
)
def test_the_index_equals_a_naive_search(tokens: list[int], low: int, more: int, strides: list[int]) -> None:
    """However the text grows, token by token or in jumps, the index finds what looking everywhere finds."""
    index, end = Index(low, low + more), 0
    for stride in [*strides, 60]:
        end = min(end + stride, len(tokens))
        history = tokens[:end]
        assert index.find(history) == naive(history, low, low + more)


def test_a_step_costs_no_more_in_a_long_text() -> None:
    """The same number of lookups in a text twenty times as long takes no more than a few times as long."""

    def took(length: int) -> float:
        history = [(n * n) % 251 for n in range(length)]
        index = Index(2, 6)
        index.find(history)
        best = 1.0
        for _ in range(5):
            begin = perf_counter()
            for token in range(200):
                history.append(token % 7)
                index.find(history)
            best = min(best, perf_counter() - begin)
        return best

    assert took(20_000) < 4 * took(1_000)


def request(name: str = "turn", **changed: Any) -> GenerationRequest:
    draft = RequestDraft(
        owner="me",
        messages=[],
        model=ModelSpec(backend="echo"),
        context=ContextSpec(),
        now=datetime(2026, 1, 1),
        plugins={"prompt_lookup": PluginState(True, dict(changed))},
    )
    return draft.freeze(name, 0)


def plugin() -> Plugin:
    made = Plugin(info)
    made.engine_ready(EchoBackend(ModelSpec(backend="echo"), ContextSpec(), wait=lambda _: None))
    return made


def proposed(history: list[int], limit: int = 99, **changed: Any) -> list[int]:
    """What it proposes, after its first step, which always rests."""
    made, asked = plugin(), request(adaptive=False, **changed)
    made.propose_tokens(asked, history, limit)
    answer = made.propose_tokens(asked, history, limit)
    return list(answer.tokens) if answer else []


def test_it_guesses_what_followed_last_time() -> None:
    """The longest match wins over a later shorter one, the later of equals over the earlier; no match, no guess."""
    assert proposed([1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3], max_draft=1) == [4]
    assert proposed([1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3], max_draft=1) == [5]
    assert proposed([1, 2, 3]) == []
    assert proposed([]) == []


def test_where_a_guess_ends() -> None:
    """At the limit, at max_draft, before an end token; where the text ends it goes round."""
    assert proposed([1, 2, 3, 4, 5, 6, 1, 2], limit=2) == [3, 4]
    assert proposed([1, 2, 3, 4, 5, 6, 1, 2], max_draft=3) == [3, 4, 5]
    assert proposed([1, 2, 3, END, 5, 6, 1, 2]) == [3]
    assert proposed([1, 2, END, 5, 6, 1, 2]) == []
    assert proposed([1, 2, 1, 2], max_draft=5) == [1, 2, 1, 2, 1]


def test_long_matches_are_trusted_sooner() -> None:
    """The belief grows with the length of the match, so that an unknown model drafts in a copy and not in prose."""
    classes = [kind(length) for length in range(1, LONGEST + 9)]
    assert classes == sorted(classes)
    assert all(belief(one) < belief(other) for one, other in pairwise(sorted(set(classes))))
    made, asked, text = plugin(), request(), list(range(100, 150))
    history = [*text, 7, *text[:2]]
    answers = []
    for token in text[2:40]:
        answers.append(made.propose_tokens(asked, history, 30))
        history.append(token)
    drafted = [len(answer.tokens) for answer in answers if isinstance(answer, Draft)]
    assert drafted[0] == 0, "two tokens might be chance"
    assert drafted[-1] >= 8


def test_unevaluated_guesses_teach_as_well() -> None:
    """Wrong guesses that were never evaluated make it stay idle; each says so, with the ratio it expects."""
    made, asked = plugin(), request()
    history = [1, 2, 3]
    for number in range(40):
        history += [1, 2, 100 + number]  # what follows 1, 2 is never what followed it before
        history.pop()
        answer = made.propose_tokens(asked, history, 30)
        assert isinstance(answer, Draft)
        assert not answer.tokens
        assert answer.note.startswith("idle: drafts would take ")
        history.append(100 + number)
        made.propose_tokens(asked, history, 30)
    assert made.chances.of(kind(2)) < 0.15


def test_settings_that_contradict_each_other() -> None:
    """A shortest run above the longest is refused before anything is sent."""
    draft = RequestDraft(
        owner="me",
        messages=[],
        model=ModelSpec(backend="echo"),
        context=ContextSpec(),
        now=datetime(2026, 1, 1),
        plugins={"prompt_lookup": PluginState(True, {"min_ngram": 5, "max_ngram": 3})},
    )
    with pytest.raises(BadValue, match=r"min_ngram = 5 is above max_ngram = 3"):
        Plugin(info).plan_request(draft)
