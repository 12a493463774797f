"""The torch backend against transformers itself, in one process: same weights, number type and threads."""

from __future__ import annotations

import gc
import importlib.util
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from fader.profiles import ContextTable
from fader_backends.base import Message

from tests.bench.harness import Missing, Options, Outcome, alternate
from tests.bench.prefill import FOLLOW_UP, REPLY
from tests.bench.prompts import prompt
from tests.bench.sides import LENGTH, THREADS, Local, model

PROMPT, TOKENS, HISTORY = 512, 64, 500
BEST = {"matrices": "int4"}
"""The fastest setting for a CPU among those the backend offers."""


class Theirs:
    """transformers' own model over the converted copy, with its default attention and cache."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(THREADS)
        self.torch = torch
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def tpot(self, ids: Sequence[int], count: int) -> float:
        """Return the mean milliseconds between tokens of `generate`, greedy and of fixed length."""
        stamps: list[float] = []

        def stamp(_: Any, scores: Any) -> Any:
            stamps.append(time.perf_counter())
            return scores

        inputs = self.torch.tensor([list(ids)])
        self.model.generate(
            inputs,
            attention_mask=self.torch.ones_like(inputs),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
            logits_processor=[stamp],
        )
        assert len(stamps) == count
        return (stamps[-1] - stamps[0]) * 1e3 / (count - 1)

    def forward(self, ids: Sequence[int]) -> float:
        """Return the milliseconds of one forward that gives the last position's logits."""
        inputs = self.torch.tensor([list(ids)])
        begin = time.perf_counter()
        with self.torch.inference_mode():
            self.model(inputs, use_cache=True, logits_to_keep=1).logits.numpy()
        return (time.perf_counter() - begin) * 1e3


def needed() -> None:
    """Raise Missing where the libraries are not installed."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        raise Missing('torch is not installed: pip install "fader[torch]".')


@contextmanager
def _ours(**load: Any) -> Iterator[tuple[Local, Path]]:
    """Give an engine on the embedded model, greedy, and the folder of its converted copy."""
    needed()
    with tempfile.TemporaryDirectory(prefix="fader-bench-", ignore_cleanup_errors=True) as home:
        os.environ["FADER_HOME"] = home  # of this process alone, which the benchmark has to itself
        table = msgspec.convert({"length": LENGTH, "threads": THREADS}, ContextTable)
        plugins: dict[str, Any] = {"sampler": {"on": False}, "prefix_cache": {"on": False}}
        engine = Local(model(), backend="torch", context=table, load=load, plugins=plugins, chunk=512)
        try:
            engine.ask([Message("user", "warm")], 2)
            (copy,) = (Path(home) / "cache" / "torch").iterdir()
            yield engine, copy
        finally:
            engine.close()
            gc.collect()


def _question(engine: Local, number: int, size: int) -> list[Message]:
    """Return messages whose prompt is `size` tokens or up to two fewer, another one each time."""

    def measure(text: str) -> int:
        return len(engine.prompt_ids([Message("user", text)]))

    return [Message("user", prompt(abs(number) + 50 * (number < 0), size, measure))]


def tpot(options: Options) -> Outcome:
    """Compare decoding in float32."""
    with _ours() as (engine, copy):
        theirs = Theirs(copy)
        return _decoding(engine, theirs, options, "float32")


def best_cpu(options: Options) -> Outcome:
    """Compare decoding with the fastest setting with `generate` in float32."""
    from fader_backends.torch_hf import gguf_model

    with _ours(**BEST) as (engine, _):
        import torch

        copy = gguf_model.converted(model(), torch.float32, lambda _: True)
        copy.vocabulary.close()
        said = ", ".join(f"{name} = {value}" for name, value in BEST.items())
        return _decoding(engine, Theirs(copy.folder.path), options, said)


def _decoding(engine: Local, theirs: Theirs, options: Options, setting: str) -> Outcome:
    def ours(number: int) -> float:
        numbers = engine.ask(_question(engine, number, PROMPT), TOKENS).numbers
        assert numbers.output_tokens == TOKENS
        return _number(numbers.tpot_ms)

    def other(number: int) -> float:
        return theirs.tpot(engine.prompt_ids(_question(engine, number, PROMPT)), TOKENS)

    a, b, said = alternate(ours, other, options.pairs(5, 1))
    return Outcome(
        a,
        b,
        f"mean gap between {TOKENS} tokens after a prompt of {PROMPT}, greedy, end tokens ignored, SmolLM2; a: Fader's "
        f"engine ({setting}), b: generate of the same weights in float32 (default cache and attention), in one process; "
        f"{THREADS} threads; {said}",
    )


def prefill(options: Options) -> Outcome:
    """Compare the TTFT of a cold prompt with one forward of the same ids."""
    with _ours() as (engine, copy):
        theirs = Theirs(copy)

        def cold(number: int) -> float:
            numbers = engine.ask(_question(engine, number, PROMPT), 1).numbers
            assert numbers.reused_tokens == 0
            return _number(numbers.ttft_ms)

        def forward(number: int) -> float:
            return theirs.forward(engine.prompt_ids(_question(engine, number, PROMPT)))

        a, b, said = alternate(cold, forward, options.pairs(7, 2))
    return Outcome(
        a,
        b,
        f"TTFT of Fader's engine (chunks of 512, as in the profile) and one forward of transformers' model with its "
        f"default cache and attention, in one process; {PROMPT} tokens, another prompt each run, float32, "
        f"{THREADS} threads; {said}",
    )


def prefix_turn2(options: Options) -> Outcome:
    """Compare the TTFT of a second turn with and without the prefix cache."""
    with _ours() as (engine, _):

        def second(number: int, on: bool) -> float:
            first = _question(engine, 2 * number + on + 100, HISTORY)
            engine.board.switch("prefix_cache", on)
            reply = engine.ask(first, REPLY)
            turns = [*first, Message("assistant", reply.text, reply.ids), Message("user", FOLLOW_UP)]
            return _number(engine.ask(turns, 1).numbers.ttft_ms)

        a, b, said = alternate(
            lambda number: second(number, True), lambda number: second(number, False), options.pairs(5, 1)
        )
    return Outcome(
        a,
        b,
        f"one engine on torch in float32, prefix_cache switched in turn; turn 1 is {HISTORY} tokens and a reply of {REPLY}, "
        f"another prompt each run, then the TTFT of turn 2; {THREADS} threads; {said}",
    )


def _number(value: float | None) -> float:
    assert value is not None
    return value
