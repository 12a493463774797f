"""`Frames`: hands the engine's events to the screen about ten times a second, and sleeps when there is nothing to do.

Knows no widget. Events arrive on any thread; drawing happens on the screen's loop only.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable

from fader_plugins.turn import AnyEvent

FASTEST_S, SLOWEST_S = 0.1, 0.5
DEAR, CHEAP = 0.08, 0.05
"""Shares of a core above which frames get rarer, and below which they get more frequent again."""


class Frames:
    """`draw` is called with the events since the last frame and returns whether more are expected."""

    def __init__(self, draw: Callable[[list[AnyEvent]], bool]) -> None:
        self.draw = draw
        self.others: list[Callable[[list[AnyEvent]], bool]] = []
        """Screens over the chat that are given the same events; each returns whether it expects more."""
        self.events: deque[AnyEvent] = deque()
        self.asleep = True
        self.interval = FASTEST_S
        self.share = 0.0
        """CPU of this process, all threads, as a share of one core."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: contextvars.Context | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._measured = (0.0, 0.0)

    def open(self) -> None:
        """Begin, on the screen's own loop and in its context."""
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        if self.events:
            self.wake()

    def emit(self, event: AnyEvent) -> None:
        """Take an event, from any thread."""
        self.events.append(event)
        if self.asleep and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.wake, context=self._context)

    def wake(self) -> None:
        """Draw a frame now, and go on while there is work."""
        if self.asleep and self._loop is not None:
            self.asleep = False
            self._measured = (time.perf_counter(), time.process_time())
            self._frame()

    def close(self) -> None:
        """Draw no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None

    def _frame(self) -> None:
        if self._loop is None:
            return
        taken: list[AnyEvent] = []
        while self.events:
            taken.append(self.events.popleft())
        more = True
        try:
            more = any([self.draw(taken), *(other(taken) for other in self.others)])
        finally:
            self._adapt()
            # An event may slip in between the last look and falling asleep: look once more.
            self.asleep = not more and not self.events
            if not self.asleep:
                self._timer = self._loop.call_later(self.interval, self._frame, context=self._context)

    def _adapt(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        passed = wall - self._measured[0]
        if passed < 1.0:
            return
        self.share = (cpu - self._measured[1]) / passed
        self._measured = (wall, cpu)
        if self.share > DEAR:
            self.interval = min(self.interval * 1.3, SLOWEST_S)
        elif self.share < CHEAP:
            self.interval = max(self.interval / 1.15, FASTEST_S)
