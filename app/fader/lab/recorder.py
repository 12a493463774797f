"""`record`: runs an experiment into a bundle; what was measured stays usable whatever happens on the way.

Knows the runner, the raw record and bundles, not how anything is shown.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO

import msgspec
from fader_backends.errors import FaderError, StoreError
from fader_plugins.turn import Finished, Loaded

from .. import models
from ..switchboard import Switchboard
from . import bundle, distributions, experiment, raw
from .bundle import Bundle
from .evidence import Hardware, Manifest, ModelNote, Side
from .experiment import Experiment
from .runner import Runner, Unfit
from .seats import Seat
from .taking import Taken
from .workload import dump

FULL = (errno.ENOSPC, errno.EDQUOT if hasattr(errno, "EDQUOT") else errno.ENOSPC)
Progress = Callable[[int, int, float], None]


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle says beside what was measured."""

    lab: Path
    """The folder of all bundles."""
    hashes: Path
    """The file of known model hashes."""
    created: datetime
    hardware: Hardware = Hardware()
    versions: dict[str, str] = {}
    why: str = ""
    share: str = "private"
    gates: tuple[str, ...] = ()
    clock: Callable[[], int] = time.perf_counter_ns
    """Nanoseconds; that of the engines too."""


class Notes:
    """What the runs say of model and library; collected while they are written."""

    def __init__(self) -> None:
        self.model = ModelNote()
        self.path = ""
        self.versions: dict[str, str] = {}

    def take(self, taken: Taken) -> None:
        """Look at one run."""
        for event in taken.events:
            if isinstance(event, Loaded) and not self.model.name:
                facts = event.facts
                self.path, self.versions = facts.path, facts.versions
                self.model = ModelNote(
                    name=facts.model,
                    file=Path(facts.path).name if facts.path else "",
                    quantisation=facts.quantisation,
                    size_bytes=facts.size_bytes,
                    parameters=facts.parameters,
                    backend=facts.backend,
                    device=facts.device,
                )
            elif isinstance(event, Finished) and event.memory.weights_bytes and not self.model.weights_bytes:
                self.model = msgspec.structs.replace(self.model, weights_bytes=event.memory.weights_bytes)


def record(
    wanted: Experiment,
    around: Surroundings,
    seat: Callable[[Side], Seat],
    *,
    progress: Progress = lambda *_: None,
    joules: Callable[[], float | None] = lambda: None,
    started: Callable[[Runner], None] = lambda _: None,
    opened: Callable[[Path], IO[bytes]] = lambda path: path.open("wb"),
    wall: Callable[[], float] = time.time,
    quality: bool = True,
) -> Bundle:
    """Run `wanted` and return its bundle, complete or partial. Raises Unfit with no bundle left behind, FaderError.

    `started` is given the runner, so that a signal can stop it.
    """
    made = bundle.make(around.lab, manifest_of(wanted, around), texts_of(wanted))
    notes, stopped = Notes(), ""
    try:
        with _written(made.folder, opened) as (writer, problem):

            def took(taken: Taken) -> None:
                notes.take(taken)
                writer.begin(taken.run.index, taken.request)
                for event in taken.events:
                    writer.event(event)
                writer.end(taken.run, taken.output)

            runner = Runner(wanted, seat, took, progress=progress, joules=joules, nanoseconds=around.clock, wall=wall)
            started(runner)
            try:
                if not runner.run():
                    stopped = "it was interrupted"
            except OSError as error:
                problem.append(error)
        if problem:
            stopped = _said(problem[0])
        elif not stopped and quality and wanted.variables and distributions.differs(wanted):
            raw.write_kl(made.folder, distributions.measure(wanted))
    except Unfit:
        bundle.remove(made.folder)
        raise
    except FaderError as error:
        stopped = error.title.rstrip(".")
        seal(made, notes, around, stopped)
        raise
    return seal(made, notes, around, stopped)


@contextmanager
def _written(folder: Path, opened: Callable[[Path], IO[bytes]]) -> Iterator[tuple[raw.Writer, list[OSError]]]:
    """Give a writer and a list of what went wrong with the disk, closing it included."""
    problem: list[OSError] = []
    writer = raw.Writer(folder, opened)
    try:
        yield writer, problem
    finally:
        try:
            writer.close()
        except OSError as error:
            problem.append(error)


def _said(error: OSError) -> str:
    if error.errno in FULL:
        return "the disk is full; what was measured before is here"
    return f"it could not be written: {error.strerror or error}"


def seal(made: Bundle, notes: Notes, around: Surroundings, stopped: str = "") -> Bundle:
    """Write what is known now into the manifest. On a full disk the first manifest, which says partial, stays."""
    model = notes.model
    path = Path(notes.path) if notes.path else None
    if path is not None and path.is_file():
        model = msgspec.structs.replace(model, sha256=models.sha256(path, around.hashes))
    manifest = msgspec.structs.replace(
        made.manifest,
        state="partial" if stopped else "complete",
        stopped=stopped,
        model=model,
        versions={**around.versions, **notes.versions},
    )
    if not stopped:
        return bundle.seal(made, manifest)
    with suppress(StoreError):
        return bundle.seal(made, manifest)
    return Bundle(made.folder, manifest)


def manifest_of(wanted: Experiment, around: Surroundings) -> Manifest:
    """Return the first manifest of an experiment's bundle, which says that it did not come to its end."""
    words = [wanted.workload.name, *(variable.key for variable in wanted.variables)]
    boards = wanted.boards
    a = boards["a"]
    acts = a.cost_of(lambda twin: _become(twin, wanted)) if wanted.variables else ""
    return Manifest(
        id=bundle.new_id(around.created, "-".join(words), around.lab),
        created=around.created.isoformat(timespec="seconds"),
        what=wanted.title,
        why=around.why,
        share=around.share,
        stopped="it did not come to its end",
        variables=wanted.variables,
        workload=wanted.workload.name,
        profiles=tuple(board.profile.name or "default" for board in boards.values()),
        versions=around.versions,
        hardware=around.hardware,
        seeds=wanted.seeds,
        rounds=wanted.rounds,
        aa_rounds=wanted.aa_rounds,
        acts=acts,
        gates=(*wanted.workload.gates, *around.gates),
        notes=wanted.notes,
    )


def _become(twin: Switchboard, wanted: Experiment) -> None:
    """Let a copy of side a stand as side b does."""
    b = wanted.boards["b"]
    twin.profile, twin.states = b.profile, dict(b.states)


def texts_of(wanted: Experiment) -> dict[str, str]:
    """Return workload and profiles as the bundle holds them: name -> text."""
    texts = {bundle.WORKLOAD: dump(wanted.workload)}
    for side, board in wanted.boards.items():
        texts[f"profiles/{side}.toml"] = experiment.profile_text(board, f"{board.profile.name or 'default'}")
    return texts
