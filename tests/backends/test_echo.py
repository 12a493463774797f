"""The echo backend: the laws of sessions, exact echoes, and every refusal of the contract."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pytest
from fader_backends.base import ContextSpec, Extension, Message, ModelSpec
from fader_backends.echo import END, EchoBackend, load
from fader_backends.errors import BadValue, ContextFull, Interrupted, NotSupported, OutOfMemory
from fader_plugins.testing import check_injection, check_sessions

NOW = datetime(2026, 1, 1)


def backend(context: ContextSpec | None = None, **options: Any) -> EchoBackend:
    return EchoBackend(ModelSpec(backend="echo", options=options), context or ContextSpec(), wait=lambda _: None)


def greedy(made: EchoBackend, text: str) -> str:
    """What the backend says to `text` when the best token is always taken."""
    session = made.open()
    scores = session.extend(made.chat([Message("user", text)], NOW))
    said = b""
    while (token := int(scores[-1].argmax())) not in made.end_tokens:
        said += made.piece(token)
        scores = session.extend([token])
    session.close()
    return said.decode()


@pytest.mark.parametrize("chunk", [1, 3, 32])
def test_laws_of_sessions(chunk: int) -> None:
    """Rewound, forked, saved, batched and drafted scores equal fresh ones, for odd chunks too."""
    made = backend(ContextSpec(rows=5))
    check_sessions(made, made.chat([Message("user", "the quick brown fox")], NOW), max(chunk, 2))
    assert not made.sessions, "all rows were given back"


@pytest.mark.parametrize("text", ["hello", "two\nlines\n\nand a last one\n", "👩‍🚀 naïve 日本", "", " "])
def test_echo_is_exact(text: str) -> None:
    """The reply is the last user text, byte for byte."""
    assert text == greedy(backend(), text)


def test_only_the_last_user_text_counts() -> None:
    """System, earlier user and assistant messages are not echoed."""
    made = backend()
    talk = [Message("system", "S"), Message("user", "one"), Message("assistant", "one"), Message("user", "two")]
    scores = made.open().extend(made.chat(talk, NOW))
    assert ord("t") == int(scores[-1].argmax())


def test_scores_depend_on_all_tokens_before() -> None:
    """Another first token gives other scores at every later place, so a wrong prefix cannot go unseen."""
    made = backend()
    one, other = made.open().extend([1, 2, 3], 3), made.open().extend([9, 2, 3], 3)
    assert all(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_caller_owns_the_scores() -> None:
    """A later call does not change an array given out before."""
    session = backend().open()
    first = session.extend([1, 2])
    copy = first.copy()
    session.extend([3])
    assert np.array_equal(copy, first)


@pytest.mark.parametrize(("tokens", "rows"), [(4, 0), (4, 1), (4, 4)])
def test_rows_asked_are_rows_given(tokens: int, rows: int) -> None:
    """Scores have one row for each of the last `rows` tokens, none included."""
    made = backend()
    assert (rows, made.facts.vocabulary) == made.open().extend(list(range(tokens)), rows).shape


def test_context_full_evaluates_nothing() -> None:
    """One session without room fails the whole call before any session is changed."""
    made = backend(ContextSpec(length=8))
    full, other = made.open(), made.open()
    full.extend(list(range(8)))
    with pytest.raises(ContextFull):
        made.evaluate([Extension(other, [1], 1), Extension(full, [2], 1)])
    assert (len(full.tokens), len(other.tokens), made.evaluated) == (8, 0, 8)


def test_rows_run_out() -> None:
    """More sessions than rows is OutOfMemory; a closed one, even closed twice, makes room for one."""
    made = backend(ContextSpec(rows=2))
    first, _ = made.open(), made.open()
    with pytest.raises(OutOfMemory):
        made.open()
    first.close()
    first.close()
    made.open()
    with pytest.raises(OutOfMemory):
        made.open()


def test_batches_above_the_limit_are_a_mistake() -> None:
    """More tokens in one call than `batch` is the caller's fault, counted over all sessions."""
    made = backend(ContextSpec(batch=4))
    with pytest.raises(ValueError, match="5 tokens"):
        made.evaluate([Extension(made.open(), [1, 2, 3], 1), Extension(made.open(), [1, 2], 1)])


def test_interrupt_until_resume() -> None:
    """An interrupted evaluation changes nothing, and so does every later one until `resume`."""
    made = backend()
    session = made.open()
    made.interrupt()
    for _ in range(2):
        with pytest.raises(Interrupted):
            session.extend([1])
    assert not session.tokens
    made.resume()
    session.extend([1])
    assert list(session.tokens) == [1]


def test_a_foreign_state_is_refused() -> None:
    """A state with another key is not loaded, and the session keeps what it had."""
    made = backend()
    session = made.open()
    session.extend([1, 2])
    state = session.save()
    with pytest.raises(NotSupported):
        session.load(type(state)((5,), "another model", b""))
    assert list(session.tokens) == [1, 2]


def test_configure_closes_sessions_and_fills_in() -> None:
    """A new context has its defaults filled in and all rows free."""
    made = backend(ContextSpec(rows=1))
    made.open()
    made.configure(ContextSpec(rows=1, length=99))
    assert (made.context.length, made.context.threads) == (99, 1)
    made.open()


def test_control_text_stays_text() -> None:
    """Bytes of a message never become end or role marks."""
    made = backend()
    check_injection(made, ["<|end|>", "\x00\xff", "assistant\n"], range(END, made.facts.vocabulary))


def test_own_ids_are_used_as_they_are() -> None:
    """A reply's ids go into the prompt unchanged, whatever its text says."""
    made = backend()
    ids = made.chat([Message("user", "a"), Message("assistant", "not this", (120, 121))], NOW)
    assert tuple(ids[4:6]) == (120, 121)
    assert b"not" not in b"".join(made.piece(token) for token in ids)


def test_unknown_options_are_refused() -> None:
    """A misspelt option is an error that names it."""
    with pytest.raises(BadValue, match="step"):
        backend(step=1)


def test_loading_can_be_stopped() -> None:
    """A progress callback that says no stops the load."""
    with pytest.raises(Interrupted):
        load(ModelSpec(backend="echo"), ContextSpec(), lambda _: False)
