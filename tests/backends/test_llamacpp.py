"""Sessions of the llama.cpp backend on the embedded model: exact in exact mode, calls all or nothing."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from fader_backends.base import Extension, Scores
from fader_backends.errors import BadScores, ContextFull, Interrupted, NotSupported, OutOfMemory
from fader_backends.llamacpp.backend import LlamaCpp
from fader_backends.llamacpp.session import LlamaSession

pytestmark = pytest.mark.slow

PROMPT_TEXT = "The quick brown fox jumps over the lazy dog and then goes on a long walk. "
NEXT_TEXT = "And so it was that the old man sat down by the river"


@pytest.fixture(scope="module")
def prompt(llama: LlamaCpp) -> list[int]:
    return llama.encode(PROMPT_TEXT * 5)[:80]


@pytest.fixture(scope="module")
def following(llama: LlamaCpp) -> list[int]:
    return llama.encode(NEXT_TEXT)


@pytest.fixture(autouse=True)
def clean(llama: LlamaCpp) -> Iterator[None]:
    yield
    llama.resume()
    for session in list(llama._sessions.values()):
        session.close()


def started(llama: LlamaCpp, prompt: list[int]) -> LlamaSession:
    session = llama.open()
    for start in range(0, len(prompt), 32):
        session.extend(prompt[start : start + 32], 0)
    return session


def one_by_one(session: LlamaSession, tokens: list[int]) -> Scores:
    return np.concatenate([session.extend([token]) for token in tokens])


@pytest.fixture(scope="module")
def plain(llama: LlamaCpp, prompt: list[int], following: list[int]) -> Scores:
    """Scores of plain decoding, nothing else going on: what everything else must equal."""
    session = started(llama, prompt)
    scores = one_by_one(session, following)
    session.close()
    return scores


def test_rewound(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    session = started(llama, prompt)
    session.extend(prompt[:20])
    session.rewind(len(prompt))
    assert session.tokens == prompt
    assert np.array_equal(one_by_one(session, following), plain)
    session.rewind(0)
    for start in range(0, len(prompt), 32):
        session.extend(prompt[start : start + 32], 0)
    assert np.array_equal(one_by_one(session, following), plain)
    with pytest.raises(ValueError, match="rewind"):
        session.rewind(10_000)


def test_forked_and_in_one_batch(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    sessions = [started(llama, prompt)]
    sessions += [sessions[0].fork() for _ in range(3)]
    with pytest.raises(OutOfMemory):
        llama.open()
    for step, token in enumerate(following):
        others = [Extension(session, prompt[step : step + 2], 2) for session in sessions[1:3]]
        scores = llama.evaluate([*others, Extension(sessions[0], [token], 1), Extension(sessions[3], [token], 1)])
        assert [len(rows) for rows in scores] == [2, 2, 1, 1]
        assert np.array_equal(scores[2][0], plain[step])
        assert np.array_equal(scores[3][0], plain[step])


def test_what_extend_returns_stays(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    """A batch only lends its scores; a session's own call gives them away."""
    session = started(llama, prompt)
    kept = [session.extend([token])[0] for token in following]
    assert np.array_equal(np.stack(kept), plain)


def test_saved_and_loaded(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    session = started(llama, prompt)
    state = session.save()
    session.extend(following)
    other = session.fork()
    other.load(state)
    assert other.tokens == prompt
    assert np.array_equal(one_by_one(other, following), plain)
    with pytest.raises(NotSupported):
        other.load(type(state)(state.tokens, "another", state.data))
    with pytest.raises(OutOfMemory):
        other.load(type(state)(state.tokens, state.key, state.data[:1000]))
    other.rewind(len(prompt))
    assert np.array_equal(one_by_one(other, following), plain), "a load that failed leaves the session as it was"
    empty = llama.open()
    other.load(empty.save())
    assert other.tokens == []


def test_several_rows_of_one_call(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    assert np.array_equal(started(llama, prompt).extend(following, len(following)), plain)
    assert np.array_equal(started(llama, prompt).extend(following, 3), plain[-3:])


def test_longer_than_a_batch(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    session = llama.open()
    scores = session.extend([*prompt, *following], len(following))
    assert len(session.tokens) > llama.context.batch
    assert np.array_equal(scores, plain)


def test_other_rows_change_no_bit(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    chance = random.Random(1)
    session = started(llama, prompt)
    others: list[LlamaSession] = []
    for step, token in enumerate(following):
        match chance.randrange(3):
            case 0 if len(others) < 3:
                others.append(llama.open())
                others[-1].extend(prompt[: chance.randint(1, 30)])
            case 1 if others:
                others.pop(chance.randrange(len(others))).close()
            case _ if others:
                others[-1].rewind(chance.randint(0, len(others[-1].tokens)))
        assert np.array_equal(session.extend([token])[0], plain[step])


def test_scores_belong_to_the_caller(llama: LlamaCpp, prompt: list[int]) -> None:
    session = llama.open()
    first = session.extend(prompt[:2])
    copy = first.copy()
    session.extend(prompt[2:4])
    assert np.array_equal(first, copy)
    assert first.dtype == np.float32
    assert first.shape == (1, llama.facts.vocabulary)


def test_a_full_context(llama: LlamaCpp, prompt: list[int]) -> None:
    session = started(llama, prompt)
    with pytest.raises(ContextFull, match="1,0"):
        session.extend([5] * (llama.context.length - len(prompt) + 1))
    assert session.tokens == prompt
    session.extend([5] * 40, 0)
    with pytest.raises(ContextFull):
        llama.evaluate([Extension(session, [5] * 64, 0)] * 1 + [Extension(llama.open(), [5] * 2000, 0)])
    assert len(session.tokens) == 120


def test_what_cannot_be_meant_is_refused(llama: LlamaCpp) -> None:
    session = llama.open()
    for work in (
        [Extension(session, [5] * (llama.context.batch + 1), 0)],
        [Extension(session, [5], 2)],
        [Extension(session, [5], 1), Extension(session, [6], 1)],
    ):
        with pytest.raises(ValueError, match=r"\d|twice"):
            llama.evaluate(work)
    session.close()
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.extend([5])
    assert llama.evaluate([]) == []
    assert llama.open().extend([], 0).shape == (0, llama.facts.vocabulary)


def test_a_token_that_is_none(llama: LlamaCpp, prompt: list[int]) -> None:
    session = started(llama, prompt)
    with pytest.raises(Exception, match="could not evaluate"):
        session.extend([10**6])
    assert session.tokens == prompt
    session.extend(prompt[:3])


def test_scores_that_are_no_numbers(
    llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = started(llama, prompt)
    poison = np.full(llama.facts.vocabulary, 1, np.float32)
    poison[1234] = np.nan
    with monkeypatch.context() as patch:
        patch.setattr(llama._live, "_scores_at", lambda pointer, place: poison.ctypes.data)
        with pytest.raises(BadScores):
            session.extend(following[:2], 2)
    assert np.array_equal(one_by_one(session, following), plain)


def test_interrupted(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    session = started(llama, prompt)
    begin = time.monotonic()
    session.extend(prompt * 11)
    unbroken = time.monotonic() - begin
    session.rewind(len(prompt))
    pressed = []

    def press() -> None:
        pressed.append(time.monotonic())
        llama.interrupt()

    threading.Timer(0.15, press).start()
    with pytest.raises(Interrupted):
        session.extend(prompt * 11)
    assert time.monotonic() - pressed[0] < max(0.2, unbroken / 2)
    assert session.tokens == prompt
    with pytest.raises(Interrupted):
        session.extend(following)
    llama.resume()
    assert np.array_equal(one_by_one(session, following), plain)
