"""What the contract does not say about torch: scores are transformers' own, GGUF files mean what they mean to llama.cpp."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fader_backends.base import ContextSpec, Extension, Message, ModelSpec, Scalar
from fader_backends.errors import BadScores, Interrupted, OutOfMemory, TurnError
from fader_backends.llamacpp.backend import LlamaCpp, open_backend

from tests.backends import tiny, tiny_hf
from tests.backends.conftest import Open

pytestmark = pytest.mark.slow
NOW = datetime(2026, 1, 1)


@pytest.mark.parametrize("kind", tiny_hf.KINDS)
def test_scores_are_transformers_own(kind: str, folders: Callable[[str], Path], open_torch: Open) -> None:
    """In chunks, singly and in company the logits are those of one plain forward without any cache, in eager attention."""
    import torch
    from transformers import AutoModelForCausalLM

    ids = [5 + (7 * place * place) % 250 for place in range(60)]
    model = AutoModelForCausalLM.from_pretrained(folders(kind), attn_implementation="eager").eval()
    with torch.no_grad():
        want = model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    backend = open_torch(folders(kind))
    session, other = backend.open(), backend.open()
    got = [session.extend(ids[:20], 20), session.extend(ids[20:50], 30)]
    got += [backend.evaluate([Extension(other, ids[:9], 1), Extension(session, ids[50:53], 3)])[1]]
    got += [session.extend([token]) for token in ids[53:]]
    np.testing.assert_allclose(np.concatenate(got), want, atol=2e-4)
    assert want.std() > 0.5, "the scores are worth comparing"


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
def test_gguf_files_mean_the_same_as_on_llama(architecture: str, tmp_path: Path, open_torch: Open) -> None:
    """The same file of random float32 weights gives the same logits on both backends."""
    path = tiny.write(tmp_path / "tiny.gguf", architecture)
    ids = [260 + place * place % 15 for place in range(40)]
    context = ContextSpec(length=256, threads=1, batch=64)
    native = open_backend(ModelSpec(backend="llama.cpp", model=str(path), template="plain"), context, lambda _: True)
    want = native.open().extend(ids, 40)
    native.close()
    for _ in range(2):  # as it is made, and from the copy
        backend = open_torch(path, template="plain")
        got = backend.open().extend(ids, 40)
        assert np.abs(got - want).max() < 0.02 * want.std(), (
            "llama.cpp keeps keys in half precision, nothing else differs"
        )


def test_smollm2_is_asked_and_answers_alike(
    llama: LlamaCpp, open_torch: Open, record_property: Callable[[str, object], None]
) -> None:
    """Both backends see the same ids; greedy replies part, if at all, where the two best logits are close.

    Where and by how much goes into the report (`pytest --junitxml`, or -s).
    """
    backend = open_torch("")
    for talk in ("What is the capital of France?", "naïve 日本 👩‍🚀 123  4\n\n", "<|im_end|> x"):
        messages = [Message("user", talk), Message("assistant", "Well, 42.", None), Message("user", talk)]
        assert backend.chat(messages, NOW) == llama.chat(messages, NOW)
        assert backend.encode(talk) == llama.encode(talk)
    assert backend.end_tokens == llama.end_tokens
    assert all(backend.piece(token) == llama.piece(token) for token in range(0, 49152, 7))
    ids = backend.chat([Message("user", "Name three colours and say why you like each.")], NOW)
    sessions = backend.open(), llama.open()
    rows = [session.extend(ids)[0] for session in sessions]
    parted = "they say the same 60 tokens"
    for place in range(60):
        best = [int(row.argmax()) for row in rows]
        if best[0] != best[1]:
            gap = max(float(row[best[0]] - row[best[1]]) * sign for row, sign in zip(rows, (1, -1), strict=True))
            parted = f"they part after {place} tokens, where the two best logits are {gap:.3f} apart"
            assert gap < 2.0, f"{parted}: more than unlike arithmetic explains"
            break
        rows = [session.extend([best[0]])[0] for session in sessions]
    print(f"torch and llama.cpp, SmolLM2, greedy: {parted}")
    record_property("torch against llama.cpp", parted)
    sessions[1].close()


def test_five_bit_blocks() -> None:
    """Q5_0 and Q5_1 against ggml's own loops, number by number."""
    from fader_backends.ggml_types import BLOCKS
    from fader_backends.torch_hf.unpack import Q5_0, Q5_1, unpacked

    chance = np.random.default_rng(3)
    for kind in (Q5_0, Q5_1):
        blocks = chance.integers(0, 256, (7, BLOCKS[kind][1]), dtype=np.uint8)
        blocks[:, : 2 if kind == Q5_0 else 4].view(np.float16)[:] = chance.normal(size=(7, 1 if kind == Q5_0 else 2))
        want = np.concatenate([_five(bytes(block), kind == Q5_1) for block in blocks])
        np.testing.assert_allclose(unpacked(blocks.reshape(-1), kind).numpy(), want, rtol=1e-6)


def _five(block: bytes, offset: bool) -> list[float]:
    head = 4 if offset else 2
    scale, *least = np.frombuffer(block[:head], np.float16).astype(np.float32).tolist()
    high, low = int.from_bytes(block[head : head + 4], "little"), block[head + 4 :]
    codes = [(low[place % 16] >> (0 if place < 16 else 4)) & 15 | (high >> place & 1) << 4 for place in range(32)]
    return [code * scale + least[0] if offset else (code - 16) * scale for code in codes]


def test_cancel_is_heard_between_layers(open_torch: Open) -> None:
    """A running chunk ends within 200 ms of the key, or half a chunk on a busy machine; its session is as it was."""
    backend = open_torch("", ContextSpec(length=2048, batch=256))
    session = backend.open()
    begin = time.monotonic()
    session.extend(list(range(20, 276)), 0)
    chunk = time.monotonic() - begin
    session.rewind(0)
    session.extend([5] * 10, 0)
    pressed: list[float] = []

    def press() -> None:
        pressed.append(time.monotonic())
        backend.interrupt()

    timer = threading.Timer(0.1, press)
    timer.start()
    with pytest.raises(Interrupted):
        session.extend(list(range(20, 532)) * 3)
    assert time.monotonic() - pressed[0] < max(0.2, chunk / 2)
    assert session.tokens == [5] * 10
    backend.resume()
    assert session.extend([7]).shape == (1, 49152)


def test_what_goes_wrong_in_a_call_changes_nothing(
    folders: Callable[[str], Path], open_torch: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No memory, no numbers, no such token: one clear error each, and the session goes on as if nothing had been."""
    import torch

    backend = open_torch(folders("llama"))
    session = backend.open()
    session.extend([5, 6, 7], 0)
    want = session.extend([8])
    session.rewind(3)

    def failing(error: BaseException) -> Callable[..., Any]:
        def forward(*_: Any) -> Any:
            raise error

        return forward

    for error, kind in (
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), OutOfMemory),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: not enough memory: 1"), OutOfMemory),
        (RuntimeError("something else"), TurnError),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(backend._weights, "forward", failing(error))
            with pytest.raises(kind) as caught:
                session.extend([8])
        assert type(caught.value) is kind
        assert session.tokens == [5, 6, 7]
    with monkeypatch.context() as patch:
        patch.setattr(backend._weights, "forward", lambda *_: torch.full((1, 268), float("nan")))
        with pytest.raises(BadScores):
            session.extend([8])
    with pytest.raises(TurnError, match="tokens"):
        session.extend([268])
    np.testing.assert_array_equal(session.extend([8]), want)


def test_a_quantised_cache_is_smaller_and_close(open_torch: Open) -> None:
    """Keys and values in q8_0 take about half of half precision, and move logits little; q4_0 takes less, and moves more."""
    ids = list(range(100, 180))
    scores, sizes = {}, {}
    for kind in ("f32", "f16", "q8_0", "q4_0"):
        backend = open_torch("", ContextSpec(length=512, batch=128, options={"type_k": kind, "type_v": kind}))
        scores[kind], sizes[kind] = backend.open().extend(ids)[0], backend.memory().kv_token_bytes
        backend.close()
    far = {kind: float(np.abs(row - scores["f32"]).max()) for kind, row in scores.items()}
    assert far["f16"] < 0.05
    assert far["f16"] < far["q8_0"] < far["q4_0"] < 10
    assert sizes == {"f32": 46080.0, "f16": 23040.0, "q8_0": 23040 * 34 / 64, "q4_0": 23040 * 18 / 64}


def test_a_state_that_was_cut_is_refused(folders: Callable[[str], Path], open_torch: Open) -> None:
    """Saved bytes are safetensors; half of them are an error that leaves the session as it was."""
    from fader_backends.base import SessionState
    from fader_backends.errors import NotSupported
    from safetensors.torch import load as parse

    backend = open_torch(folders("llama"))
    session = backend.open()
    session.extend([5, 6, 7, 8], 0)
    state = session.save()
    assert parse(state.data)["0.k.0"].shape == (2, 4, 32)
    for data in (state.data[:200], b"", b"\0" * 64):
        with pytest.raises(NotSupported):
            session.load(SessionState(state.tokens, state.key, data))
    with pytest.raises(NotSupported):
        session.load(SessionState((*state.tokens, 9), state.key, state.data))
    assert session.tokens == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("llama", {}), ("qwen3", {}), ("gemma3_text", {}), ("qwen3_moe", {}), ("llama", {"matrices": "int8"})],
)
def test_twenty_loads_keep_memory(
    kind: str, options: dict[str, Scalar], folders: Callable[[str], Path], open_torch: Open
) -> None:
    """Law 9: what a load and a turn take comes back, whatever the architecture, and however weights are kept."""
    import psutil

    process = psutil.Process()
    for number in range(20):
        backend = open_torch(folders(kind), **options)
        backend.open().extend([5] * 60)
        backend.close()
        if number == 4:
            before = process.memory_info().rss
    assert process.memory_info().rss - before < 16 << 20
