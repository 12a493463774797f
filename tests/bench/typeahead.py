"""What evaluating ahead gains at Enter: the real app in a terminal, a message pasted a while before it is sent.

Knows the plugin by its switch only.
"""

from __future__ import annotations

import statistics
from typing import Any

from fader_plugins.turn import Numbers

from tests.bench.app import TURN_SECONDS, App
from tests.bench.harness import Measure, Missing, Options, Outcome, alternate
from tests.bench.prompts import prompt
from tests.bench.sides import LENGTH, SAMPLER, THREADS, fader, home, llama_profile

WORDS = 300
PAUSE = 3.0
"""Seconds between the paste and Enter."""
REPLY = 8


def typeahead(options: Options) -> Outcome:
    """Compare the TTFT of messages pasted before Enter, with and without typeahead."""
    found: list[Numbers] = []
    with (
        home(**_profile(True)) as with_it,
        home(**_profile(False)) as without,
        App(fader("-p", "bench"), with_it) as ahead,
        App(fader("-p", "bench"), without) as plain,
    ):
        for app in (ahead, plain):
            app.ready()
        a, b, said = alternate(_sent(ahead, 0, found), _sent(plain, 1, []), options.pairs(5, 2))
    ready = statistics.median(numbers.ready_tokens or 0 for numbers in found)
    new = statistics.median((numbers.prompt_tokens or 0) - (numbers.reused_tokens or 0) for numbers in found)
    return Outcome(
        a,
        b,
        f"two apps in ptys of 120x40, one with typeahead off; each message has {WORDS} words, is pasted {PAUSE:g} s before "
        f"Enter, and is another one; replies of {REPLY} tokens, one conversation in each app, prefix_cache on in both; "
        f"{THREADS} threads, flash attention, context {LENGTH}; {said}",
        [f"a found {ready:.0f} tokens ready at Enter and evaluated {new:.0f} after it (medians)"],
    )


def _profile(on: bool) -> dict[str, Any]:
    # on battery as well, or a laptop would measure nothing
    plugins = {"sampler": dict(SAMPLER), "typeahead": {"on": on, "on_battery": True}}
    return llama_profile(max_tokens=REPLY, plugins=plugins)


def _sent(app: App, side: int, found: list[Numbers]) -> Measure:
    def measure(number: int) -> float:
        before = len(app.records())
        app.paste(prompt(2 * number + side + 40, WORDS, lambda text: len(text.split())))
        app.terminal.pump(lambda: False, PAUSE, 0.5)
        app.terminal.type("\r")
        if not app.terminal.pump(lambda: len(app.records()) > before, TURN_SECONDS, 0.5):
            raise Missing("The turn did not end.")
        numbers = app.records()[-1].numbers
        assert numbers.ttft_ms is not None
        if number >= 0:
            found.append(numbers)
        return numbers.ttft_ms

    return measure
