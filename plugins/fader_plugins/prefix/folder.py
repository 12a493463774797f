"""`Folder`: the disk tier. The folder is its own index, so that several apps can share it and none needs to own it.

Knows files by their names, which are hashes of place and tokens; what is in a file is believed only after `files` checked it.
Writing happens on a thread of its own; of several states of one place that wait, only the last is written.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from fader_backends.base import SessionState

from . import files
from .radix import Found, Ids, Radix
from .shelf import Place

SUFFIX = ".prefix"
SHARED_FILES = "shared-"
"""What the names of files begin with that serve every conversation."""
RESERVE_BYTES = 256 << 20
"""Room that is left on the disk for others."""
ABANDONED_SECONDS = 3600.0
"""After this, a file that never got its name belongs to an app that died."""
MOST_FILES = 1000
"""However small they are: the folder is read through at every look."""
WAITING_BYTES = 512 << 20
"""Most that waits in memory for a slow disk."""
LAST_SECONDS = 1.5
"""How long the end of the process waits for what is still to be written."""


class Folder:
    """Kept prefixes in files below `path`. Everything but writing happens on the caller's thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        """Why nothing is written any more; empty while all is well."""
        self._notes: list[str] = []
        self._known: dict[Place, dict[str, Ids]] = {}
        self._trees: dict[Place, Radix[str]] = {}
        self._waiting: dict[Place, tuple[SessionState, Ids, int, bool]] = {}
        self._turn = threading.Condition()
        self._writer: threading.Thread | None = None

    def notes(self) -> list[str]:
        """Return what a person should know and was not told yet."""
        notes, self._notes = self._notes, []
        return notes

    def nearest(self, place: Place, tokens: Ids) -> Iterator[Found[str]]:
        """Yield the names of the place's files, those that share most with `tokens` first."""
        self._look(place)
        tree = self._trees.get(place)
        return tree.nearest(tokens) if tree is not None else iter(())

    def size(self) -> tuple[int, int]:
        """Return how many files there are, and their bytes."""
        sizes = [status.st_size for _, status in self._files()]
        return len(sizes), sum(sizes)

    def read(self, place: Place, name: str) -> SessionState | None:
        """Return the state in a file; None when it is gone or cannot be used, and then it is removed."""
        path = self.path / name
        try:
            state = files.read(path, place)
            os.utime(path)
        except files.Unusable as error:
            self._remove(path, str(error))
        except OSError as error:
            self._note_once(f"{path}: {error.strerror or error}") if path.exists() else None
        else:
            return state
        return None

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, place: Place, state: SessionState, tokens: Ids, budget: int, replace: bool = True) -> None:
        """Have a state written soon, within `budget` bytes for the whole folder.

        With `replace`, files of the place that `tokens` begins with are removed afterwards.
        """
        if self.problem or len(state.data) + tokens.nbytes > budget:
            return
        with self._turn:
            others = sum(len(job[0].data) for other, job in self._waiting.items() if other != place)
            if others > WAITING_BYTES:  # the disk does not keep up; what is lost is time, later
                return
            self._waiting[place] = (state, tokens, budget, replace)
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_all, daemon=True, name="prefix-writer")
                self._writer.start()
                atexit.register(self.flush, LAST_SECONDS)
            self._turn.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until nothing is left to be written; False when it takes longer."""
        with self._turn:
            return self._turn.wait_for(lambda: not self._waiting, seconds)

    def _write_all(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: bool(self._waiting))
                place, job = next(iter(self._waiting.items()))
            try:
                if not self.problem:
                    self._write(place, *job)
            except Exception as error:  # a thread has nobody to raise to: the next turn says it
                reason = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
                self.problem = f"{reason} ({self.path})"
                self._notes.append(f"nothing more is kept on disk: {self.problem}")
            with self._turn:
                if self._waiting.get(place) is job:
                    del self._waiting[place]
                self._turn.notify_all()

    def _write(self, place: Place, state: SessionState, tokens: Ids, budget: int, replace: bool) -> None:
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = name_of(place, tokens)
        size = len(state.data) + tokens.nbytes
        self.trim(budget - size)
        if shutil.disk_usage(self.path).free < size + RESERVE_BYTES:
            raise OSError(f"less than {RESERVE_BYTES >> 20} MiB would be left on the disk")
        shorter = [path for path in self._of(place) if replace and path.name != name and _begins(tokens, path)]
        files.write(self.path / name, place, state, tokens)
        for path in shorter:
            path.unlink(missing_ok=True)

    def trim(self, budget: int) -> None:
        """Remove the files used longest ago until the rest fits, shared ones last; also what dead apps left half-written."""
        found = sorted(self._files(), key=lambda one: (one[0].name.startswith(SHARED_FILES), one[1].st_mtime_ns))
        total = sum(status.st_size for _, status in found)
        for count, (path, status) in enumerate(found):
            if total <= budget and len(found) - count < MOST_FILES:
                break
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            total -= status.st_size
        for path in self.path.glob(".*.part"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()

    # --- looking ------------------------------------------------------------------------------------------------------

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.path.glob(f"*{SUFFIX}"):
            with contextlib.suppress(OSError):  # another app removed it
                yield path, path.stat()

    def _of(self, place: Place) -> list[Path]:
        return sorted(self.path.glob(f"{place_hash(place)}-*{SUFFIX}"))

    def _look(self, place: Place) -> None:
        """Learn which files of a place came and went."""
        known = self._known.setdefault(place, {})
        tree = self._trees.setdefault(place, Radix())
        present = {path.name: path for path in self._of(place)}
        for name in known.keys() - present.keys():
            tree.pop(known.pop(name))
        for name in present.keys() - known.keys():
            try:
                header = files.read_header(present[name])
                if header.place != place or name != name_of(place, header.ids):
                    raise files.Unusable("its name does not fit what it holds")
            except files.Unusable as error:
                self._remove(present[name], str(error))
            except OSError:
                continue
            else:
                known[name] = header.ids
                tree.put(header.ids, name)

    def _remove(self, path: Path, why: str) -> None:
        gone = "removed"
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            gone = f"could not be removed: {error.strerror or error}"
        self._note_once(f"{path.name} was not used, because {why}; {gone}")

    def _note_once(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)


def _begins(tokens: Ids, path: Path) -> bool:
    """Whether `tokens` begins with those in a file; a file that cannot be read counts as not."""
    try:
        held = files.read_header(path).ids
    except (files.Unusable, OSError):
        return False
    return len(held) <= len(tokens) and bool((tokens[: len(held)] == held).all())


def name_of(place: Place, tokens: Ids) -> str:
    """Return the name of the file for these tokens."""
    return f"{place_hash(place)}-{hashlib.blake2b(tokens.tobytes(), digest_size=12).hexdigest()}{SUFFIX}"


def place_hash(place: Place) -> str:
    """Return what the names of a place's files begin with."""
    digest = hashlib.blake2b(repr((place.owner, place.key)).encode(), digest_size=12).hexdigest()
    return (SHARED_FILES if place.owner is None else "") + digest
