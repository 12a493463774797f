"""How commands run an experiment: engines of their own, a bar on stderr, Ctrl+C, and a bundle with its report.

Knows the lab and text streams, not what the experiment is for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from ..lab.bundle import Bundle
from ..lab.evidence import Hardware, Side
from ..lab.experiment import Experiment
from ..lab.values import Report
from ..paths import Paths
from .run import quiet, stopped_by_interrupt, tell

if TYPE_CHECKING:
    from ..lab.recorder import Surroundings
    from ..lab.runner import Runner
    from ..lab.seats import Seat

BAR = 24
BUSY = 0.5
"""Load for each core from which a person is told."""
PARTS = 10
"""Lines of progress where nobody watches a bar."""


def surroundings(paths: Paths, why: str, *, share: str = "private", gates: tuple[str, ...] = ()) -> Surroundings:
    """Return what a bundle made here and now says of this machine."""
    from ..lab import hardware, recorder

    return recorder.Surroundings(
        lab=paths.lab,
        hashes=paths.hashes,
        created=datetime.now().astimezone(),
        hardware=hardware.hardware(),
        versions=hardware.versions(),
        why=why,
        share=share,
        gates=gates,
    )


def seats(paths: Paths) -> Callable[[Side], Seat]:
    """Return what makes an engine for a side, in a process of its own."""
    from ..lab.seats import Apart

    return lambda _: Apart(paths.engine_log, paths.plugins)


def recorded(wanted: Experiment, around: Surroundings, paths: Paths, quality: bool = True) -> tuple[Bundle, Report]:
    """Run an experiment; return its bundle, whole or partial, and the report that is in it."""
    from ..lab import hardware, recorder, report

    running: list[Runner] = []
    if said := busy(around.hardware):
        tell(said)
    bar = Progress(sys.stderr, wanted.title)

    def stop() -> None:
        for one in running:
            one.stop()

    with quiet(paths.log), stopped_by_interrupt(stop):
        made = recorder.record(
            wanted,
            around,
            seats(paths),
            progress=bar.show,
            joules=hardware.Energy().joules,
            started=running.append,
            quality=quality,
        )
    bar.end()
    return report.write(made)


def busy(machine: Hardware) -> str:
    """Return what to say where other programs are at work already; nothing where they are not, or nobody knows."""
    load, cores = machine.load_average, machine.cores
    if load is None or not cores or load < cores * BUSY:
        return ""
    return f"this machine is busy (load {load:.1f} on {cores} cores), and times will tell of that, too."


class Progress:
    """A bar with the time left on a terminal, a line now and then elsewhere."""

    def __init__(self, err: TextIO, title: str, seconds: Callable[[], float] = time.perf_counter) -> None:
        self.err = err
        self.title = title
        self.seconds = seconds
        self.live = err.isatty()
        self._shown = 0

    def show(self, done: int, total: int, left: float) -> None:
        """Say how far it is."""
        said = f"{done} of {total} turns, {_clock(left)} left"
        if self.live:
            filled = round(BAR * done / total)
            self.err.write(f"\r\x1b[K{'█' * filled}{'░' * (BAR - filled)} {said}")
            self.err.flush()
        elif done * PARTS // total > self._shown:
            self._shown = done * PARTS // total
            self.err.write(f"fader: {self.title}: {said}\n")
            self.err.flush()

    def end(self) -> None:
        """Take the bar away."""
        if self.live:
            self.err.write("\r\x1b[K")
            self.err.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(max(seconds, 0)), 60)
    return f"{minutes}:{rest:02}"
