"""Columns side by side: against runs one after the other, in work, in time per step, in their words; and the screen's keys."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from fader.compare import make, spec
from fader.compare.asked import Asked
from fader.compare.column import Column
from fader.compare.sides import SideBySide
from fader.headless import Headless
from fader.metrics import percentile
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import build
from fader_plugins.turn import AnyEvent

from tests.bench.harness import Missing, Options, Outcome, alternate
from tests.bench.prompts import prompt
from tests.bench.sides import CONTEXT, NOW, SAMPLER, THREADS, fader, home, llama_profile, model

if TYPE_CHECKING:  # they need pyte and pseudo-terminals
    from tests.bench.app import App
    from tests.bench.terminal import Terminal

PROMPT, TOKENS = 800, 128
SWEEP = "temperature 0.2..1.4 x4"
KEYS = 40
NOISY = {"load": {"noise": 1.5}, "max_tokens": 64}


class Bench:
    """An engine in this process, and comparisons on it."""

    def __init__(self, profile: Profile) -> None:
        registry = build(None)
        self.board = Switchboard(registry, profile)
        self.makers = spec.Makers(lambda _: profile, lambda one: one)
        self.side: SideBySide | None = None
        self.head = Headless(registry, self._hear)
        self.names = itertools.count()

    def _hear(self, event: AnyEvent) -> None:
        if self.side is not None:
            self.side.on_event(event)

    def run(self, changes: Sequence[spec.Changes], question: str, tokens: int, owner: str) -> list[Column]:
        """Run columns together to their ends, in a conversation of their own."""
        self.head.engine._sessions.forget()  # what another run left must not take room in the buffer
        change = {"max_tokens": tokens, "ignore_end": True}
        asked = Asked(owner=owner, messages=(Message("user", question),), now=NOW, seed=3, rows=4, change=change)
        columns = make.columns(self.board, changes, self.makers, least=1)
        self.side = SideBySide(
            columns,
            asked,
            self.head.engine,
            nanoseconds=time.perf_counter_ns,
            new_id=lambda: f"{owner}-{next(self.names)}",
        )
        self.side.start()
        self.head.engine.run_until_idle()
        wrong = [column.failure for column in columns if column.state != "done"]
        if wrong:
            raise RuntimeError(f"A column did not end well: {wrong}")
        return columns

    def sweep(self) -> list[dict[str, str]]:
        """Return the changes of the four columns."""
        return spec.sweep(SWEEP, self.board, 3)


@contextmanager
def llama() -> Iterator[Bench]:
    """Give a bench on the embedded model, with no prefix kept from one run to another."""
    plugins: dict[str, dict[str, Any]] = {
        "sampler": dict(SAMPLER),
        "prefix_cache": {"live_rows": 0, "memory_mib": 0, "disk_mib": 0},
    }
    context = msgspec.convert({**CONTEXT, "rows": 4}, ContextTable)
    bench = Bench(Profile(name="bench", backend="llama.cpp", model=model(), context=context, plugins=plugins))
    try:
        bench.run([{}], "warm", 2, "warm")
        yield bench
    finally:
        bench.head.close()


def question(bench: Bench, number: int) -> str:
    """Return a question whose prompt has about `PROMPT` tokens, another for each number."""
    backend = bench.head.engine.model.backend
    assert backend is not None
    return prompt(number, PROMPT, lambda text: len(backend.chat([Message("user", text)], NOW)))


def compare_4(options: Options) -> Outcome:
    """Compare the time of four columns together with the same four one after the other."""
    pairs = options.pairs(3, 1)
    with llama() as bench:
        changes = bench.sweep()

        def together(number: int) -> float:
            asked, begin = question(bench, number + 20), time.perf_counter()
            bench.run(changes, asked, TOKENS, f"together-{number}")
            return time.perf_counter() - begin

        def apart(number: int) -> float:
            asked, begin = question(bench, number + 20), time.perf_counter()
            for place, change in enumerate(changes):
                bench.run([change], asked, TOKENS, f"apart-{number}-{place}")
            return time.perf_counter() - begin

        a, b, said = alternate(together, apart, pairs)
    return Outcome(
        a,
        b,
        f"wall time of {SWEEP!r} over one prompt of {PROMPT} tokens, {TOKENS} tokens each, end tokens ignored; b: each column "
        f"in a conversation of its own, prompt read anew; {THREADS} threads; {said}",
    )


def compare_prefill(options: Options) -> Outcome:
    """Count the prompt tokens evaluated for columns 2 to 4 against those for column 1."""
    with llama() as bench:
        columns = bench.run(bench.sweep(), question(bench, 1), 4, "work")
    first, *others = [float(column.figures().processed_tokens) for column in columns]
    return Outcome(
        [sum(others)],
        [first],
        f"prompt tokens evaluated, as the columns' figures say, prompt of {PROMPT} tokens; a count, so one run is enough",
    )


def compare_step(options: Options) -> Outcome:
    """Compare the time per step of four rows with that of one row."""
    pairs, tokens = options.pairs(7, 2), TOKENS // 2
    with llama() as bench:
        changes = bench.sweep()
        asked = "Tell me a long story about a lighthouse keeper who finds a map."

        def step(columns: list[Column]) -> float:
            run = columns[0].run
            assert run is not None
            tpot = run.stats.numbers().tpot_ms
            assert tpot is not None
            return tpot

        a, b, said = alternate(
            lambda number: step(bench.run(changes, asked, tokens, f"four-{number}")),
            lambda number: step(bench.run(changes[2:3], asked, tokens, f"one-{number}")),
            pairs,
        )
    return Outcome(
        a,
        b,
        f"TPOT of column 1 of 4, and of one column alone, {tokens} tokens, short prompt; {THREADS} threads; {said}",
    )


def compare_identity(options: Options) -> Outcome:
    """Count the columns on echo whose ids or log-probabilities differ from a solo run with the same seed."""
    sweeps = [
        "temperature 0..1.5 x8",
        "seed x8",
        "top_k 1..60 x6",
        "min_p 0,0.1,0.3",
        "prompt_lookup.max_ngram 2..5 x4",
    ]
    wrong = total = 0
    plugins = {"sampler": {"base": "neutral", "temperature": 1.0}, "prompt_lookup": {"on": True}}
    profile = msgspec.convert({"name": "bench", "backend": "echo", "plugins": plugins, **NOISY}, Profile)
    for text in sweeps:
        bench = Bench(profile)
        changes = spec.sweep(text, bench.board, 3)
        together = bench.run(changes, prompt(1, 300), 64, "together")
        for place, (change, column) in enumerate(zip(changes, together, strict=True)):
            (alone,) = bench.run([change], prompt(1, 300), 64, f"alone-{place}")
            one, other = column.answer(), alone.answer()
            assert one is not None
            assert other is not None
            wrong += (one.ids, one.logprobs) != (other.ids, other.logprobs)
            total += 1
        bench.head.close()
    method = (
        f"columns on echo (noise 1.5) unlike a solo run, of {total} columns in {len(sweeps)} sweeps, 64 tokens each"
    )
    return Outcome([float(wrong)], None, method)


def compare_keypress(options: Options) -> Outcome:
    """Take the time from a key press to its character on the terminal while four columns stream."""
    from tests.bench.app import App  # needs pyte

    runs = options.pairs(3, 1)
    found: list[float] = []
    with home(**llama_profile(max_tokens=600)) as environment:
        for _ in range(runs):
            with App(fader("-p", "bench"), environment) as app:
                app.ready()
                _open(app.terminal, app)
                waits = [_echoed(app.terminal, chr(0x410 + number)) for number in range(KEYS)]
                if not app.terminal.shows("▶"):
                    raise Missing("The columns had ended.")
            found.append(percentile(waits, 95) or 0.0)
    return Outcome(
        found,
        None,
        f"p95 of {KEYS} keys typed one by one while {SWEEP!r} streams from the engine's process, pty of 120x40, from the write "
        f"to the piece of output that holds the character; {runs} run(s); {THREADS} threads decode on the same machine",
    )


def _open(terminal: Terminal, app: App) -> None:
    """Let four columns stream in the app."""
    for text, seen in (("/compare", "Side by side"), (f"/sweep {SWEEP}", "temperature=1.4")):
        app.send(text)
        if not terminal.pump(partial(terminal.shows, seen), 20):
            raise Missing(f"{text} did not show {seen!r}: " + " | ".join(filter(None, terminal.screen()))[:300])
    app.send("Tell me a long story about a lighthouse keeper who finds a map.")
    if not terminal.pump(lambda: sum(line.count("▶") for line in terminal.screen()) == 4, 60):
        raise Missing("The columns did not stream: " + " | ".join(filter(None, terminal.screen()))[:300])
    terminal.pump(lambda: False, 3)


def _echoed(terminal: Terminal, character: str) -> float:
    """Type a character that no column writes; return the milliseconds until it is on its way to the screen."""
    wanted = character.encode()
    before, begin = len(terminal.chunks), time.perf_counter_ns()
    terminal.type(character)

    def arrived() -> bool:
        return any(wanted in data for _, data in terminal.chunks[before:])

    if not terminal.pump(arrived, 10, 0.002):
        raise Missing(f"The key {character!r} was not echoed.")
    at = next(at for at, data in terminal.chunks[before:] if wanted in data)
    terminal.pump(lambda: False, 0.15, 0.05)
    return (at - begin) / 1e6
