"""A chat without a screen, to be killed: sends prompts, prints how much of the reply it has been given and when.

Run as `python driver.py FOLDER`; lines are `sent N`, `text LENGTH` and `done N`.
"""

from __future__ import annotations

import queue
import sys
import time
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from fader.chat import Chat, Turn
from fader.engine.remote import EngineProcess
from fader.profiles import Profile
from fader.store import Store
from fader.switchboard import Switchboard
from fader_backends.errors import Failure
from fader_plugins.registry import build
from fader_plugins.turn import AnyEvent

TEXT = "All work is lost, unless it is written down while it is made. " * 12


class Silent:
    """A viewer that looks away."""

    def turn_began(self, turn: Turn) -> None: ...
    def turn_ended(self, turn: Turn) -> None: ...
    def path_changed(self) -> None: ...
    def queue_changed(self) -> None: ...
    def returned(self, text: str) -> None: ...
    def tell(self, failure: Failure) -> None: ...


def main(folder: Path) -> None:
    """Chat until killed."""
    events: queue.SimpleQueue[AnyEvent] = queue.SimpleQueue()
    engine = EngineProcess(folder / "engine.log", None, events.put)
    profile = Profile(name="echo", backend="echo", load={"step_ms": 4.0, "noise": 0.0})
    ids = count()
    chat = Chat(
        Store.open(folder / "fader.db", lambda: datetime.now(UTC)),
        Switchboard(build(None), profile),
        engine,
        Silent(),
        now=lambda: datetime.now(UTC),
        seconds=time.monotonic,
        nanoseconds=time.perf_counter_ns,
        new_id=lambda: f"turn-{next(ids)}",
    )
    for number in count():
        chat.send(f"{number}: {TEXT}")
        print(f"sent {number}", flush=True)
        while chat.turn is not None:
            chat.on_event(events.get())
            if chat.turn is not None:
                print(f"text {len(chat.turn.text)}", flush=True)
        print(f"done {number}", flush=True)


main(Path(sys.argv[1]))
