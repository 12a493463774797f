"""The quality gate of KV types: its arithmetic, and its order on the embedded model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from fader.models import embedded
from fader.quality import Quality, WeightsQuality, compare, compare_weights, divergences, log_probabilities
from fader.quality_text import TEXT
from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.errors import BadValue
from fader_backends.llamacpp import load

from tests.backends import tiny_hf

Fader = Callable[..., Result]


def test_kl() -> None:
    """Equal rows are 0 apart; a known pair is as far apart as the sum says; shifting all scores changes nothing."""
    p = np.log(np.array([[0.5, 0.25, 0.25], [0.9, 0.05, 0.05]], np.float32))
    q = np.log(np.array([[0.25, 0.5, 0.25], [0.9, 0.05, 0.05]], np.float32))
    want = 0.5 * np.log(2) - 0.25 * np.log(2)
    assert divergences(log_probabilities(p + 3), log_probabilities(q - 2)) == pytest.approx([want, 0.0], abs=1e-6)


@pytest.mark.slow
def test_smaller_types_are_further_away() -> None:
    """f16 against itself < q8_0 < q4_0 in KL, and the memory saved is that of the block formats."""
    if embedded() is None:
        pytest.skip("the embedded model is not installed")
    backend = load(ModelSpec(backend="llama.cpp"), ContextSpec(length=256, rows=1, threads=1), lambda _: True)
    seen: list[Quality] = []
    try:
        assert 350 <= len(backend.encode(TEXT)) <= 700
        found = compare(backend, ContextSpec(threads=1), [("q8_0", "q8_0"), ("q4_0", "q4_0")], seen.append, TEXT[:600])
        with pytest.raises(BadValue, match="nope"):
            compare(backend, ContextSpec(threads=1), [("nope", "f16")], text=TEXT[:60])
    finally:
        backend.close()
    assert found == seen
    same, eight, four = found
    assert (same.type_k, same.saved, same.divergence is None or same.divergence.at > 0) == ("f16", 0.0, True)
    assert same.kl_mean < 0.02
    assert eight.kl_mean < four.kl_mean
    assert four.same_best < 1.0
    assert eight.saved == pytest.approx(1 - 34 / 64, abs=0.001)
    assert four.saved == pytest.approx(1 - 18 / 64, abs=0.001)
    assert all(0 <= one.kl_mean <= one.kl_p95 <= one.kl_max for one in found)


@pytest.mark.slow
def test_weights_of_fewer_bits_are_further_away(tmp_path: Path) -> None:
    """The model against itself is 0 away but for rounding; half precision is nearer than eight bits, and saves less."""
    from fader_backends import torch_hf

    folder = tiny_hf.write(tmp_path / "tiny")
    seen: list[WeightsQuality] = []
    model = ModelSpec(backend="torch", model=str(folder))
    text = TEXT[:300]
    found = compare_weights(torch_hf.load, model, ContextSpec(threads=1), ("float16", "int8"), seen.append, text)
    assert found == seen
    same, half, eight = found
    assert (same.matrices, same.saved) == ("plain", 0.0)
    assert same.kl_mean < half.kl_mean < eight.kl_mean < 0.5
    assert same.kl_mean < 1e-6
    assert 0.3 < (half.saved or 0) < (eight.saved or 0) < 0.8
    assert half.positions > 200


@pytest.mark.slow
def test_the_commands(fader: Fader) -> None:
    if embedded() is None:
        pytest.skip("the embedded model is not installed")
    table = json.loads(fader("kv", "table", "--json").stdout)
    assert (table["layers"], table["key_size"]) == (30, 64)
    assert {row["type"]: row["token_bytes"] for row in table["types"]}["f16"] == 23040
    lines = fader("kv", "table").stdout.splitlines()
    assert lines[0].endswith("30 layers, 3 KV heads of 64 + 64 numbers")
    assert any(line.startswith("q8_0    12,240") for line in lines)
    assert "cpu" in fader("devices").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("kv", "table", "-p", "echo"), 1, "The echo backend has no KV types."),
        (("kv", "check", "--type-k", "q9"), 2, "'q9' is no type of a KV cache."),
        (("weights", "check"), 1, "The llama.cpp backend keeps weights as its files have them."),
        (("weights", "check", "-p", "torch", "--matrices", "int3"), 2, "'int3' is no way to keep matrices."),
        (("run", "-p", "echo", "x", "--on", "weights"), 1, "weights cannot be switched on here."),
        (("kv", "table", "-m", "nowhere.gguf"), 2, "nowhere.gguf"),
        (("run", "-p", "echo", "x", "--on", "tensor_split"), 1, "tensor_split cannot be switched on here."),
        (("run", "-p", "echo", "x", "-o", "sampler.grammar=root ::= (", "--on", "sampler"), 2, "line 1, column 11"),
    ],
)
def test_refusals(fader: Fader, arguments: tuple[str, ...], code: int, said: str) -> None:
    result = fader(*arguments)
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""
