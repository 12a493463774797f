"""The quality gate of KV types: its arithmetic, and its order on the embedded model."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from click.testing import Result
from fader.models import embedded
from fader.quality import Quality, compare, divergences, log_probabilities
from fader.quality_text import TEXT
from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.errors import BadValue
from fader_backends.llamacpp import load

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
