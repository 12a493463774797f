"""How long the embedded model takes on torch until it is ready, at first and later: its loading, and a fresh engine process.

The first is what transformers' `from_pretrained(gguf_file=...)` is to be held against, which also runs after the imports.
"""

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
from fader_plugins.turn import AnyEvent, Failed, GenerationRequest, Loaded

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
            _seconds(home, 0.0, kept)

        def cleared(typing: float) -> tuple[float, float]:
            if not kept:
                shutil.rmtree(home / "cache" / "torch", ignore_errors=True)
            return _seconds(home, typing, kept)

        runs, said = undisturbed(lambda: (*cleared(0.0), cleared(TYPING)[0]), options.pairs(3, 1))
    wholes, waits = [whole for whole, *_ in runs], [after for *_, after in runs]
    imports = [float(text) for text in subprocess.check_output([sys.executable, "-c", SPLIT], text=True).split()]
    return Outcome(
        [alone for _, alone, _ in runs],
        None,
        f"SmolLM2 as GGUF, float32, {THREADS} threads, the copy for torch {'kept' if kept else 'deleted before each run'}; "
        f"from asking an engine process for a turn, after turns on torch and on echo, to its Loaded event here: the weights, "
        f"the vocabulary, the context; {said}",
        [
            f"from the start of a fresh engine process, asked at once, so with the interpreter and all imports: "
            f"{statistics.median(wholes):.2f} s ({min(wholes):.2f} to {max(wholes):.2f})",
            f"as the app does it, asking when it opens: left {TYPING:g} s later, at Enter, "
            f"{statistics.median(waits):.2f} s ({min(waits):.2f} to {max(waits):.2f})",
            f"of that, imports (one run): torch {imports[0]:.2f} s, transformers and the backend {imports[1]:.2f} s",
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


def _seconds(home: Path, typing: float, kept: bool) -> tuple[float, float]:
    """Return the seconds from asking a fresh process for a turn to its Loaded event, and those of a second load in it.

    `typing` seconds before the first, it was said what will come.
    """
    events: queue.SimpleQueue[AnyEvent] = queue.SimpleQueue()
    process = EngineProcess(home / "engine.log", None, events.put)
    begin = time.perf_counter()
    process.start()
    try:
        if typing:
            process.prepare(_request("torch", "wish"))
            threading.Event().wait(typing)
            begin = time.perf_counter()
        _loaded(process, events, _request("torch", "turn"))
        first = time.perf_counter() - begin
        _loaded(process, events, _request("echo", "other"))  # the model goes
        if not kept:
            shutil.rmtree(home / "cache" / "torch")
        begin = time.perf_counter()
        _loaded(process, events, _request("torch", "again"))
        return first, time.perf_counter() - begin
    finally:
        process.close()


def _request(backend: str, name: str) -> GenerationRequest:
    context = msgspec.convert({"length": LENGTH, "threads": THREADS}, ContextTable)
    profile = Profile(name="bench", backend=backend, model=model() if backend == "torch" else "", context=context)
    board = Switchboard(build(None), profile)
    return board.plan("bench", [Message("user", "hello there")], NOW).freeze(name, time.perf_counter_ns())


def _loaded(process: EngineProcess, events: queue.SimpleQueue[AnyEvent], request: GenerationRequest) -> None:
    """Ask for a turn and wait for its Loaded event; the rest of it is cut short."""
    process.submit(request)
    while not isinstance(event := events.get(timeout=PATIENCE), Loaded) or event.request_id != request.id:
        if isinstance(event, Failed):
            raise RuntimeError(f"The model was not loaded: {event.failure}")
    process.cancel(request.id)
