"""How long the embedded model takes on torch until it is ready in a fresh engine process, at first and later."""

from __future__ import annotations

import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from fader.engine.remote import EngineProcess
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import build
from fader_plugins.turn import AnyEvent, Failed, Loaded

from tests.bench.harness import Options, Outcome, undisturbed
from tests.bench.on_torch import needed
from tests.bench.sides import LENGTH, NOW, THREADS, model

PATIENCE = 600.0
TYPING = 5.0
"""Seconds from the app's opening to Enter, for the second figure."""
SPLIT = """
import gc, time
gc.disable()  # as the backend does
begin = time.perf_counter()
import torch
first = time.perf_counter()
import fader_backends.torch_hf.backend
print(first - begin, time.perf_counter() - first)
"""


def first(options: Options) -> Outcome:
    """Measure with an empty cache."""
    return _measured(options, kept=False)


def later(options: Options) -> Outcome:
    """Measure where the converted copy is there."""
    return _measured(options, kept=True)


def _measured(options: Options, kept: bool) -> Outcome:
    needed()
    with _home() as home:
        if kept:
            _seconds(home, 0.0)

        def cleared(typing: float) -> float:
            if not kept:
                shutil.rmtree(home / "cache" / "torch", ignore_errors=True)
            return _seconds(home, typing)

        runs, said = undisturbed(lambda: (cleared(0.0), cleared(TYPING)), options.pairs(3, 1))
    waits = [after for _, after in runs]
    imports = [float(text) for text in subprocess.check_output([sys.executable, "-c", SPLIT], text=True).split()]
    return Outcome(
        [whole for whole, _ in runs],
        None,
        f"SmolLM2 as GGUF, float32, {THREADS} threads, the copy for torch {'kept' if kept else 'deleted before each run'}; "
        f"from starting an engine process, which is asked for a turn at once, to its Loaded event here: the interpreter, all "
        f"imports, the weights, the context; {said}",
        [
            f"as the app does it, asking when it opens: left {TYPING:g} s later, at Enter, "
            f"{statistics.median(waits):.2f} s ({min(waits):.2f} to {max(waits):.2f})",
            f"of a, imports (one run): torch {imports[0]:.2f} s, transformers and the backend {imports[1]:.2f} s",
        ],
    )


@contextmanager
def _home() -> Iterator[Path]:
    former = os.environ.get("FADER_HOME")
    with tempfile.TemporaryDirectory(prefix="fader-bench-", ignore_cleanup_errors=True) as home:
        os.environ["FADER_HOME"] = home  # the engine's process inherits it
        try:
            yield Path(home)
        finally:
            if former is None:
                del os.environ["FADER_HOME"]
            else:
                os.environ["FADER_HOME"] = former


def _seconds(home: Path, typing: float) -> float:
    """Return the seconds from asking for a turn to its Loaded event; `typing` seconds before, it was said what will come."""
    context = msgspec.convert({"length": LENGTH, "threads": THREADS}, ContextTable)
    board = Switchboard(build(None), Profile(name="bench", backend="torch", model=model(), context=context))
    request = board.plan("bench", [Message("user", "hello there")], NOW).freeze("turn", time.perf_counter_ns())
    events: queue.SimpleQueue[AnyEvent] = queue.SimpleQueue()
    process = EngineProcess(home / "engine.log", None, events.put)
    begin = time.perf_counter()
    process.start()
    try:
        if typing:
            process.prepare(msgspec.structs.replace(request, id="wish"))
            threading.Event().wait(typing)
            begin = time.perf_counter()
        process.submit(request)
        while not isinstance(event := events.get(timeout=PATIENCE), Loaded) or event.request_id != request.id:
            if isinstance(event, Failed):
                raise RuntimeError(f"The model was not loaded: {event.failure}")
        return time.perf_counter() - begin
    finally:
        process.close()
