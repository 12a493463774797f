"""The llama.cpp backend around its sessions: loading, refusing, contexts made anew, quiet, memory given back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.errors import (
    BadValue,
    Interrupted,
    LoadError,
    ModelDamaged,
    ModelMissing,
    OutOfMemory,
    UnknownName,
)
from fader_backends.llamacpp import load
from fader_backends.llamacpp.backend import LlamaCpp, open_backend

from tests.backends.conftest import EXACT

pytestmark = pytest.mark.slow

SPEC = ModelSpec(backend="llamacpp")


def test_end_tokens_are_all_of_them(llama: LlamaCpp) -> None:
    vocabulary = llama._vocabulary
    scan = {t for t in range(vocabulary.size) if vocabulary._library.llama_vocab_is_eog(vocabulary.pointer, t)}
    assert llama.end_tokens == scan == {0, 2, 4}


def test_facts_and_memory(llama: LlamaCpp, smollm2: Path) -> None:
    facts, memory = llama.facts, llama.memory()
    assert (facts.path, facts.quantisation, facts.threads) == (str(smollm2), "Q4_1", 1)
    assert facts.versions["llama-cpp-python"] == "0.3.36"
    assert memory.weights_bytes is not None
    assert abs(memory.weights_bytes - facts.size_bytes) < 3e6
    assert memory.kv_bytes == 4 * 1024 * 30 * 2 * 192 * 2


def test_configured_anew(smollm2: Path) -> None:
    backend = open_backend(SPEC, ContextSpec(length=500, rows=2, threads=1, batch=64), lambda fraction: True)
    try:
        assert (backend.context.length, backend.context.batch) == (512, 64)
        session = backend.open()
        key, before = backend.state_key, backend.memory().kv_bytes
        for options in ({"flash": "on"}, {"type_k": "q3"}, {"flash_attention": "off", "type_v": "q8_0"}, {"ubatch": 0}):
            with pytest.raises((BadValue, UnknownName)):
                backend.configure(ContextSpec(length=512, options=options))  # type: ignore[arg-type]
        with pytest.raises(OutOfMemory, match="free"):
            backend.configure(ContextSpec(length=1 << 24))
        assert backend.context.length == 512
        session.extend([5, 6])
        backend.configure(ContextSpec(length=512, threads=1, options={"type_k": "q8_0", "type_v": "q8_0"}))
        with pytest.raises(ValueError, match="closed"):
            session.extend([5])
        assert backend.state_key != key
        assert backend.memory().kv_bytes < before  # type: ignore[operator]
        assert np.isfinite(backend.open().extend([5, 6])).all()
        # all rows share one buffer: when it is full, what does not fit is refused and nothing is lost
        one, two = backend.open(), backend.open()
        one.extend([5] * 400, 0)
        with pytest.raises(OutOfMemory, match="serve all rows"):
            two.extend([6] * 300, 0)
        assert (len(one.tokens), len(two.tokens)) == (400, 0)
        two.extend([6] * 50)
    finally:
        backend.close()
        backend.close()


def test_loading_can_be_stopped(smollm2: Path) -> None:
    seen: list[float] = []
    with pytest.raises(Interrupted):
        load(SPEC, EXACT, lambda fraction: seen.append(fraction) or False)  # type: ignore[func-returns-value]
    with pytest.raises(ZeroDivisionError):
        load(SPEC, EXACT, lambda fraction: 1 / 0 > 1)
    assert len(seen) == 1


def test_unusable_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "diary.gguf"
    text.write_text("Dear diary")
    for model, kind in ((str(text), ModelDamaged), (str(tmp_path), ModelMissing), ("~/nowhere.gguf", ModelMissing)):
        with pytest.raises(kind):
            load(ModelSpec(backend="llamacpp", model=model), EXACT, lambda fraction: True)
    with pytest.raises(UnknownName, match="n_gpu_layers"):
        load(ModelSpec(backend="llamacpp", options={"gpu_layers": 1}), EXACT, lambda fraction: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelMissing, match="-m PATH"):
        load(SPEC, EXACT, lambda fraction: True)


def test_a_header_that_lies_to_the_library(smollm2: Path, tmp_path: Path) -> None:
    data = smollm2.read_bytes().replace(b"llama.block_count", b"llama.blokk_count", 1)
    path = tmp_path / "odd.gguf"
    path.write_bytes(data)
    with pytest.raises(LoadError, match="could not load") as caught:
        load(ModelSpec(backend="llamacpp", model=str(path)), EXACT, lambda fraction: True)
    assert "block_count" in caught.value.detail


QUIET = """
import sys
from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.llamacpp import load
assert "llama_cpp" not in sys.modules
backend = load(ModelSpec(backend="llamacpp"), ContextSpec(length=512, threads=1), lambda fraction: True)
backend.open().extend([5, 6])
import llama_cpp
backend.close()
backend = load(ModelSpec(backend="llamacpp"), ContextSpec(length=512, threads=1), lambda fraction: True)
backend.close()
"""


def test_nothing_is_printed(smollm2: Path) -> None:
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_reloading_keeps_memory_bounded(smollm2: Path) -> None:
    process = psutil.Process()

    def cycle() -> int:
        backend = open_backend(SPEC, ContextSpec(length=512, threads=1), lambda fraction: True)
        backend.open().extend([5, 6, 7])
        backend.close()
        return process.memory_info().rss

    after_some = max(cycle() for _ in range(4))
    assert max(cycle() for _ in range(16)) < after_some + 8e6
