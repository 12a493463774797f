"""Resuming a conversation after the engine was ended and started again: with against without the disk tier."""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

import msgspec
from fader.engine.remote import EngineProcess
from fader.metrics import Stats
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import build
from fader_plugins.turn import AnyEvent, Failed, Finished, Numbers

from tests.bench.harness import Options, Outcome, alternate
from tests.bench.prefill import FOLLOW_UP, REPLY, TOKENS, question
from tests.bench.sides import CONTEXT, LENGTH, NOW, SAMPLER, THREADS, Reply, local, model

PATIENCE = 600.0
OPENING = 1.5
"""Seconds from the engine's start to the first request."""


class Remote:
    """An engine process; leaving it ends the process."""

    def __init__(self, folder: Path, board: Switchboard) -> None:
        self.board = board
        self._events: list[AnyEvent] = []
        self._done = threading.Event()
        self._process = EngineProcess(folder / "engine.log", None, self._hear)
        self._process.start()  # as the app does when it opens, long before anybody has pressed Enter
        threading.Event().wait(OPENING)

    def _hear(self, event: AnyEvent) -> None:
        self._events.append(event)
        if isinstance(event, Finished | Failed):
            self._done.set()

    def ask(self, messages: list[Message], tokens: int) -> Reply:
        """Run a turn of `tokens` tokens."""
        draft = self.board.plan("bench", messages, NOW)
        draft.max_tokens, draft.ignore_end = tokens, True
        self._events, request = [], draft.freeze("turn", time.perf_counter_ns())
        self._done.clear()
        self._process.submit(request)
        if not self._done.wait(PATIENCE):
            raise RuntimeError("The turn did not end.")
        stats = Stats(request=request)
        for event in self._events:
            stats.fold(event)
        if stats.finished is None:
            raise RuntimeError(f"The turn did not end well: {stats.failure}")
        return Reply(stats.text, stats.finished.ids, stats.numbers())

    def close(self) -> None:
        """End the process, which writes what is still to be written."""
        self._process.close()


def prefix_restart(options: Options) -> Outcome:
    """Compare the TTFT of the first turn after a restart."""
    pairs = options.pairs(5, 1)
    reused: list[Numbers] = []
    with local() as engine, tempfile.TemporaryDirectory(prefix="fader-bench-") as home:
        engine.ask([Message("user", "warm")], 1)
        former, os.environ["FADER_HOME"] = os.environ.get("FADER_HOME"), home  # the engine's process inherits it

        def resumed(number: int, disk_mib: int) -> float:
            board = Switchboard(
                build(None),
                Profile(
                    name="bench",
                    backend="llama.cpp",
                    model=model(),
                    context=msgspec.convert(CONTEXT, ContextTable),
                    plugins={"sampler": dict(SAMPLER), "prefix_cache": {"disk_mib": disk_mib}},
                ),
            )
            first = question(engine, 2 * number + bool(disk_mib) + 200)
            before = Remote(Path(home), board)
            reply = before.ask(first, REPLY)
            before.close()
            after = Remote(Path(home), board)
            numbers = after.ask(
                [*first, Message("assistant", reply.text, reply.ids), Message("user", FOLLOW_UP)], 1
            ).numbers
            after.close()
            if disk_mib:
                reused.append(numbers)
            assert numbers.ttft_ms is not None
            return numbers.ttft_ms

        try:
            a, b, said = alternate(lambda number: resumed(number, 1024), lambda number: resumed(number, 0), pairs)
        finally:
            if former is None:
                del os.environ["FADER_HOME"]
            else:
                os.environ["FADER_HOME"] = former
    restore = statistics.median(numbers.ttft_parts["restore"] for numbers in reused)
    tokens = statistics.median(numbers.reused_tokens or 0 for numbers in reused)
    return Outcome(
        a,
        b,
        f"turn 1 of {TOKENS} tokens and a reply of {REPLY} in an engine process, which is ended; then the TTFT (without model "
        f"load, as everywhere) of turn 2 in a new one, which is its first turn and comes {OPENING:g} s "
        f"after its start; another prompt each run, disk_mib 1024 and 0 in "
        f"turn; {THREADS} threads, context {LENGTH}; {said}",
        [f"a reused {tokens:.0f} tokens, of which reading and checking the file took {restore:.1f} ms"],
    )
