"""The llama.cpp backend on the embedded model: sessions that are exact, calls that are all or nothing."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from fader_backends.base import ContextSpec, Extension, ModelSpec, Scores
from fader_backends.errors import (
    BadScores,
    BadValue,
    ContextFull,
    Interrupted,
    LoadError,
    ModelDamaged,
    ModelMissing,
    NotSupported,
    OutOfMemory,
    UnknownName,
)
from fader_backends.llamacpp import load
from fader_backends.llamacpp.backend import LlamaCpp, open_backend
from fader_backends.llamacpp.session import LlamaSession

from tests.backends.conftest import EXACT

pytestmark = pytest.mark.slow

SPEC = ModelSpec(backend="llamacpp")
PROMPT_TEXT = "The quick brown fox jumps over the lazy dog and then goes on a long walk. "
NEXT_TEXT = "And so it was that the old man sat down by the river"


@pytest.fixture(scope="module")
def prompt(llama: LlamaCpp) -> list[int]:
    return llama.encode(PROMPT_TEXT * 5)[:80]


@pytest.fixture(scope="module")
def following(llama: LlamaCpp) -> list[int]:
    return llama.encode(NEXT_TEXT)


@pytest.fixture(autouse=True)
def clean(llama: LlamaCpp) -> Iterator[None]:
    yield
    llama.resume()
    for session in list(llama._sessions.values()):
        session.close()


def started(llama: LlamaCpp, prompt: list[int]) -> LlamaSession:
    session = llama.open()
    for start in range(0, len(prompt), 32):
        session.extend(prompt[start : start + 32], 0)
    return session


def one_by_one(session: LlamaSession, tokens: list[int]) -> Scores:
    return np.concatenate([session.extend([token]) for token in tokens])


@pytest.fixture(scope="module")
def plain(llama: LlamaCpp, prompt: list[int], following: list[int]) -> Scores:
    """Scores of plain decoding, nothing else going on: what everything else must equal."""
    session = started(llama, prompt)
    scores = one_by_one(session, following)
    session.close()
    return scores


def test_rewound(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    session = started(llama, prompt)
    session.extend(prompt[:20])
    session.rewind(len(prompt))
    assert session.tokens == prompt
    assert np.array_equal(one_by_one(session, following), plain)
    session.rewind(0)
    for start in range(0, len(prompt), 32):
        session.extend(prompt[start : start + 32], 0)
    assert np.array_equal(one_by_one(session, following), plain)
    with pytest.raises(ValueError, match="rewind"):
        session.rewind(10_000)


def test_forked_and_in_one_batch(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    sessions = [started(llama, prompt)]
    sessions += [sessions[0].fork() for _ in range(3)]
    with pytest.raises(OutOfMemory):
        llama.open()
    for step, token in enumerate(following):
        others = [Extension(session, prompt[step : step + 2], 2) for session in sessions[1:3]]
        scores = llama.evaluate([*others, Extension(sessions[0], [token], 1), Extension(sessions[3], [token], 1)])
        assert [len(rows) for rows in scores] == [2, 2, 1, 1]
        assert np.array_equal(scores[2][0], plain[step])
        assert np.array_equal(scores[3][0], plain[step])


def test_saved_and_loaded(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    session = started(llama, prompt)
    state = session.save()
    session.extend(following)
    other = session.fork()
    other.load(state)
    assert other.tokens == prompt
    assert np.array_equal(one_by_one(other, following), plain)
    with pytest.raises(NotSupported):
        other.load(type(state)(state.tokens, "another", state.data))
    with pytest.raises(OutOfMemory):
        other.load(type(state)(state.tokens, state.key, state.data[:1000]))
    other.rewind(len(prompt))
    assert np.array_equal(one_by_one(other, following), plain), "a load that failed leaves the session as it was"
    empty = llama.open()
    other.load(empty.save())
    assert other.tokens == []


def test_several_rows_of_one_call(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    assert np.array_equal(started(llama, prompt).extend(following, len(following)), plain)
    assert np.array_equal(started(llama, prompt).extend(following, 3), plain[-3:])


def test_longer_than_a_batch(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    session = llama.open()
    scores = session.extend([*prompt, *following], len(following))
    assert len(session.tokens) > llama.context.batch
    assert np.array_equal(scores, plain)


def test_other_rows_change_no_bit(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    chance = random.Random(1)
    session = started(llama, prompt)
    others: list[LlamaSession] = []
    for step, token in enumerate(following):
        match chance.randrange(3):
            case 0 if len(others) < 3:
                others.append(llama.open())
                others[-1].extend(prompt[: chance.randint(1, 30)])
            case 1 if others:
                others.pop(chance.randrange(len(others))).close()
            case _ if others:
                others[-1].rewind(chance.randint(0, len(others[-1].tokens)))
        assert np.array_equal(session.extend([token])[0], plain[step])


def test_scores_belong_to_the_caller(llama: LlamaCpp, prompt: list[int]) -> None:
    session = llama.open()
    first = session.extend(prompt[:2])
    copy = first.copy()
    session.extend(prompt[2:4])
    assert np.array_equal(first, copy)
    assert first.dtype == np.float32
    assert first.shape == (1, llama.facts.vocabulary)


def test_a_full_context(llama: LlamaCpp, prompt: list[int]) -> None:
    session = started(llama, prompt)
    with pytest.raises(ContextFull, match="1,0"):
        session.extend([5] * (llama.context.length - len(prompt) + 1))
    assert session.tokens == prompt
    session.extend([5] * 40, 0)
    with pytest.raises(ContextFull):
        llama.evaluate([Extension(session, [5] * 64, 0)] * 1 + [Extension(llama.open(), [5] * 2000, 0)])
    assert len(session.tokens) == 120


def test_what_cannot_be_meant_is_refused(llama: LlamaCpp) -> None:
    session = llama.open()
    for work in (
        [Extension(session, [5] * (llama.context.batch + 1), 0)],
        [Extension(session, [5], 2)],
        [Extension(session, [5], 1), Extension(session, [6], 1)],
    ):
        with pytest.raises(ValueError, match=r"\d|twice"):
            llama.evaluate(work)
    session.close()
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.extend([5])
    assert llama.evaluate([]) == []
    assert llama.open().extend([], 0).shape == (0, llama.facts.vocabulary)


def test_a_token_that_is_none(llama: LlamaCpp, prompt: list[int]) -> None:
    session = started(llama, prompt)
    with pytest.raises(Exception, match="could not evaluate"):
        session.extend([10**6])
    assert session.tokens == prompt
    session.extend(prompt[:3])


def test_scores_that_are_no_numbers(
    llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = started(llama, prompt)
    poison = np.full(llama.facts.vocabulary, 1, np.float32)
    poison[1234] = np.nan
    with monkeypatch.context() as patch:
        patch.setattr(llama._live, "_scores_at", lambda pointer, place: poison.ctypes.data)
        with pytest.raises(BadScores):
            session.extend(following[:2], 2)
    assert np.array_equal(one_by_one(session, following), plain)


def test_interrupted(llama: LlamaCpp, prompt: list[int], following: list[int], plain: Scores) -> None:
    session = started(llama, prompt)
    pressed = []

    def press() -> None:
        pressed.append(time.monotonic())
        llama.interrupt()

    threading.Timer(0.15, press).start()
    with pytest.raises(Interrupted):
        session.extend(prompt * 11)
    assert time.monotonic() - pressed[0] < 0.2
    assert session.tokens == prompt
    with pytest.raises(Interrupted):
        session.extend(following)
    llama.resume()
    assert np.array_equal(one_by_one(session, following), plain)


def test_end_tokens_are_all_of_them(llama: LlamaCpp) -> None:
    vocabulary = llama._vocabulary
    scan = {t for t in range(vocabulary.size) if vocabulary._library.llama_vocab_is_eog(vocabulary._pointer, t)}
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
