"""Time per token: of `fader run`, and of the app with its screen, against a bare loop."""

from __future__ import annotations

import statistics
import sys
from typing import Any

import msgspec

from tests.bench.bare import DecodeAnswer, DecodeJob
from tests.bench.harness import Options, Outcome, alternate
from tests.bench.sides import LENGTH, SAMPLER, THREADS, answer, fader, home, llama_profile, model

TOKENS = 256
QUESTION = "Tell me a long story about a lighthouse keeper who finds a map."
WARM_UP = "Tell me a long story about a village baker who loses a ring."


def decode_overhead(options: Options) -> Outcome:
    """Compare `fader run --json` with the bare loop, each in a fresh process."""
    pairs = options.pairs(9, 2)
    medians: dict[str, list[float]] = {"a": [], "b": []}
    with home(**llama_profile()) as environment:

        def run(number: int) -> float:
            told = answer(
                fader(
                    *("run", "-p", "bench", "--json", "--ignore-eos", "--max-tokens", str(TOKENS)),
                    *("--seed", str(number + 10), question(number)),
                ),
                environment,
            )
            assert told["output_tokens"] == TOKENS
            check_prompt(told["prompt_tokens"], number)
            medians["a"].append(told["itl_ms"]["p50"])
            return float(told["tpot_ms"])

        def loop(number: int) -> float:
            found = bare(number)
            medians["b"].append(found.itl_p50_ms)
            return found.tpot_ms

        a, b, said = alternate(run, loop, pairs)
    return Outcome(a, b, _method("each in a fresh process", said), [_gaps(medians)])


def tui_decode_overhead(options: Options) -> Outcome:
    """Compare a turn in the app, as its store records it, with the bare loop."""
    from tests.bench.app import App  # needs pyte

    pairs = options.pairs(7, 2)
    medians: dict[str, list[float]] = {"a": [], "b": []}
    with home(**llama_profile(max_tokens=TOKENS)) as environment:

        def run(number: int) -> float:
            with App(fader("-p", "bench"), environment) as app:
                app.ready()
                numbers = app.turn(question(number)).numbers
            assert numbers.output_tokens == TOKENS
            check_prompt(numbers.prompt_tokens, number)
            medians["a"].append(numbers.itl_p50_ms or 0.0)
            return numbers.tpot_ms or 0.0

        def loop(number: int) -> float:
            found = bare(number)
            medians["b"].append(found.itl_p50_ms)
            return found.tpot_ms

        a, b, said = alternate(run, loop, pairs)
    how = "the app in a pty of 120x40 and its engine process against a fresh process"
    return Outcome(a, b, _method(how, said), [_gaps(medians)])


def question(number: int) -> str:
    """Return the prompt of a run; the warm-up has another of the same shape."""
    return WARM_UP if number < 0 else QUESTION


def bare(number: int) -> DecodeAnswer:
    """Run the bare loop in a fresh process."""
    job = DecodeJob(
        model=model(), length=LENGTH, threads=THREADS, user=question(number), count=TOKENS, seed=number + 10
    )
    told: Any = answer([sys.executable, "-m", "tests.bench.bare", msgspec.json.encode(job).decode()])
    found = msgspec.convert(told, DecodeAnswer)
    prompts[question(number)] = found.prompt_tokens
    return found


prompts: dict[str, int] = {}


def check_prompt(tokens: int | None, number: int) -> None:
    """Make sure that both sides see prompts of the same length."""
    known = prompts.get(question(number), tokens)
    assert known == tokens, f"prompts differ: {tokens} tokens against {known}"


def _method(how: str, said: str) -> str:
    chain = ", ".join(f"{name} {SAMPLER[name]:g}" for name in ("temperature", "top_k", "top_p", "min_p"))
    return (
        f"TPOT over {TOKENS} tokens, end tokens ignored, {how}; {chain}; {THREADS} threads, flash attention, "
        f"context {LENGTH}; {said}"
    )


def _gaps(medians: dict[str, list[float]]) -> str:
    a, b = statistics.median(medians["a"]), statistics.median(medians["b"])
    return f"median gap between tokens: {a:.3f} / {b:.3f} ms = {a / b:.3f} (all runs, less sensitive to disturbance)"
