"""From sending to the first token: against a bare prefill, and with against without the prefix cache."""

from __future__ import annotations

import statistics

from fader_backends.base import Message

from tests.bench.bare import Bare
from tests.bench.harness import Options, Outcome, alternate
from tests.bench.prompts import prompt
from tests.bench.sides import LENGTH, THREADS, Local, local, model

TOKENS = 1000
REPLY = 16
FOLLOW_UP = "Now say the same thing in one short sentence, please."


def prefill_overhead(options: Options) -> Outcome:
    """Compare the TTFT of a cold prompt with a bare prefill of the same ids, both in this process."""
    pairs = options.pairs(5, 1)
    bare = Bare(model(), LENGTH, THREADS)
    parts: list[dict[str, float]] = []
    with local() as engine:
        engine.ask([Message("user", "warm")], 1)
        engine.board.switch("prefix_cache", False)

        def cold(number: int) -> float:
            numbers = engine.ask(question(engine, number), 1).numbers
            assert numbers.reused_tokens == 0
            parts.append(numbers.ttft_parts)
            return _number(numbers.ttft_ms)

        a, b, said = alternate(cold, lambda number: bare.prefill(engine.prompt_ids(question(engine, number))), pairs)
    bare.close()
    means = ", ".join(f"{name} {statistics.median(part[name] for part in parts):.2f}" for name in parts[0])
    return Outcome(
        a,
        b,
        f"Fader's engine and one llama_decode call (n_batch 2048, n_ubatch 512) in one process; {TOKENS} tokens, another "
        f"prompt each run, prefix_cache off; {THREADS} threads, flash attention, context {LENGTH}; {said}",
        [f"parts of a in ms: {means}"],
    )


def prefix_turn2(options: Options) -> Outcome:
    """Compare the TTFT of a second turn with and without the prefix cache."""
    pairs = options.pairs(5, 1)
    reused: list[int] = []
    with local() as engine:

        def second(number: int, on: bool) -> float:
            first = question(engine, 2 * number + on + 100)
            engine.board.switch("prefix_cache", on)
            reply = engine.ask(first, REPLY)
            numbers = engine.ask(
                [*first, Message("assistant", reply.text, reply.ids), Message("user", FOLLOW_UP)], 1
            ).numbers
            if on:
                reused.append(numbers.reused_tokens or 0)
            return _number(numbers.ttft_ms)

        engine.ask([Message("user", "warm")], 1)
        a, b, said = alternate(lambda number: second(number, True), lambda number: second(number, False), pairs)
    return Outcome(
        a,
        b,
        f"one engine, prefix_cache switched in turn; turn 1 is {TOKENS} tokens and a reply of {REPLY}, another prompt each "
        f"run, then the TTFT of turn 2; {THREADS} threads, context {LENGTH}; {said}",
        [f"a reused {statistics.median(reused):.0f} tokens"],
    )


def question(engine: Local, number: int) -> list[Message]:
    """Return messages whose prompt is TOKENS tokens or up to two fewer."""
    known = _questions.get(number)
    if known is None:
        text = prompt(
            abs(number) + 50 * (number < 0), TOKENS, lambda text: len(engine.prompt_ids([Message("user", text)]))
        )
        known = _questions[number] = [Message("user", text)]
    return known


_questions: dict[int, list[Message]] = {}


def _number(value: float | None) -> float:
    assert value is not None
    return value
