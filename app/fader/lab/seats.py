"""Engines of an experiment, one per side: in a process of its own, or in this one for tests.

Knows how to wait for turns, not what they are for.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

import psutil
from fader_backends.errors import NotSupported
from fader_plugins.registry import Registry
from fader_plugins.turn import AnyEvent, Failed, Finished, GenerationRequest

from ..engine.engine import Engine
from ..engine.remote import EngineProcess

Watch: TypeAlias = Callable[[AnyEvent], None]
"""Is given each event as it comes; may submit, cancel or kill."""
Wanted: TypeAlias = Callable[[], bool]
"""Asked between events: False once a person has asked to stop."""
PATIENCE_S = 0.2
"""How often a wait looks whether the program was interrupted."""


class Seat(Protocol):
    """An engine with somebody who waits for it."""

    def ask(self, request: GenerationRequest, watch: Watch, wanted: Wanted) -> None:
        """Run a turn, and whatever `watch` submits meanwhile, to the end; stop all of it when it is not wanted any more."""
        ...

    def submit(self, request: GenerationRequest) -> None:
        """Send one more turn while `ask` waits."""
        ...

    def cancel(self, request_id: str) -> None:
        """Stop a turn soon."""
        ...

    def kill(self) -> None:
        """End the engine's process as if memory had run out. Raises NotSupported."""
        ...

    def close(self) -> None:
        """End the engine."""
        ...


class Here:
    """An engine on the caller's thread."""

    def __init__(self, registry: Registry, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.engine = Engine(registry, self._emit, clock)
        self._watch: Watch = lambda _: None
        self._wanted: Wanted = lambda: True

    def _emit(self, event: AnyEvent) -> None:
        self._watch(event)
        if not self._wanted():
            self.engine.cancel(event.request_id)

    def ask(self, request: GenerationRequest, watch: Watch, wanted: Wanted) -> None:
        """See `Seat`."""
        self._watch, self._wanted = watch, wanted
        self.engine.submit(request)
        self.engine.run_until_idle()

    def submit(self, request: GenerationRequest) -> None:
        """See `Seat`."""
        self.engine.submit(request)

    def cancel(self, request_id: str) -> None:
        """See `Seat`."""
        self.engine.cancel(request_id)

    def kill(self) -> None:
        """See `Seat`."""
        raise NotSupported("An engine in this process cannot be killed by itself.")

    def close(self) -> None:
        """See `Seat`."""
        self._watch = lambda _: None
        self.engine.close()
        self.engine.run_until_idle()


class Apart:
    """An engine in a process of its own, so that its memory peak and its caches are its side's alone."""

    def __init__(self, log: Path, plugin_folder: Path | None) -> None:
        self._events: queue.SimpleQueue[AnyEvent] = queue.SimpleQueue()
        self._open: set[str] = set()
        self.process = EngineProcess(log, plugin_folder, self._events.put)
        self.process.start()

    def ask(self, request: GenerationRequest, watch: Watch, wanted: Wanted) -> None:
        """See `Seat`."""
        self.submit(request)
        told = False
        while self._open:
            if not told and not wanted():
                told = True
                for request_id in self._open:
                    self.process.cancel(request_id)
            try:
                event = self._events.get(timeout=PATIENCE_S)
            except queue.Empty:
                continue
            if isinstance(event, Finished | Failed):
                self._open.discard(event.request_id)
            watch(event)

    def submit(self, request: GenerationRequest) -> None:
        """See `Seat`."""
        self._open.add(request.id)
        self.process.submit(request)

    def cancel(self, request_id: str) -> None:
        """See `Seat`."""
        self.process.cancel(request_id)

    def kill(self) -> None:
        """See `Seat`."""
        if (pid := self.process.pid) is not None:
            psutil.Process(pid).kill()

    def close(self) -> None:
        """See `Seat`."""
        self.process.close()
