"""The raw record: runs, their requests and events, their words; written as they come, read back whole.

Knows compressed JSON lines, not what the numbers mean. What was written before a disk was full or a program was stopped
can be read.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import msgspec
from fader_backends.errors import StoreError
from fader_plugins.turn import AnyEvent, GenerationRequest, Loaded

from ..metrics import Stats
from .evidence import Kl, Output, Run
from .placeless import last_name, of_request

RUNS, EVENTS, OUTPUTS = "runs.jsonl.gz", "events.jsonl.gz", "outputs.jsonl.gz"
KL = "kl.json.gz"
RAW = (RUNS, EVENTS, OUTPUTS)
LEVEL = 6
T = TypeVar("T")


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the events' file: a run's request, or one of its events."""

    run: int
    request: GenerationRequest | None = None
    event: AnyEvent | None = None


class Measured(NamedTuple):
    """A run with its fold: `stats.numbers()` has its numbers."""

    run: Run
    stats: Stats


class Writer:
    """Writes the three files of a bundle. A run that was written whole is readable, whatever happens afterwards.

    `opened` gives the files to write to; raises OSError as writing does.
    """

    def __init__(self, folder: Path, opened: Callable[[Path], IO[bytes]] = lambda path: path.open("wb")) -> None:
        self._under = {name: opened(folder / name) for name in RAW}
        # no time stamp: the same runs make the same bytes
        self._files = {name: gzip.GzipFile("", "wb", LEVEL, file, 0) for name, file in self._under.items()}
        self._encoder = msgspec.json.Encoder()
        self._runs: dict[str, int] = {}

    def begin(self, index: int, request: GenerationRequest) -> None:
        """Write what a run asks. Its events may come from now on."""
        self._runs[request.id] = index
        self._write(EVENTS, Line(index, request=of_request(request)))

    def event(self, event: AnyEvent) -> None:
        """Write one event of a run that has begun."""
        if event.request_id in self._runs:
            self._write(EVENTS, Line(self._runs[event.request_id], event=_placeless(event)))

    def end(self, run: Run, output: Output | None) -> None:
        """Write what became of a run (None: its words are left out), and everything so far through to the disk."""
        if output is not None:
            self._write(OUTPUTS, output)
        for name in (EVENTS, OUTPUTS):
            self._flush(name)
        self._write(RUNS, run)  # last: a run that is listed is whole
        self._flush(RUNS)

    def close(self) -> None:
        """Close the files. Raises OSError, with all of them closed."""
        problem: OSError | None = None
        for name in RAW:
            for file in (self._files[name], self._under[name]):
                try:
                    file.close()
                except OSError as error:
                    problem = problem or error
        if problem is not None:
            raise problem

    def _write(self, name: str, value: Any) -> None:
        self._files[name].write(self._encoder.encode(value) + b"\n")

    def _flush(self, name: str) -> None:
        self._files[name].flush(zlib.Z_SYNC_FLUSH)
        self._under[name].flush()


def _placeless(event: AnyEvent) -> AnyEvent:
    if isinstance(event, Loaded) and event.facts.path:
        facts = msgspec.structs.replace(event.facts, path=last_name(event.facts.path))
        return msgspec.structs.replace(event, facts=facts)
    return event


def read(folder: Path, whole: bool = True) -> list[Measured]:
    """Return all runs with their folds, in order. Not `whole`: files that were cut short give what they hold.

    Raises StoreError naming the file.
    """
    runs = {run.index: run for run in lines(folder / RUNS, Run, whole)}
    stats: dict[int, Stats] = {}
    for line in lines(folder / EVENTS, Line, whole):
        if line.request is not None:
            stats[line.run] = Stats(request=line.request)
        elif line.event is not None and line.run in stats:
            stats[line.run].fold(line.event)
    missing = [index for index in runs if index not in stats]
    if missing and whole:
        raise StoreError(f"{folder / EVENTS} has no events of run {missing[0]}.", "", "Get the bundle again.")
    return [Measured(run, stats[index]) for index, run in sorted(runs.items()) if index in stats]


def outputs(folder: Path, whole: bool = True) -> dict[int, Output]:
    """Return what each run said. Raises StoreError."""
    return {output.index: output for output in lines(folder / OUTPUTS, Output, whole)}


def lines(path: Path, kind: type[T], whole: bool = True) -> Iterator[T]:
    """Yield the values of a compressed file of JSON lines. Raises StoreError; not `whole`: ends where the file was cut."""
    decoder = msgspec.json.Decoder(kind)
    number = 0
    try:
        with gzip.open(path, "rb") as file:
            for number, line in enumerate(file, 1):  # noqa: B007 - named in the error
                if not whole and not line.endswith(b"\n"):
                    return
                yield decoder.decode(line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        if whole:
            raise StoreError(f"{path} is cut short or damaged: {error}.", "", "Get the bundle again.") from error
    except OSError as error:
        if whole or path.exists():
            raise StoreError(f"{path}: {error.strerror or error}.", "", "Get the bundle again.") from error
    except msgspec.MsgspecError as error:
        raise StoreError(f"{path}, line {number}: {error}.", "", "Get the bundle again.") from error


def write_kl(folder: Path, kl: Kl) -> None:
    """Write the comparison of distributions. Raises OSError."""
    with (folder / KL).open("wb") as under, gzip.GzipFile("", "wb", LEVEL, under, 0) as file:
        file.write(msgspec.json.encode(kl))


def read_kl(folder: Path) -> Kl | None:
    """Return the comparison of distributions; None when there is none. Raises StoreError."""
    path = folder / KL
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(gzip.decompress(path.read_bytes()), type=Kl)
    except (OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "", "Get the bundle again.") from error
