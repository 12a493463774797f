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
NEW_CHAT = "\x0e"


def typeahead(options: Options) -> Outcome:
    """Compare the TTFT of messages pasted before Enter, with and without typeahead."""
    found: list[Numbers] = []
    with home(**_profile(True)) as with_it, home(**_profile(False)) as without:
        a, b, said = alternate(_sent(with_it, 0, found), _sent(without, 1, []), options.pairs(5, 2))
    ready = statistics.median(numbers.ready_tokens or 0 for numbers in found)
    new = statistics.median((numbers.prompt_tokens or 0) - (numbers.reused_tokens or 0) for numbers in found)
    return Outcome(
        a,
        b,
        f"the app in a pty of 120x40, opened for each run, with typeahead on or off; after a short turn a new chat, whose first "
        f"message has {WORDS} words and is pasted {PAUSE:g} s before Enter, another one each run; replies of {REPLY} tokens, "
        f"prefix_cache on in both; {THREADS} threads, flash attention, context {LENGTH}; {said}",
        [f"a found {ready:.0f} tokens ready at Enter and evaluated {new:.0f} after it (medians)"],
    )


def _profile(on: bool) -> dict[str, Any]:
    # on battery as well, or a laptop would measure nothing
    plugins = {"sampler": dict(SAMPLER), "typeahead": {"on": on, "on_battery": True}}
    return llama_profile(max_tokens=REPLY, plugins=plugins)


def _sent(environment: dict[str, str], side: int, found: list[Numbers]) -> Measure:
    def measure(number: int) -> float:
        with App(fader("-p", "bench"), environment) as app:
            app.ready()
            app.turn("Say hello.")
            app.terminal.type(NEW_CHAT)
            app.terminal.pump(lambda: app.terminal.quiet_for(1.0), 20)
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
