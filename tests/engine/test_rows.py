"""Several turns on one engine: cancelling, failing and waiting concern only the turn they belong to."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fader.engine.engine import Engine
from fader.headless import Headless
from fader.profiles import ContextTable
from fader_backends.base import Extension, Message, Scores
from fader_backends.echo import EchoBackend, EchoSession
from fader_backends.errors import NotSupported, OutOfMemory
from fader_plugins.registry import Registry
from fader_plugins.testing import reply
from fader_plugins.turn import (
    AnyEvent,
    Failed,
    Finished,
    GenerationRequest,
    Prefilled,
    Restored,
    Started,
    Token,
)

Ask = Callable[..., GenerationRequest]
SAMPLED: dict[str, Any] = {
    "load": {"noise": 1.5},
    "max_tokens": 24,
    "change": {"ignore_end": True},
    "plugins": {"sampler": {"seed": 7, "temperature": 1.0, "top_p": 1.0, "min_p": 0.0}},
}
"""A request whose reply is far from the echo: each token is drawn."""


def of(events: Sequence[AnyEvent], request: GenerationRequest) -> list[AnyEvent]:
    return [event for event in events if event.request_id == request.id]


def solo(registry: Registry, request: GenerationRequest) -> tuple[int, ...]:
    with Headless(registry) as engine:
        return reply(engine.run(request))[1]


def cancelling(registry: Registry, when: Callable[[AnyEvent], bool], target: str) -> Headless:
    """An engine on which `target` is cancelled as soon as an event fits."""

    def watch(event: AnyEvent) -> None:
        if when(event):
            engine.engine.cancel(target)

    engine = Headless(registry, watch)
    return engine


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("kv", [True, False])
def test_rows_together_give_solo_ids(registry: Registry, ask: Ask, count: int, kv: bool) -> None:
    """Rows of different prompts in one batch draw exactly what each draws alone."""
    plugins = {**SAMPLED["plugins"], "kv_cache": {"on": kv}}
    requests = [ask(f"{n}" * (5 + 9 * n), owner=f"{n}", **{**SAMPLED, "plugins": plugins}) for n in range(count)]
    want = [solo(registry, request) for request in requests]
    with Headless(registry) as engine:
        events = engine.run(*requests)
    assert want == [reply(of(events, request))[1] for request in requests]
    tokens = [event.request_id for event in events if isinstance(event, Token)]
    assert sorted(tokens) != tokens, "the rows did take turns"


def test_more_turns_than_rows_wait(registry: Registry, ask: Ask) -> None:
    """With two rows the third turn starts when one of the two is done, and all are right."""
    requests = [ask("abc" * (n + 1), owner=f"{n}", context=ContextTable(rows=2)) for n in range(5)]
    with Headless(registry) as engine:
        events = engine.run(*requests)
    assert ["abc" * (n + 1) for n in range(5)] == [reply(of(events, request))[0] for request in requests]
    running = most = 0
    for event in events:
        running += isinstance(event, Started) - isinstance(event, Finished)
        most = max(most, running)
    assert most == 2


def test_cancel_while_waiting(registry: Registry, ask: Ask) -> None:
    """A turn cancelled before it began ends without having been started, and the running one is untouched."""
    first, second = (ask("abc", owner=name, context=ContextTable(rows=1)) for name in "ab")
    with cancelling(registry, lambda event: isinstance(event, Token), second.id) as engine:
        events = engine.run(first, second)
    assert reply(of(events, first))[0] == "abc"
    (end,) = of(events, second)
    assert isinstance(end, Finished)
    assert (end.reason, end.ids) == ("cancelled", ())


def test_cancel_in_prefill(registry: Registry, ask: Ask) -> None:
    """Within one chunk of the cancel the turn is over, without text; the next turn is right and reuses the chunks."""
    request = ask("x" * 100, chunk=10)
    with cancelling(registry, lambda event: isinstance(event, Prefilled) and event.done == 30, request.id) as engine:
        events = engine.run(request)
        assert max(event.done for event in events if isinstance(event, Prefilled)) == 30
        assert isinstance(events[-1], Finished)
        assert (events[-1].reason, reply(events)) == ("cancelled", ("", ()))
        events = engine.run(ask("x" * 100, chunk=10))
        assert reply(events)[0] == "x" * 100
        assert [event.reused for event in events if isinstance(event, Restored)] == [30]


def test_cancel_in_decode_leaves_the_other_row_alone(registry: Registry, ask: Ask) -> None:
    """The cancelled reply keeps its tokens up to then; the other row's ids equal a solo run; the next turn extends."""
    first, second = ask("one", owner="a", **SAMPLED), ask("two", owner="b", **SAMPLED)
    want, partial = solo(registry, second), solo(registry, first)[:6]

    def at_six(event: AnyEvent) -> bool:
        return isinstance(event, Token) and (event.request_id, event.index) == (first.id, 5)

    with cancelling(registry, at_six, first.id) as engine:
        events = engine.run(first, second)
        assert (want, partial) == (reply(of(events, second))[1], reply(of(events, first))[1])
        end = of(events, first)[-1]
        assert isinstance(end, Finished)
        assert end.reason == "cancelled"
        text, ids = reply(of(events, first))
        talk = [Message("user", "one"), Message("assistant", text, ids), Message("user", "more")]
        (restored,) = [e for e in engine.run(ask(talk, owner="a", **SAMPLED)) if isinstance(e, Restored)]
        assert restored.difference is None
        assert end.context_used - 1 == restored.reused, "all but the last token, which was not evaluated"


def test_cancel_from_another_thread(registry: Registry, ask: Ask) -> None:
    """A cancel from another thread in the middle of an evaluation ends the turn, and the engine takes the next."""
    started, ended = threading.Event(), threading.Event()
    ends: list[AnyEvent] = []

    def emit(event: AnyEvent) -> None:
        if isinstance(event, Token):
            started.set()
        if isinstance(event, Finished | Failed):
            ends.append(event)
            ended.set()

    engine = Engine(registry, emit)
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        slow = ask("z" * 500, load={"noise": 0.0, "step_ms": 2.0})
        engine.submit(slow)
        assert started.wait(10)
        engine.cancel(slow.id)
        assert ended.wait(10)
        ended.clear()
        engine.submit(ask("ok", load={"noise": 0.0, "step_ms": 2.0}))
        assert ended.wait(10)
    finally:
        engine.close()
        thread.join(10)
    assert not thread.is_alive()
    assert [event.reason for event in ends if isinstance(event, Finished)] == ["cancelled", "end"]


def broken(monkeypatch: pytest.MonkeyPatch, fault: Callable[[Scores], Scores], at: int) -> None:
    """Make evaluations go wrong for sessions of at least `at` tokens whose text holds a '#'."""
    evaluate = EchoBackend.evaluate

    def broken_evaluate(self: EchoBackend, work: Sequence[Extension]) -> list[Scores]:
        hit = [ord("#") in (*e.session.tokens, *e.tokens) and len(e.session.tokens) + len(e.tokens) >= at for e in work]
        if any(hit):
            fault(np.zeros((1, 1), dtype=np.float32))
        scores = evaluate(self, work)
        return [fault(one) if bad else one for one, bad in zip(scores, hit, strict=True)]

    monkeypatch.setattr(EchoBackend, "evaluate", broken_evaluate)


def raising(error: Exception) -> Callable[[Scores], Scores]:
    def fault(scores: Scores) -> Scores:
        raise error

    return fault


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (lambda scores: scores * np.float32(math.nan), "BadScores"),
        (lambda scores: scores * 0 - np.float32(math.inf), "BadScores"),
        (raising(OutOfMemory("No room.")), "OutOfMemory"),
        (raising(RuntimeError("odd")), "TurnError"),
    ],
)
@pytest.mark.parametrize("at", [0, 12])
def test_a_row_fails_only_for_itself(
    registry: Registry,
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    fault: Callable[[Scores], Scores],
    kind: str,
    at: int,
) -> None:
    """Whatever a batch raises, in prefill or decode, only the row at fault fails, with what it had; the engine goes on."""
    broken(monkeypatch, fault, at)
    bad, good = ask("#" * 6, owner="a"), ask("abcdefghijkl", owner="b")
    with Headless(registry) as engine:
        events = engine.run(bad, good)
        end = of(events, bad)[-1]
        assert isinstance(end, Failed)
        assert kind == end.failure.kind
        assert (("#" * 6)[: len(end.ids)], bool(at)) == (bytes(end.ids).decode(), bool(end.ids))
        assert reply(of(events, good))[0] == "abcdefghijkl"
        assert reply(engine.run(ask("fine", owner="a")))[0] == "fine"
    assert ("RuntimeError: odd" in capfd.readouterr().err) == (kind == "TurnError"), "unforeseen errors reach the log"


def test_out_of_memory_drops_idle_sessions_first(registry: Registry, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """While sessions of earlier turns are held, a turn that finds no memory gives those up instead of failing."""
    with Headless(registry) as engine:
        engine.run(ask("idle", owner="other"))
        evaluate = EchoBackend.evaluate

        def tight(self: EchoBackend, work: Sequence[Extension]) -> list[Scores]:
            if len(self.sessions) > 1:
                raise OutOfMemory("No room.")
            return evaluate(self, work)

        monkeypatch.setattr(EchoBackend, "evaluate", tight)
        assert reply(engine.run(ask("new", owner="me")))[0] == "new"


def test_a_session_that_cannot_be_rewound(registry: Registry, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the model cannot cut, that turn fails and says so; the other row and the engine go on."""
    rewind = EchoSession.rewind

    def stiff(self: EchoSession, length: int) -> None:
        if ord("#") in self.tokens and length < len(self.tokens):
            raise NotSupported("This model cannot forget.")
        rewind(self, length)

    monkeypatch.setattr(EchoSession, "rewind", stiff)
    plugins = {"kv_cache": {"on": False}}
    bad, good = ask("##", owner="a", plugins=plugins), ask("good", owner="b", plugins=plugins)
    with Headless(registry) as engine:
        events = engine.run(bad, good)
    end = of(events, bad)[-1]
    assert isinstance(end, Failed)
    assert end.failure.kind == "NotSupported"
    assert reply(of(events, good))[0] == "good"
