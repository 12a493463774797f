"""What the KV cache takes, by number type."""

from __future__ import annotations

from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.llamacpp import load

from tests.bench.harness import Options, Outcome
from tests.bench.sides import LENGTH, model


def kv_bytes(options: Options) -> Outcome:
    """Compare the live KV buffers of q8_0 with those of f16, made one after the other on one loaded model."""
    pairs = options.pairs(3, 1)
    backend = load(ModelSpec(backend="llama.cpp", model=str(model())), _context("f16"), lambda _: True)
    a: list[float] = []
    b: list[float] = []
    try:
        for _ in range(pairs):
            for kind, values in (("q8_0", a), ("f16", b)):
                backend.configure(_context(kind))
                values.append((backend.memory().kv_bytes or 0) / 2**20)
    finally:
        backend.close()
    return Outcome(a, b, f"live KV buffers as llama.cpp reports them; context {LENGTH}, one row, flash attention")


def _context(kind: str) -> ContextSpec:
    return ContextSpec(length=LENGTH, rows=1, options={"flash_attention": "on", "type_k": kind, "type_v": kind})
