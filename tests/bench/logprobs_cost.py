"""What it costs per token to note what each was chosen from, and to store it.

Knows the plugin by its switch only.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from fader.odds import Chosen, packed
from fader.store import Store
from fader_backends.base import Message

from tests.bench.harness import Measure, Options, Outcome, alternate
from tests.bench.sides import LENGTH, SAMPLER, THREADS, Local, local

TOKENS = 128
TOP = 10
ASK = [Message("user", "Tell me a long story about a lighthouse keeper who finds a map.")]


class Side:
    """Turns with and without notes on one engine; notes go into a store as the app keeps them."""

    def __init__(self, engine: Local, store: Store) -> None:
        self.engine = engine
        self.store = store
        self.chat = store.create("bench").id
        self.sizes: list[int] = []
        self.ended_ms: list[float] = []

    def run(self, on: bool) -> Measure:
        """Return a run: the TPOT in milliseconds."""

        def measure(number: int) -> float:
            self.engine.board.switch("logprobs", on)
            self.engine.board.set("logprobs", "top", TOP)
            reply = self.engine.ask(ASK, TOKENS, seed=number + 10)
            chosen = reply.chosen
            assert (chosen is not None) == on
            if chosen is not None:
                self.keep(chosen)
            return reply.numbers.tpot_ms or 0.0

        return measure

    def keep(self, chosen: Chosen) -> None:
        """Put the notes into the store."""
        assert len(chosen.ids) == len(chosen.odds) == TOKENS
        begin = time.perf_counter()
        data = packed(chosen)
        node = self.store.add(self.chat, None, "assistant", "")
        self.store.keep_odds(node.id, data, 2**26)
        self.ended_ms.append((time.perf_counter() - begin) * 1000)
        self.sizes.append(len(data))


def logprobs_cost(options: Options) -> Outcome:
    """Compare TPOT with notes and without."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, local() as engine:
        store = Store.open(Path(folder) / "fader.db", lambda: datetime.now(UTC))
        side = Side(engine, store)
        a, b, said = alternate(side.run(True), side.run(False), options.pairs(15, 2))
        store.close()
    chain = ", ".join(f"{name} {SAMPLER[name]:g}" for name in ("temperature", "top_k", "top_p", "min_p"))
    return Outcome(
        a,
        b,
        f"TPOT over {TOKENS} tokens, end tokens ignored, same seed on both sides, {TOP} candidates noted; {chain}; one "
        f"engine, {THREADS} threads, flash attention, context {LENGTH}; {said}",
        [
            f"{statistics.median(side.sizes) / TOKENS:.0f} bytes a token in the store",
            f"packing and storing a reply's notes after its end: {statistics.median(side.ended_ms):.1f} ms",
        ],
    )
