"""How fast a model's steps are: Fader's backend in its ways, and transformers' `generate`, in one process.

Knows backends by their verbs. Times are milliseconds of the host's clock, taken when a token's scores or id are on the host.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fader_backends import torch_hf
from fader_backends.base import ContextSpec, Extension, ModelSpec, SamplerSettings, Scalar
from fader_backends.sampling import chain
from fader_plugins.graph_check import check

Figures = dict[str, Any]
PROMPT, TOKENS, LENGTH = 512, 64, 1024
WAYS: dict[str, dict[str, Scalar]] = {
    "eager": {},
    "static": {"graph": "static", "graph_bucket": LENGTH},
    "compiled": {"graph": "compile", "graph_bucket": LENGTH},
}
"""Way -> options of the context."""
VERIFY = 8


def ids_of(count: int) -> list[int]:
    """Return ids that every vocabulary here has."""
    return [5 + (7 * place * place) % 250 for place in range(count)]


@contextmanager
def opened(folder: Path, options: Mapping[str, Scalar], load: Mapping[str, Scalar]) -> Iterator[Any]:
    """Load on torch; free it afterwards."""
    context = ContextSpec(length=LENGTH, rows=1, batch=PROMPT, options=dict(options))
    backend: Any = torch_hf.load(
        ModelSpec(backend="torch", model=str(folder), options=dict(load)), context, lambda _: True
    )
    try:
        yield backend
    finally:
        backend.close()
        del backend
        gc.collect()


def ours(folder: Path, way: str, load: Mapping[str, Scalar], tokens: int = TOKENS, tune: bool = False) -> Figures:
    """Measure one way: TTFT of a cold prompt, TPOT, a step that checks drafts, and the device's peak memory."""
    import torch

    cuda = torch.cuda.is_available()
    options = {**WAYS[way], **({"graph_tune": True} if tune and way == "compiled" else {})}
    with opened(folder, options, load) as backend:
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        if (state := backend.graph()) is not None:
            backend.use_graph(not (why := check(backend, state)[0]), why)
        session = backend.open()
        prompt = ids_of(PROMPT)
        ttft = []
        for _ in range(3):  # the first one warms up
            session.rewind(0)
            begin = time.perf_counter()
            token = int(session.extend(prompt)[0].argmax())
            ttft.append((time.perf_counter() - begin) * 1e3)
        for _ in range(4):  # other buffers than the check had: CUDA graphs are recorded once more
            token = int(session.extend([token])[0].argmax())
        gaps = []
        for _ in range(tokens):
            begin = time.perf_counter()
            token = int(session.extend([token])[0].argmax())
            gaps.append((time.perf_counter() - begin) * 1e3)
        checks = []
        for _ in range(8):
            length = len(session.tokens)
            begin = time.perf_counter()
            session.extend(prompt[:VERIFY], VERIFY)
            checks.append((time.perf_counter() - begin) * 1e3)
            session.rewind(length)
        state = backend.graph()
        memory = backend.memory()
        return {
            "ttft_ms": statistics.median(ttft[1:]),
            "tpot_ms": statistics.fmean(gaps),
            "tpot_p50_ms": statistics.median(gaps),
            "verify_ms": statistics.median(checks[len(checks) // 2 :]),
            "device": backend.facts.device,
            "weights_bytes": memory.weights_bytes,
            "step_bytes": step_bytes(backend, PROMPT + tokens // 2),
            "peak_bytes": memory.device_peak_bytes,
            "graph": None
            if state is None
            else {
                "on": state.on,
                "why": state.why,
                "compile_s": state.compile_ms / 1e3,
                "graphs": state.graphs,
                "recompiles": state.recompiles,
                "breaks": state.breaks,
            },
        }


def sampled(folder: Path, load: Mapping[str, Scalar], tokens: int = TOKENS) -> Figures:
    """Measure a token and its choice by temperature, top-k and top-p, with the best scores found on the device and here."""
    settings = SamplerSettings(temperature=0.7, top_k=40, top_p=0.95, min_p=0.05, seed=1)
    found: Figures = {}
    for place in ("host", "device"):
        with opened(folder, {"best_on": place}, load) as backend:
            session, ids = backend.open(), ids_of(PROMPT)
            sample = chain(settings, backend, backend.facts.vocabulary)
            session.extend(ids[:-1], 0)
            gaps = []
            for _ in range(tokens):
                begin = time.perf_counter()
                (rows,) = backend.evaluate([Extension(session, ids[-1:], 1, sample.enough)])
                ids.append(sample(rows[0], ids).token)
                gaps.append((time.perf_counter() - begin) * 1e3)
            found[place] = {"tpot_p50_ms": statistics.median(gaps), "ids": ids[-4:]}
    if found["host"]["ids"] != found["device"]["ids"]:
        raise RuntimeError(f"other tokens were chosen: {found}")
    return found


def step_bytes(backend: Any, held: int) -> int:
    """Return what a one-token step must read: all weights but the rows of the embedding it does not use, and keys and values."""
    model = backend._weights.model
    inputs, outputs = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    unused = inputs.nbytes if inputs.data_ptr() != outputs.data_ptr() else 0
    return int(backend.memory().weights_bytes - unused + held * backend.memory().kv_token_bytes)


def theirs(folder: Path, device: str, dtype: str, tokens: int = TOKENS) -> Figures:
    """Measure transformers' `generate` with its default cache and attention, greedy and of fixed length."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).to(device).eval()
    inputs = torch.tensor([ids_of(PROMPT)], device=device)
    stamps: list[float] = []

    def stamp(_: Any, scores: Any) -> Any:
        if device == "cuda":
            torch.cuda.synchronize()
        stamps.append(time.perf_counter())
        return scores

    for _ in range(2):  # the first one warms up
        stamps.clear()
        begin = time.perf_counter()
        model.generate(
            inputs,
            attention_mask=torch.ones_like(inputs),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            pad_token_id=0,
            logits_processor=[stamp],
        )
    del model
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    return {"ttft_ms": (stamps[0] - begin) * 1e3, "tpot_ms": (stamps[-1] - stamps[0]) * 1e3 / (len(stamps) - 1)}


def copy_bytes_per_s(device: str) -> float:
    """Return what copying a large tensor moves on the device, bytes read and written together; best of ten."""
    import torch

    size = 1 << (32 if device == "cuda" else 28)
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(10):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        target.copy_(source)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return 2 * size / best
