"""What the screen costs: processor time while a reply streams and while nothing happens, and time to the first frame."""

from __future__ import annotations

import bisect
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import psutil
from fader_plugins.turn import RunRecord

from tests.bench.app import QUIT, App, full, opened
from tests.bench.harness import Missing, Options, Outcome, alternate
from tests.bench.prompts import prompt
from tests.bench.sides import ROOT, fader, home, llama_profile
from tests.bench.terminal import Terminal

STEP_MS = 20.0
REACH = 75
"""Tokens on each side of a place that its window takes in."""
IDLE_SECONDS = 10.0


class Sample(NamedTuple):
    """Processor seconds of a process up to a moment."""

    at_ns: int
    seconds: float


def ui_cpu(options: Options) -> Outcome:
    """Take the app's processor time while echo streams, around token 100 and around token 3,000."""
    runs = options.pairs(3, 1)
    places = (100, 600 if options.quick else 3000)
    size = places[-1] + REACH + 25
    found: dict[int, list[float]] = {place: [] for place in places}
    rates = []
    profile = {
        "backend": "echo",
        "max_tokens": size,
        "load": {"step_ms": STEP_MS, "noise": 0.0},
        "context": {"length": 8192},
    }
    with home(**profile) as environment:
        for number in range(runs):
            record, samples = _streamed(environment, prose(number, size))
            numbers = record.numbers
            assert numbers.e2e_ms is not None
            assert numbers.tpot_ms is not None
            assert numbers.output_tokens >= places[-1] + REACH, f"only {numbers.output_tokens} tokens"
            rates.append(1000 / numbers.tpot_ms)
            first = record.request.submitted_ns + (numbers.e2e_ms - numbers.tpot_ms * (numbers.output_tokens - 1)) * 1e6
            for place in places:
                begin, end = (first + (place + side * REACH) * numbers.tpot_ms * 1e6 for side in (-1, 1))
                share = (_at(samples, end) - _at(samples, begin)) / ((end - begin) * 1e-9)
                found[place].append(100 * share)
    worst = max(places, key=lambda place: statistics.median(found[place]))
    shown = ", ".join(f"token {place:,}: {statistics.median(found[place]):.1f} %" for place in places)
    return Outcome(
        found[worst],
        None,
        f"user + system time of the app's process alone (psutil, sampled 4 times a second), window of {2 * REACH} tokens "
        f"around tokens {places[0]} and {places[1]:,}, echo at step_ms {STEP_MS:g} ({statistics.median(rates):.0f} tokens/s), "
        f"pty of 120x40; medians over {runs} run(s): {shown}. a is the worse of the two; the bound is on a, so b and ratio "
        "are null",
    )


def _streamed(environment: dict[str, str], text: str) -> tuple[RunRecord, list[Sample]]:
    """Send a text in a fresh app; return the reply's record and samples of the app's processor time meanwhile."""
    samples: list[Sample] = []
    with App(fader("-p", "bench"), environment) as app:
        app.ready()
        before = len(app.records())

        def ended() -> bool:
            samples.append(Sample(time.perf_counter_ns(), _seconds(app.process)))
            return len(app.records()) > before

        app.send(text)
        if not app.terminal.pump(ended, 600, 0.25):
            raise Missing("The reply did not end.")
        return app.records()[-1], samples


def prose(number: int, size: int) -> str:
    """Return Markdown in paragraphs, with some of what replies hold."""
    words = prompt(number, size * 2).split()
    blocks, at = [], 0
    for turn in range(10_000):
        block = " ".join(words[at : at + 55])
        at += 55
        blocks.append((block, f"## {block[:40]}\n\n{block}", f"- **{block[:30]}**\n- {block}")[turn % 3])
        text = "\n\n".join(blocks)
        if len(text) >= size:
            return text[:size]
    raise ValueError(size)


def _at(samples: Sequence[Sample], at_ns: float) -> float:
    """Return the processor seconds at a moment, between two samples by proportion."""
    after = bisect.bisect_left(samples, at_ns, key=lambda sample: sample.at_ns)
    if not 0 < after < len(samples):
        raise Missing("The moment was not sampled.")
    one, two = samples[after - 1], samples[after]
    return one.seconds + (two.seconds - one.seconds) * (at_ns - one.at_ns) / (two.at_ns - one.at_ns)


def idle_cpu(options: Options) -> Outcome:
    """Take the processor time of app and engine with a loaded model and nothing to do."""
    runs = options.pairs(3, 1)
    shares, apart = [], []
    with home(**llama_profile(max_tokens=8)) as environment, App(fader("-p", "bench"), environment) as app:
        app.ready()
        app.turn("Say hello.")
        app.terminal.pump(lambda: app.terminal.quiet_for(2.0), 20)
        for _ in range(runs):
            processes = [app.process, *app.engines()]
            begin, before = time.perf_counter(), [_seconds(process) for process in processes]
            app.terminal.pump(lambda: False, IDLE_SECONDS, 1.0)
            wall = time.perf_counter() - begin
            used = [100 * (_seconds(process) - was) / wall for process, was in zip(processes, before, strict=True)]
            shares.append(sum(used))
            apart.append(used)
    app_share, *engines = (statistics.median(one) for one in zip(*apart, strict=True))
    return Outcome(
        shares,
        None,
        f"user + system time of the app and its engine (psutil) over {IDLE_SECONDS:g} s, after one turn with the model "
        f"loaded, prompt focused, pty of 120x40; {runs} window(s); app {app_share:.2f} %, engine {sum(engines):.2f} %. "
        "The bound is on a, so b and ratio are null",
    )


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def first_frame(options: Options) -> Outcome:
    """Compare the time from spawn to the complete screen."""
    pairs = options.pairs(11, 3)
    early: list[float] = []
    with home(**llama_profile()) as environment:

        def app(number: int) -> float:
            terminal = _shown(fader("-p", "bench"), environment, "help", "sampler", "Numbers", "Enter sends")
            early.append(_first(terminal, opened))
            return _first(terminal, full)

        def empty(number: int) -> float:
            command = [sys.executable, "-m", "tests.bench.empty_app"]
            return _first(_shown(command, environment, "Empty", "Ready.", "Quit"), _empty)

        a, b, said = alternate(app, empty, pairs, warm=2)
    return Outcome(
        a,
        b,
        "from spawn to the arrival of the piece of output that completes the screen in a pty of 120x40 (Fader: title, "
        "prompt, keys, rack and numbers; the empty app: header, text, prompt, footer), replayed afterwards; "
        f"Fader's screen stood without the rack at {statistics.median(early):.0f} ms; {said}",
    )


def torch_first_frame(options: Options) -> Outcome:
    """Compare the time to the complete screen with the torch profile and with the default one."""
    with home() as environment:

        def app(name: str) -> float:
            return _first(_shown(fader("-p", name), environment, "help", "sampler", "Numbers", "Enter sends"), full)

        a, b, said = alternate(lambda _: app("torch"), lambda _: app("default"), options.pairs(9, 2), warm=2)
    return Outcome(
        a,
        b,
        "from spawn to the arrival of the piece of output that completes the screen in a pty of 120x40, both profiles as "
        f"they ship; {said}",
    )


def _shown(command: Sequence[str], environment: dict[str, str], *texts: str) -> Terminal:
    """Start a program, let it draw until all texts have arrived and half a second more, and quit it."""
    terminal = Terminal(command, environment, str(ROOT))
    try:
        if not terminal.pump(lambda: terminal.holds(*texts), 60, 0.1):
            raise Missing(f"{command[-1]} did not show {texts}.")
        terminal.pump(lambda: True, 1, 0.5)
    finally:
        terminal.close(QUIT)
    return terminal


def _first(terminal: Terminal, mark: Callable[[list[str]], bool]) -> float:
    at = terminal.first(mark)
    if at is None:
        raise Missing("The screen was not complete: " + " | ".join(line for line in terminal.screen() if line)[:500])
    return at


def _empty(lines: list[str]) -> bool:
    return "Empty" in lines[0] and "Quit" in lines[-1] and any("Ready." in line for line in lines)
