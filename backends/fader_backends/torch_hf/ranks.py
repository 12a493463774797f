"""Owns the processes that share one model (tensor parallel): starts them, tells all of them the same, and takes them down.

Knows no torch: each rank runs `rank`, with a backend over its part of the weights. A stop is heard between calls, because ranks
that stopped at different layers would wait for each other for ever; so a cancel waits for one chunk at the most.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from fader_backends import errors
from fader_backends.base import ContextSpec, ModelFacts, Progress
from fader_backends.errors import FaderError, Interrupted, TurnError

TICK_S = 0.1
LATE_S = 10.0
"""How long the others may take once one rank has failed; one that waits for it in a collective would never answer."""
FAREWELL_S = 3.0


class Described(NamedTuple):
    """What a loaded backend says of itself."""

    facts: ModelFacts
    context: ContextSpec
    state_key: str
    end_tokens: frozenset[int]


class Ranks:
    """So many processes, told the same things in the same order."""

    def __init__(self, count: int) -> None:
        """Start them."""
        self.count = count
        self._folder = tempfile.TemporaryDirectory(prefix="fader-ranks-", ignore_cleanup_errors=True)
        self._replies: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        store = Path(self._folder.name, "store").absolute()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "fader_backends.torch_hf.rank", str(rank), str(count), str(store)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
            for rank in range(count)
        ]
        self._readers = [
            threading.Thread(target=self._listen, args=(rank, process), daemon=True)
            for rank, process in enumerate(self._processes)
        ]
        for reader in self._readers:
            reader.start()

    @property
    def alive(self) -> bool:
        """Whether they live: one that has ended takes the others along."""
        if any(process.poll() is not None for process in self._processes):
            self.close()
        return bool(self._processes)

    @property
    def pids(self) -> list[int]:
        """Their process ids."""
        return [process.pid for process in self._processes]

    def _listen(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        with cast("BinaryIO", process.stdout) as pipe, contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                self._replies.put((rank, pickle.load(pipe)))
        self._replies.put((rank, None))

    def first(self, name: str, *values: Any) -> Any:
        """Ask the first rank alone."""
        return self._ask(self._processes[:1], name, values, lambda: None)[0]

    def all(self, name: str, *values: Any, tick: Callable[[], None] = lambda: None) -> list[Any]:
        """Ask all ranks; return what each answers. Raises what they raise, or TurnError when one has ended.

        `tick` is called while they work; what it raises ends them.
        """
        return self._ask(self._processes, name, values, tick)

    def _ask(
        self, asked: Sequence[subprocess.Popen[bytes]], name: str, values: Sequence[Any], tick: Callable[[], None]
    ) -> list[Any]:
        if not self.alive:
            self._lost("it was gone before it was asked")
        found: dict[int, Any] = {}
        failure: FaderError | None = None
        try:
            for process in asked:
                pipe = cast("BinaryIO", process.stdin)
                pickle.dump((name, tuple(values)), pipe)
                pipe.flush()
            while len(found) < len(asked):
                try:
                    rank, reply = self._replies.get(timeout=LATE_S if failure else TICK_S)
                except queue.Empty:
                    if failure is not None:
                        self.close()
                        raise failure from None
                    tick()
                    continue
                if reply is None:
                    self._lost(f"rank {rank} ended by itself")
                done, value = reply
                found[rank] = value
                if not done and failure is None:
                    failure = _as_error(*value)
        except OSError as error:
            self._lost(str(error))
        except BaseException:
            if failure is None:
                self.close()
            raise
        if failure is not None:
            raise failure
        return [found[rank] for rank in sorted(found)]

    def _lost(self, why: str) -> None:
        self.close()
        raise TurnError("The processes that share this model have ended.", f"{why}.", "Send it again: they start anew.")

    def close(self) -> None:
        """End them: their input ends, and those that do not hear it are killed. Closing twice is fine."""
        for process in self._processes:
            with contextlib.suppress(OSError, ValueError):
                cast("BinaryIO", process.stdin).close()
        for process in self._processes:
            try:
                process.wait(FAREWELL_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for reader in self._readers:
            reader.join(FAREWELL_S)
        self._processes = []
        self._folder.cleanup()


def _as_error(kind: str, title: str, detail: str, next_step: str) -> FaderError:
    known = getattr(errors, kind, TurnError)
    error: FaderError = known.__new__(known)  # some take other arguments than what came out of them
    FaderError.__init__(error, title, detail, next_step)
    return error


def stopper(progress: Progress) -> Callable[[], None]:
    """Return a tick that asks `progress` whether to go on loading."""

    def tick() -> None:
        if not progress(0.5):
            raise Interrupted

    return tick
