"""`ScreenCost`: what the screen itself costs while a reply streams, as readings.

Knows clocks, not widgets. These numbers are never mixed into the engine's.
"""

from __future__ import annotations

import time

from fader_plugins.turn import Reading

PAINT_HELP = "Token id on the host to its text handed to the terminal: mean over the frames of this turn."
CPU_HELP = "CPU time of the app's own process (engine not included) while the reply ran, of one core."


class ScreenCost:
    """Measures one turn at a time."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start over."""
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        self.frames = 0
        self.delay_ms = 0.0

    def painted(self, at_ns: int) -> None:
        """Note that the text of an event stamped `at_ns` is on the screen now."""
        self.frames += 1
        self.delay_ms += (time.perf_counter_ns() - at_ns) / 1e6

    def readings(self) -> list[Reading]:
        """Return the rows for the overlay."""
        passed = time.perf_counter() - self.wall
        share = 100 * (time.process_time() - self.cpu) / passed if passed > 0.5 else None
        delay = self.delay_ms / self.frames if self.frames else None
        return [
            Reading(key="ui_paint", label="screen delay", value=delay, unit="ms", better="lower", help=PAINT_HELP),
            Reading(key="ui_cpu", label="screen CPU", value=share, unit="%", digits=1, better="lower", help=CPU_HELP),
        ]
