"""The backend contract (`backends/README.md`) as checks that anyone can run over a backend of theirs.

    @pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
    def test_contract(check):
        check(Subject(load, ModelSpec(backend="mine"), ContextSpec(length=512, rows=5, batch=64)))

Each check takes a `Subject` and raises AssertionError with what it found. Knows no backend and no test library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
import numpy as np
from fader_backends.base import Backend, ContextSpec, Extension, Loader, Message, ModelSpec, Scores
from fader_backends.errors import ContextFull, Interrupted, NotSupported, OutOfMemory, UsageError

from .testing import CLOCK, assert_equal, check_best, check_injection, check_sessions, scored

TEXT = "The keeper of the light counted the boats that came in before the storm, and wrote their names down. "


class Subject(NamedTuple):
    """A backend to check."""

    load: Loader
    model: ModelSpec
    context: ContextSpec
    """At least 5 rows, batches of 32, and a length of 256 or more."""
    tolerance: float = 0.0
    """How far a score may be from that of a fresh evaluation; 0: bit for bit."""
    hostile: Sequence[str] = ()
    """Texts of control tokens and others that must not become any."""
    control: Sequence[int] = ()
    """The tokens they must not become."""

    def ids(self, backend: Backend, count: int) -> list[int]:
        """Return so many tokens of plain text."""
        return backend.encode(TEXT * (1 + count // 10))[:count]


@contextmanager
def opened(subject: Subject, **context: int) -> Iterator[Backend]:
    """Load it, with other numbers of the context; free it afterwards."""
    backend = subject.load(subject.model, msgspec.structs.replace(subject.context, **context), lambda _: True)
    try:
        yield backend
    finally:
        backend.close()


def refuses(kind: type[BaseException], call: Callable[[], object], what: str) -> None:
    """Assert that a call raises."""
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{what} must raise {kind.__name__}")


def facts_are_filled_in(subject: Subject) -> None:
    """Context and facts say what came out."""
    with opened(subject, threads=0) as backend:
        assert backend.context.length >= 256
        assert backend.context.threads > 0, "threads are filled in"
        assert backend.facts.model
        assert backend.facts.vocabulary > max(backend.end_tokens), "end tokens are of the vocabulary"
        assert backend.end_tokens, "something ends a reply"
        assert backend.state_key


def state_equals_a_fresh_evaluation(subject: Subject) -> None:
    """Rewound, forked, moved, batched and drafted scores are those of a fresh evaluation, and all rows come back."""
    with opened(subject) as backend:
        check_sessions(backend, subject.ids(backend, 60), tolerance=subject.tolerance)
        for _ in range(subject.context.rows):
            backend.open()


def scores_are_rows_asked_for(subject: Subject) -> None:
    """One row for each of the last `rows` tokens, none included; the caller owns them."""
    with opened(subject) as backend:
        ids, session = subject.ids(backend, 12), backend.open()
        for rows in (0, 1, 4):
            scores = session.extend(ids[:4], rows)
            assert scores.shape == (rows, backend.facts.vocabulary)
            assert scores.dtype == np.float32
        first = backend.open().extend(ids[:2])
        copy = first.copy()
        session.extend(ids[4:])
        assert np.array_equal(first, copy), "a later call does not change scores given out before"


def rows_of_one_call_do_not_meet(subject: Subject) -> None:
    """A prompt, a checked draft, a single token and an empty part in one call: each as alone."""
    with opened(subject) as backend:
        ids = subject.ids(backend, 60)
        plan = [(ids[:30], ids[30:31], 1), (ids[7:20], ids[20:24], 4), ([], ids[3:20], 2), (ids[40:47], ids[47:52], 0)]
        alone: list[Scores] = []
        sessions = []
        for held, tokens, rows in plan:
            session = backend.open()
            if held:
                session.extend(held, 0)
            sessions.append(session)
            length = len(session.tokens)
            alone.append(session.extend(tokens, rows))
            session.rewind(length)
        together = scored(backend, [Extension(one, p[1], p[2]) for one, p in zip(sessions, plan, strict=True)])
        for place, (one, other) in enumerate(zip(together, alone, strict=True)):
            assert_equal(one, other, f"of row {place} in company", subject.tolerance)
            assert list(sessions[place].tokens) == [*plan[place][0], *plan[place][1]]


def the_best_scores_are_those_of_the_row(subject: Subject) -> None:
    """Who asks for the best few gets them, or the whole row."""
    with opened(subject) as backend:
        check_best(backend, subject.ids(backend, 12), subject.tolerance)


def forks_go_their_own_ways(subject: Subject) -> None:
    """Sessions that share a beginning do not see each other's ends, whoever goes on first."""
    with opened(subject) as backend:
        ids = subject.ids(backend, 60)
        origin = backend.open()
        origin.extend(ids[:20], 0)
        twins = [origin.fork(), origin.fork()]
        got = [
            origin.extend(ids[20:25]),
            twins[0].extend(ids[30:36]),
            twins[1].extend(ids[40:42]),
            origin.extend(ids[25:27]),
        ]
        twins[0].copy(origin)
        origin.rewind(22)
        got += [twins[0].extend(ids[27:29]), origin.extend(ids[50:53])]
        told = [(0, 25), (30, 36), (40, 42), (0, 27), (0, 29)]
        wanted = [ids[:20] + ids[start or 20 : end] for start, end in told] + [ids[:22] + ids[50:53]]
        for one in (origin, *twins):
            one.close()
        for number, (scores, tokens) in enumerate(zip(got, wanted, strict=True)):
            fresh = backend.open()
            fresh.extend(tokens[:-1], 0)
            assert_equal(scores, fresh.extend(tokens[-1:]), f"of step {number} among forks", subject.tolerance)
            fresh.close()


def a_full_context_evaluates_nothing(subject: Subject) -> None:
    """One session without room fails the whole call before any is changed."""
    with opened(subject) as backend:
        ids = subject.ids(backend, 30)
        full, other = backend.open(), backend.open()
        while len(full.tokens) < backend.context.length:
            full.extend(ids[: min(len(ids), backend.context.length - len(full.tokens))], 0)
        refuses(
            ContextFull,
            lambda: backend.evaluate([Extension(other, ids[:1], 1), Extension(full, ids[:1], 1)]),
            "no room",
        )
        assert (len(full.tokens), len(other.tokens)) == (backend.context.length, 0)
        full.rewind(backend.context.length - 1)
        full.extend(ids[:1])


def rows_run_out_and_come_back(subject: Subject) -> None:
    """More sessions than rows is OutOfMemory; closing, even twice, makes room for one."""
    with opened(subject) as backend:
        first = backend.open()
        for _ in range(subject.context.rows - 1):
            backend.open()
        refuses(OutOfMemory, backend.open, "a row too many")
        first.close()
        first.close()
        backend.open()
        refuses(OutOfMemory, backend.open, "a row too many")


def batches_have_a_limit(subject: Subject) -> None:
    """More tokens in one call than `batch` is the caller's mistake."""
    with opened(subject) as backend:
        one, other = backend.open(), backend.open()
        ids = (subject.ids(backend, 40) * subject.context.batch)[: backend.context.batch]
        refuses(
            ValueError, lambda: backend.evaluate([Extension(one, ids, 1), Extension(other, ids[:1], 1)]), "too many"
        )


def interrupted_until_resumed(subject: Subject) -> None:
    """An interrupted call changes nothing, and so does every later one until `resume`."""
    with opened(subject) as backend:
        ids, session = subject.ids(backend, 8), backend.open()
        session.extend(ids[:4], 0)
        backend.interrupt()
        for _ in range(2):
            refuses(
                Interrupted, lambda: backend.evaluate([Extension(session, ids[4:], 1)]), "while interrupted, a call"
            )
        assert list(session.tokens) == ids[:4]
        backend.resume()
        session.extend(ids[4:])
        assert list(session.tokens) == ids


def foreign_states_are_refused(subject: Subject) -> None:
    """A state with another key is not loaded, and the session keeps what it had."""
    with opened(subject) as backend:
        ids, session = subject.ids(backend, 8), backend.open()
        session.extend(ids, 0)
        state = msgspec.structs.replace(session.save(), key="of another model")
        refuses(NotSupported, lambda: session.load(state), "another key")
        assert list(session.tokens) == ids
        session.load(backend.open().save())
        assert not session.tokens, "an empty state empties"


def a_new_context_starts_empty(subject: Subject) -> None:
    """`configure` closes sessions, gives all rows back, and its numbers hold."""
    with opened(subject) as backend:
        for _ in range(subject.context.rows):
            backend.open()
        backend.configure(msgspec.structs.replace(subject.context, rows=2, batch=32))
        assert (backend.context.rows, backend.context.batch) == (2, 32)
        assert backend.open().extend(subject.ids(backend, 5)).shape == (1, backend.facts.vocabulary)


def prompts_extend_each_other(subject: Subject) -> None:
    """Law 1: the next prompt begins with the last one and its reply's own ids."""
    with opened(subject) as backend:
        messages = [Message("user", "hello there")]
        prompt = backend.chat(messages, CLOCK)
        reply = tuple(backend.encode("General talk"))
        messages += [Message("assistant", "General talk", reply), Message("user", "and more")]
        longer = backend.chat(messages, CLOCK)
        assert longer[: len(prompt) + len(reply)] == [*prompt, *reply]


def text_survives(subject: Subject) -> None:
    """Plain text goes to ids and back byte for byte, but for a space that some vocabularies put in front."""
    with opened(subject) as backend:
        for text in (TEXT, "naïve 日本 👩‍🚀", "a\n\n  b\t", *subject.hostile):
            bytes_ = b"".join(backend.piece(token) for token in backend.encode(text))
            assert bytes_.removeprefix(b" ") == text.encode().removeprefix(b" "), f"{text!r} came back as {bytes_!r}"
        assert backend.piece(backend.facts.vocabulary) == b"", "no token has no bytes"


def text_is_no_control_token(subject: Subject) -> None:
    """Law 7."""
    with opened(subject) as backend:
        check_injection(backend, subject.hostile, subject.control)
        for text in subject.hostile:
            assert not set(backend.encode(text)) & set(subject.control), f"{text!r} encodes as a control token"


def loading_can_be_stopped(subject: Subject) -> None:
    """A progress callback that says no stops the load; options nobody knows are refused."""
    refuses(Interrupted, lambda: subject.load(subject.model, subject.context, lambda _: False), "progress saying no")
    odd = msgspec.structs.replace(subject.model, options={**subject.model.options, "no_such_option": 1})
    refuses(UsageError, lambda: subject.load(odd, subject.context, lambda _: True), "an unknown option")


def memory_is_told_and_closing_is_safe(subject: Subject) -> None:
    """`memory` answers, and closing twice is fine."""
    with opened(subject) as backend:
        session = backend.open()
        session.extend(subject.ids(backend, 8), 0)
        told = backend.memory()
        assert all(one is None or one >= 0 for one in (told.weights_bytes, told.kv_bytes, told.free_bytes))
        backend.close()


CHECKS: dict[str, Callable[[Subject], None]] = {
    check.__name__: check
    for check in (
        facts_are_filled_in,
        state_equals_a_fresh_evaluation,
        scores_are_rows_asked_for,
        rows_of_one_call_do_not_meet,
        the_best_scores_are_those_of_the_row,
        forks_go_their_own_ways,
        a_full_context_evaluates_nothing,
        rows_run_out_and_come_back,
        batches_have_a_limit,
        interrupted_until_resumed,
        foreign_states_are_refused,
        a_new_context_starts_empty,
        prompts_extend_each_other,
        text_survives,
        text_is_no_control_token,
        loading_can_be_stopped,
        memory_is_told_and_closing_is_safe,
    )
}
"""All checks by name."""
