"""Law 10: the engine may be killed at any moment; the conversation goes on with what was shown."""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fader.chat import Chat, Turn
from fader.engine.remote import EngineProcess
from fader.profiles import ContextTable
from fader.store import Store
from fader.switchboard import Switchboard
from fader_backends.errors import Failure
from fader_plugins.turn import AnyEvent, Token

KILLS = 30
LIMIT_S = 60.0


class Notes:
    """A viewer that remembers how turns ended."""

    def __init__(self) -> None:
        self.ended: list[Turn] = []

    def turn_began(self, turn: Turn) -> None: ...
    def turn_ended(self, turn: Turn) -> None:
        self.ended.append(turn)

    def path_changed(self) -> None: ...
    def queue_changed(self) -> None: ...
    def returned(self, text: str) -> None: ...
    def tell(self, failure: Failure) -> None: ...


Killable = tuple[Chat, EngineProcess, "queue.SimpleQueue[AnyEvent]", Notes]


@pytest.fixture
def start(tmp_path: Path, board: Callable[..., Switchboard]) -> Iterator[Callable[..., Killable]]:
    """Make a chat over an engine process; keyword arguments are profile keys."""
    engines: list[EngineProcess] = []

    def make(**keys: Any) -> Killable:
        events: queue.SimpleQueue[AnyEvent] = queue.SimpleQueue()
        engine = EngineProcess(tmp_path / "engine.log", None, events.put)
        engines.append(engine)
        ids, notes = count(), Notes()
        chat = Chat(
            Store.open(tmp_path / "fader.db", lambda: datetime.now(UTC)),
            board(**keys),
            engine,
            notes,
            now=lambda: datetime.now(UTC),
            seconds=time.monotonic,
            nanoseconds=time.perf_counter_ns,
            new_id=lambda: f"turn-{next(ids)}",
        )
        return chat, engine, events, notes

    yield make
    for engine in engines:
        engine.close()


def kill_at_random(made: Killable, kills: int, longest_s: float, prompt: str) -> None:
    """Kill the engine in the middle of turns; each keeps what was shown, and the next turn works on a new engine."""
    chat, engine, events, notes = made
    moments = random.Random(7)
    deaths = 0
    for number in range(kills):
        chat.new()
        chat.send(f"{number}: {prompt}")
        shown = ""
        pid = engine.pid
        assert pid is not None
        killer = threading.Timer(moments.uniform(0.0, longest_s), os.kill, (pid, signal.SIGKILL))
        killer.start()
        while chat.turn is not None:
            event = events.get(timeout=LIMIT_S)
            shown += event.text if isinstance(event, Token) else ""
            chat.on_event(event)
        killer.cancel()
        turn = notes.ended[-1]
        stored = chat.store.path(chat.leaf)[-1]
        assert stored.content.startswith(shown), f"kill {number}: shown text is not in the store"
        if turn.stats.failure is not None:
            deaths += 1
            assert turn.stats.failure.kind == "EngineDied"
            assert "SIGKILL" in turn.stats.failure.detail
            assert stored.state == "failed"
    assert deaths >= kills // 3, f"only {deaths} of {kills} kills hit a running turn"
    chat.send("still there?")
    while chat.turn is not None:
        chat.on_event(events.get(timeout=LIMIT_S))
    assert notes.ended[-1].stats.failure is None
    assert len([node for node in chat.nodes() if node.role == "user"]) == 2
    assert len(chat.store.conversations()) == kills


@pytest.mark.slow
def test_a_killed_echo_engine_costs_nothing_shown(start: Callable[..., Killable]) -> None:
    """30 kills between start, prefill and decode."""
    made = start(load={"step_ms": 3.0, "noise": 0.0}, chunk=64)
    kill_at_random(made, KILLS, 1.0, "Whatever was on the screen is in the store. " * 4)


@pytest.mark.slow
def test_a_killed_real_engine_costs_nothing_shown(start: Callable[..., Killable]) -> None:
    """30 kills of SmolLM2 between load, prefill and decode."""
    made = start(backend="llama.cpp", max_tokens=40, context=ContextTable(length=2048))
    kill_at_random(made, KILLS, 1.5, "Tell me about rivers.")
