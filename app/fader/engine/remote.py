"""`EngineProcess`: the app's handle on the engine's process; starts it, talks to it, and says what happened when it dies.

Knows no model and no screen.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from fader_backends.base import SamplerSettings
from fader_backends.errors import EngineDied
from fader_plugins.turn import AnyEvent, Failed, Finished, GenerationRequest, Looked

from . import wire

FAREWELL_SECONDS = 3.0


class EngineProcess:
    """One engine at a time, started when first needed and again after it died.

    `emit` is called on a reader thread. Every submitted request ends with exactly one Finished or Failed.
    """

    def __init__(self, log: Path, plugin_folder: Path | None, emit: Callable[[AnyEvent], None]) -> None:
        self.log = log
        self.plugin_folder = plugin_folder
        self.emit = emit
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process id while one lives."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start the process unless it lives; its imports then run while the person types."""
        with self._lock:
            self._ensure()

    def submit(self, request: GenerationRequest) -> None:
        """Send a turn to the engine, starting one if there is none."""
        self._send(request, wire.Submit(request))

    def look(self, request: GenerationRequest) -> None:
        """Ask what a token costs in operators; ends with Looked or Failed."""
        self._send(request, wire.Look(request))

    def _send(self, request: GenerationRequest, command: wire.Command) -> None:
        reason = ""
        with self._lock:  # kept over both tries, so that the reader thread cannot report the first one as lost
            for _ in range(2):
                try:
                    process = self._ensure()
                    self._running[request.id] = process
                    wire.write(cast("BinaryIO", process.stdin), command)
                    return
                except (OSError, ValueError) as error:
                    self._running.pop(request.id, None)
                    self._process = None  # it is dying, and is replaced
                    reason = str(error)
        self._fail(request.id, EngineDied("The engine could not be started.", reason, f"See {self.log}."))

    def cancel(self, request_id: str) -> None:
        """Ask the engine to stop a turn; its Finished event says when it has."""
        self._say(wire.Cancel(request_id))

    def adjust(self, request_id: str, sampler: SamplerSettings) -> None:
        """Ask the engine to use other sampler settings from that reply's next token on."""
        self._say(wire.Adjust(request_id, sampler))

    def prepare(self, request: GenerationRequest) -> None:
        """Ask the engine to evaluate what this turn is certain to begin with; does nothing while it does not live."""
        self._say(wire.Prepare(request))

    def _say(self, command: wire.Command) -> None:
        with self._lock:
            process = self._process
            if process is not None and process.poll() is None:
                with contextlib.suppress(OSError, ValueError):  # the reader thread reports the death
                    wire.write(cast("BinaryIO", process.stdin), command)

    def close(self) -> None:
        """End the process; by force if it does not listen."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):
            cast("BinaryIO", process.stdin).close()
        try:
            process.wait(FAREWELL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join(FAREWELL_SECONDS)

    def _ensure(self) -> subprocess.Popen[bytes]:
        if (
            self._process is not None
            and self._process.poll() is None
            and not cast("BinaryIO", self._process.stdin).closed
        ):
            return self._process
        self.log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "fader.engine.child", str(self.log)]
        if self.plugin_folder is not None:
            command.append(str(self.plugin_folder))
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # away from the terminal's Ctrl+C and hang-up: the engine ends when its input does
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        self._process = process
        self._reader = threading.Thread(target=self._listen, args=(process,), daemon=True, name="engine-events")
        self._reader.start()
        return process

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        pipe = cast("BinaryIO", process.stdout)
        while (data := wire.read(pipe)) is not None:
            event = wire.events.decode(data)
            if isinstance(event, Finished | Failed | Looked):
                self._running.pop(event.request_id, None)
            self.emit(event)
        pipe.close()
        with contextlib.suppress(OSError):
            cast("BinaryIO", process.stdin).close()
        code = process.wait()
        with self._lock:
            lost = [request_id for request_id, on in self._running.items() if on is process]
            for request_id in lost:
                del self._running[request_id]
            closed = self._closed
        if closed:
            return
        for request_id in lost:
            self._fail(
                request_id,
                EngineDied(
                    "The engine stopped.",
                    f"{cause(code)} The conversation is safe; what was written of the reply is kept.",
                    f"Send again: a new engine starts by itself. The log is {self.log}.",
                ),
            )

    def _fail(self, request_id: str, error: EngineDied) -> None:
        self.emit(Failed(request_id=request_id, at_ns=time.perf_counter_ns(), failure=error.failure))


def cause(code: int) -> str:
    """Return a sentence on why a process with this exit code ended."""
    if code >= 0:
        return f"Its process ended with exit code {code}."
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = {
        "SIGKILL": " It was killed, perhaps because memory ran out.",
        "SIGSEGV": " It crashed inside a library.",
        "SIGABRT": " A library gave up on an inconsistency, such as a damaged model file.",
        "SIGILL": " A library uses instructions this processor does not have.",
    }
    return f"Its process was ended by {name}.{hint.get(name, '')}"
