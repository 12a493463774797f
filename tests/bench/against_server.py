"""Fader's engine against llama-server: the second turn of a chat, and the time per token of a long reply."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fader_backends.base import Message

from tests.bench.harness import Options, Outcome, alternate
from tests.bench.llama_server import LlamaServer, ServerJob
from tests.bench.prefill import FOLLOW_UP, REPLY, TOKENS, question
from tests.bench.sides import LENGTH, THREADS, Local, local, model

COUNT = 256
REST_S = 1.0
"""Until threads that wait awake and the writer of states have come to rest, on both sides."""
MANNERS = ("Briefly now:", "Gently now:", "Firmly now:", "Slowly now:")
"""How the second turn begins, so that nothing of it is known from the one before."""
STORY = "Tell me a long story about a lighthouse keeper who finds a map."
LIKE_IT = "Tell me a long story about a village baker who loses a ring."


@contextmanager
def both() -> Iterator[tuple[Local, LlamaServer]]:
    """Give an engine in this process and a server in another, both with the model loaded; one works at a time."""
    with LlamaServer(ServerJob(model=model(), length=LENGTH, threads=THREADS)) as server, local() as engine:
        engine.ask([Message("user", "warm")], 1)
        yield engine, server


def turn2(options: Options) -> Outcome:
    """Compare the TTFT of turn 2 for the same ids, both having kept turn 1."""
    pairs = options.pairs(14, 4)
    kept: dict[str, list[int]] = {"a": [], "b": []}
    begun: dict[int, list[Message]] = {}
    prompts: dict[int, list[int]] = {}
    own: list[float] = []
    with both() as (engine, server):

        def first_turn(number: int) -> list[Message]:
            """Have a first turn in both caches; it serves several second turns, so that these can follow each other at once."""
            first = question(engine, number + 200)
            reply = engine.ask(first, REPLY)
            server.stream([*engine.prompt_ids(first), *reply.ids[:-1]], 1)  # the last one was never evaluated
            return [*first, Message("assistant", reply.text, reply.ids)]

        def ours(number: int) -> float:
            group, place = divmod(number, len(MANNERS))
            if group not in begun:
                begun[group] = first_turn(group)
            second = [*begun[group], Message("user", f"{MANNERS[place]} {FOLLOW_UP}")]
            time.sleep(REST_S)
            numbers = engine.ask(second, 1).numbers
            prompts[number] = engine.prompt_ids(second)
            kept["a"].append(numbers.reused_tokens or 0)
            assert numbers.ttft_ms is not None
            return numbers.ttft_ms

        def theirs(number: int) -> float:
            time.sleep(REST_S)
            found = server.stream(prompts[number], 1)
            kept["b"].append(found.reused)
            own.append(found.server_ms)
            return found.ttft_ms

        a, b, said = alternate(ours, theirs, pairs)
        about = _about(server)
    reused = f"reused tokens (median): {statistics.median(kept['a']):.0f} / {statistics.median(kept['b']):.0f}"
    inner = f"llama-server's own time for the prompt of turn 2 (median): {statistics.median(own):.2f} ms"
    return Outcome(
        a,
        b,
        f"turn 1 of {TOKENS} tokens and a reply of {REPLY} are in both caches, then turn 2 with the same ids; a from "
        f"submitting to the first token id, b from sending the request to the first streamed token over loopback; {about}; "
        f"another prompt every {len(MANNERS)} runs, another second turn each, {REST_S:g} s of rest before every run; {said}",
        [reused, inner],
    )


def tpot(options: Options) -> Outcome:
    """Compare the time per token of a reply after the same ids."""
    pairs = options.pairs(7, 2)
    medians: dict[str, list[float]] = {"a": [], "b": []}
    with both() as (engine, server):

        def ours(number: int) -> float:
            numbers = engine.ask(_story(number), COUNT, seed=number + 10).numbers
            medians["a"].append(numbers.itl_p50_ms or 0.0)
            assert numbers.tpot_ms is not None
            return numbers.tpot_ms

        def theirs(number: int) -> float:
            found = server.stream(engine.prompt_ids(_story(number)), COUNT, seed=number + 10)
            medians["b"].append(statistics.median(found.gaps_ms))
            return sum(found.gaps_ms) / len(found.gaps_ms)

        a, b, said = alternate(ours, theirs, pairs)
        about = _about(server)
    gaps = [statistics.median(medians[side]) for side in ("a", "b")]
    return Outcome(
        a,
        b,
        f"TPOT over {COUNT} tokens, end tokens ignored, same prompt ids, top-k, top-p, temperature on both sides; a from "
        f"the engine's events, b from the stream's pieces as they arrive over loopback; {about}; {said}",
        [f"median gap between tokens: {gaps[0]:.3f} / {gaps[1]:.3f} ms = {gaps[0] / gaps[1]:.3f} (all runs)"],
    )


def _story(number: int) -> list[Message]:
    return [Message("user", LIKE_IT if number < 0 else STORY)]


def _about(server: LlamaServer) -> str:
    """Return what both sides share, and which build of llama.cpp the server is."""
    system = " ".join(server.system.replace(" = 1", "").replace("|", " ").split())
    return (
        f"same file, {THREADS} threads, flash attention, context {LENGTH}, cache_prompt on; llama-server of xllamacpp "
        f"{server.version} with {system}"
    )
