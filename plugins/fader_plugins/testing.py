"""The laws every backend and every plugin must pass, as functions that raise AssertionError with the figures.

For authors: call them from your own tests. Knows no engine; laws about turns take a `Turns` (`fader.headless.turns`).
`exact` compares bit for bit; otherwise logits may differ by `tolerance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import TypeAlias, cast

import numpy as np
from fader_backends.base import Backend, Best, Extension, Message, Scores, Session

from .turn import AnyEvent, Begun, Failed, Finished, GenerationRequest, RequestDraft, Restored, Token

CLOCK = datetime(2026, 1, 2, 3, 4, 5)
Turns: TypeAlias = Callable[[GenerationRequest], Sequence[AnyEvent]]
"""Runs one turn to its end on an engine that keeps its sessions between calls; returns the events."""


def feed(session: Session, tokens: Sequence[int], chunk: int) -> Scores:
    """Extend a session in chunks; return the last position's scores, shape (1, vocabulary)."""
    for start in range(0, len(tokens), chunk):
        scores = session.extend(tokens[start : start + chunk], 1)
    return scores


def scored(backend: Backend, work: Sequence[Extension]) -> list[Scores]:
    """Evaluate in one call, for all scores; that is what must come, since no extension may do without."""
    found = backend.evaluate(work)
    assert all(isinstance(one, np.ndarray) for one in found), "whole rows were asked for"
    return cast("list[Scores]", list(found))


def assert_equal(one: Scores, other: Scores, what: str, tolerance: float = 0.0) -> None:
    """Compare scores of equal shape; the message says how far apart they are."""
    assert one.shape == other.shape, f"{what}: shapes {one.shape} and {other.shape}"
    gap = float(np.max(np.abs(one - other))) if one.size else 0.0
    assert gap <= tolerance, f"{what}: logits differ by up to {gap:g}, allowed {tolerance:g}"


def check_sessions(backend: Backend, tokens: Sequence[int], chunk: int = 32, tolerance: float = 0.0) -> None:
    """Laws of sessions (2 and 3): rewound, forked, saved, batched and drafted scores equal those of a fresh evaluation.

    `tokens`: at least 8 ids. All sessions opened here are closed again.
    """
    assert len(tokens) >= 8, "give at least 8 tokens"
    half = len(tokens) // 2
    fresh = backend.open()
    want_half = feed(fresh, tokens[:half], chunk)
    want = feed(fresh, tokens[half:], chunk)
    assert list(fresh.tokens) == list(tokens), "a session holds the tokens it was extended by"

    fresh.rewind(half)
    assert list(fresh.tokens) == list(tokens[:half]), "rewind keeps the beginning"
    assert_equal(feed(fresh, tokens[half:], chunk), want, "after rewind", tolerance)

    twin = fresh.fork()
    twin.rewind(half)
    assert_equal(feed(twin, tokens[half:], chunk), want, "in a fork", tolerance)
    assert list(fresh.tokens) == list(tokens), "a fork leaves its origin alone"
    twin.close()

    state = fresh.save()
    moved = backend.open()
    moved.load(state)
    moved.rewind(half)
    assert_equal(feed(moved, tokens[half:], chunk), want, "after save and load", tolerance)
    moved.close()

    rows = [backend.open() for _ in range(2)]
    scores: list[Scores] = []
    for start in range(0, half, chunk // 2):
        part = tokens[start : min(start + chunk // 2, half)]
        scores = scored(backend, [Extension(row, part, 1) for row in rows])
    for row, one in zip(rows, scores, strict=True):
        assert_equal(one, want_half, "with two rows in one batch", tolerance)
        row.close()

    fresh.rewind(half)
    guess = [*tokens[half : half + 3], tokens[0]]
    drafted = fresh.extend(guess, len(guess))
    fresh.rewind(half)
    singly = [fresh.extend([token], 1) for token in guess]
    assert_equal(drafted, np.concatenate(singly), "of several drafted positions", tolerance)
    fresh.close()


def check_best(backend: Backend, tokens: Sequence[int], tolerance: float = 0.0) -> None:
    """Whoever asks `evaluate` for the best few scores gets these, best first, of equal ones the lower token, or all."""
    session = backend.open()
    wanted = session.extend(tokens, 3)
    for count in (1, 5, 200):
        session.rewind(0)
        (found,) = backend.evaluate([Extension(session, tokens, 3, count)])
        for one, row in zip(found, wanted, strict=True):
            order = np.argsort(-row, kind="stable")[:count]
            few = one if isinstance(one, Best) else Best(order.tolist(), one[order].tolist())
            assert_equal(np.array(few.scores, np.float32), row[order], f"of the {count} best", tolerance)
            assert_equal(row[few.tokens], row[order], f"of the {count} best tokens", tolerance)
    session.close()


def check_injection(backend: Backend, texts: Iterable[str], control: Iterable[int]) -> None:
    """Law 7: whatever text a message holds, the prompt has the control tokens of the same prompt with plain text."""
    forbidden = set(control)
    for role in ("user", "system"):
        for text in texts:
            said = backend.chat(_talk(role, text), CLOCK)
            plain = backend.chat(_talk(role, "plain words"), CLOCK)
            got, want = ([token for token in ids if token in forbidden] for ids in (said, plain))
            assert got == want, f"{role} text {text!r} changed the control tokens from {want} to {got}"


def _talk(role: str, text: str) -> list[Message]:
    if role == "system":
        return [Message("system", text), Message("user", "plain words")]
    return [Message("user", text)]


def reply(events: Sequence[AnyEvent]) -> tuple[str, tuple[int, ...]]:
    """Return a turn's text and ids. Raises AssertionError when the turn failed."""
    end = events[-1]
    assert not isinstance(end, Failed), f"the turn failed: {end.failure}"
    assert isinstance(end, Finished), f"the turn did not end: {end}"
    return "".join(event.text for event in events if isinstance(event, Begun | Token)) + end.text, end.ids


def check_toggles(
    turns: Callable[[], Turns],
    plan: Callable[[Mapping[str, bool]], RequestDraft],
    names: Sequence[str],
    prompts: Sequence[str],
) -> None:
    """Law 3: every combination of the switches `names` gives the same ids over a conversation of `prompts`.

    `plan` returns a draft with those switches; `turns` starts a fresh engine. Law 1 is checked on the way: what one
    turn asked and answered is the beginning of what the next one asks.
    """
    wanted: list[tuple[int, ...]] | None = None
    for combination in product((True, False), repeat=len(names)):
        switches = dict(zip(names, combination, strict=True))
        got = list(converse(turns(), plan, switches, prompts))
        wanted = wanted or got
        assert got == wanted, f"{switches} gave other ids: {first_difference(got, wanted)}"


def converse(
    run: Turns, plan: Callable[[Mapping[str, bool]], RequestDraft], switches: Mapping[str, bool], prompts: Sequence[str]
) -> Iterable[tuple[int, ...]]:
    """Hold a conversation; yield each reply's ids, checking that reused and new tokens make up the prompt."""
    messages: list[Message] = []
    for number, prompt in enumerate(prompts):
        messages.append(Message("user", prompt))
        draft = plan(switches)
        draft.messages = list(messages)
        events = run(draft.freeze(f"turn-{number}", 0))
        text, ids = reply(events)
        for event in events:
            if isinstance(event, Restored):
                assert event.difference is None, f"turn {number} is no extension of the one before: {event.difference}"
                assert event.reused == 0 or switches.get("prefix_cache", True), "reused although switched off"
        messages.append(Message("assistant", text, ids))
        yield ids


def first_difference(got: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> str:
    """Return where two conversations part."""
    for turn, (one, other) in enumerate(zip(got, wanted, strict=False)):
        for place, (a, b) in enumerate(zip(one, other, strict=False)):
            if a != b:
                return f"turn {turn}, token {place}: {a} instead of {b}"
        if len(one) != len(other):
            return f"turn {turn}: {len(one)} tokens instead of {len(other)}"
    return "nowhere"
