"""Evaluating ahead: what is certain of a prompt is ready when it is sent, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from fader.engine.engine import Engine
from fader.profiles import ContextTable
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import Registry
from fader_plugins.testing import reply
from fader_plugins.turn import AnyEvent, GenerationRequest, Loading, Prepared, Restored, Trimmed

NOW = datetime(2026, 1, 1)


class Desk:
    """An engine, and requests over a growing conversation."""

    def __init__(self, registry: Registry, board: Switchboard, owner: str = "me") -> None:
        self.board = board
        self.owner = owner
        self.events: list[AnyEvent] = []
        self.engine = Engine(registry, self.events.append)
        self.count = 0

    def request(self, *texts: str) -> GenerationRequest:
        self.count += 1
        roles = ("user", "assistant")
        messages = [Message(roles[place % 2], text) for place, text in enumerate(texts)]  # type: ignore[arg-type]
        return self.board.plan(self.owner, messages, NOW).freeze(f"r{self.count}", 0)

    def prepare(self, *texts: str) -> None:
        self.engine.prepare(self.request(*texts))
        self.engine.run_until_idle()

    def run(self, *texts: str) -> tuple[tuple[int, ...], list[AnyEvent]]:
        self.events.clear()
        self.engine.submit(self.request(*texts))
        self.engine.run_until_idle()
        return reply(self.events)[1], list(self.events)


@pytest.fixture
def desk(registry: Registry, board: Callable[..., Switchboard]) -> Iterator[Desk]:
    made = board(plugins={"sampler": {"seed": 4, "temperature": 1.5}}, max_tokens=8)
    desk = Desk(registry, made)
    yield desk
    desk.engine.close()
    desk.engine.run_until_idle()


def restored(events: list[AnyEvent]) -> Restored:
    return next(event for event in events if isinstance(event, Restored))


def prepared(events: list[AnyEvent]) -> Prepared | None:
    return next((event for event in events if isinstance(event, Prepared)), None)


def test_typed_words_are_ready_at_enter(desk: Desk, registry: Registry, board: Callable[..., Switchboard]) -> None:
    """Ids equal those without evaluating ahead; nearly the whole prompt was ready; nothing was in vain."""
    want, events = desk.run("tell me a story about the sea")
    assert prepared(events) is None
    other = Desk(registry, desk.board, "you")
    other.prepare("tell me")
    other.prepare("tell me a story about the")
    got, events = other.run("tell me a story about the sea")
    account = prepared(events)
    assert want == got
    assert account is not None
    assert account.ready >= len("tell me a story about the")
    assert account.vain == 0
    assert restored(events).reused == account.ready
    other.engine.close()
    other.engine.run_until_idle()


def test_an_edit_takes_back_what_no_longer_holds(desk: Desk) -> None:
    """Other words than those that were typed first: the wrong ones are counted as evaluated in vain."""
    want, _ = desk.run("goodbye")
    other = "hello there my friend"
    desk.prepare(other)
    got, events = desk.run("goodbye")
    account = prepared(events)
    assert want == got
    assert account is not None
    assert account.vain > 0


def test_a_following_turn_is_prepared_over_the_reply(desk: Desk) -> None:
    """The finished reply and the border after it are evaluated before anything is typed."""
    ids, _ = desk.run("one")
    said = bytes(token for token in ids if token < 256).decode(errors="replace")
    desk.prepare("one", said, "")
    _, events = desk.run("one", said, "two")
    account = prepared(events)
    assert account is not None
    assert account.ready >= 1


def test_a_turn_interrupts_what_is_prepared(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """A wish that is put in beside a turn waits for it; the newest wish counts."""
    desk = Desk(registry, board(max_tokens=4))
    desk.engine.prepare(desk.request("x" * 200))
    desk.engine.prepare(desk.request("y" * 100))
    desk.engine.submit(desk.request("y" * 100 + " z"))
    desk.engine.run_until_idle()
    assert reply(desk.events)
    desk.engine.close()
    desk.engine.run_until_idle()


def test_typing_on_does_not_begin_the_load_anew(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """A wish that comes while the model is loaded for an older one waits for it; a turn does not."""
    desk = Desk(registry, board(max_tokens=4))
    later = [desk.request("hello there"), desk.request("hello there you")]
    loads: list[AnyEvent] = []

    def emit(event: AnyEvent) -> None:
        desk.events.append(event)
        if isinstance(event, Loading):
            loads.append(event)
            if later:
                (desk.engine.prepare if len(later) == 2 else desk.engine.submit)(later.pop(0))

    desk.engine.emit = desk.engine.model.emit = emit
    desk.engine.prepare(desk.request("hello"))
    desk.engine.run_until_idle()
    assert len(loads) == 1
    desk.engine.model.unload()
    desk.engine.prepare(desk.request("hello there"))
    desk.engine.run_until_idle()
    assert [event.request_id for event in loads[1:]] == ["r4", "r2"], (
        "the turn loads for itself, and shows how far it is"
    )
    desk.engine.close()
    desk.engine.run_until_idle()


def test_a_model_that_cannot_load_is_told_by_the_turn_only(
    registry: Registry, board: Callable[..., Switchboard]
) -> None:
    """Preparing fails without an event."""
    desk = Desk(registry, board(load={"nonsense": 1}))
    desk.prepare("hello")
    assert not [event for event in desk.events if not isinstance(event, Loading)]


def test_what_will_be_left_out_is_not_prepared(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """Where the oldest turns will not fit, the rest is evaluated as the turn will ask for it."""
    made = board(context=ContextTable(length=400), plugins={"kv_cache": {"when_full": "drop_oldest"}}, max_tokens=8)
    desk = Desk(registry, made)
    talk = [f"message {place} " + "long " * 12 for place in range(6)]
    desk.run("hello")
    desk.prepare(*talk, "and now what")
    _, events = desk.run(*talk, "and now what?")
    assert any(isinstance(event, Trimmed) for event in events)
    told = prepared(events)
    assert told is not None
    assert told.ready > 100
    assert told.vain == 0
    desk.engine.close()
    desk.engine.run_until_idle()
