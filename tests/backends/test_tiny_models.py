"""What the embedded model cannot show: SentencePiece vocabularies, models whose state cannot be cut, no template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from fader_backends.base import ContextSpec, Extension, Message, ModelSpec
from fader_backends.errors import Interrupted, NoTemplate, NotSupported
from fader_backends.llamacpp.backend import LlamaCpp, open_backend
from fader_backends.template import NAMED, render

from tests.backends import tiny

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 1)
Open = Callable[..., LlamaCpp]


@pytest.fixture
def tiny_model(tmp_path: Path) -> Iterator[Open]:
    opened: list[LlamaCpp] = []

    def make(architecture: str, template: str = "plain") -> LlamaCpp:
        path = tiny.write(tmp_path / f"{architecture}.gguf", architecture)
        spec = ModelSpec(backend="llamacpp", model=str(path), template=template)
        opened.append(open_backend(spec, ContextSpec(length=256, threads=1, rows=3, batch=32), lambda fraction: True))
        return opened[-1]

    yield make
    for backend in opened:
        backend.close()


def test_no_template(tiny_model: Open) -> None:
    with pytest.raises(NoTemplate, match="Tiny llama carries no chat template"):
        tiny_model("llama", "")


def test_sentencepiece_text_is_exact_and_harmless(tiny_model: Open) -> None:
    backend = tiny_model("llama", "llama-2")
    parse = backend._vocabulary.parse
    assert 2 in parse("hello </s>")
    assert backend.end_tokens == {2}
    for benign in ("hello world", " hello", "</ s>", "a\n\nb ", "é"):
        whole = render(NAMED["llama-2"], [{"role": "user", "content": benign}], NOW, "<s>", "</s>")
        assert backend.chat([Message("user", benign)], NOW) == parse(whole)
    for attack in ("</s>", "hello</s>hello", "<s>", "<unk>", "</</s>s>", "</s></s>"):
        ids = backend.chat([Message("system", attack), Message("user", attack)], NOW)
        assert [token for token in ids if token < 3] == [1]
        assert min(backend.encode(attack)) > 2
        # text that was cut reads as before: no space slipped in where it was
        assert b"".join(backend.piece(token) for token in backend.encode(attack)).strip() == attack.encode()


def test_sentencepiece_turns_extend_each_other(tiny_model: Open) -> None:
    for name in ("llama-2", "mistral", "plain"):
        backend = tiny_model("llama", name)
        messages = [Message("user", "hello")]
        prompt = backend.chat(messages, NOW)
        reply = tuple(backend.encode("hello world"))
        messages += [Message("assistant", " hello world", reply), Message("user", "world</s>")]
        assert backend.chat(messages, NOW)[: len(prompt) + len(reply)] == [*prompt, *reply]


def test_a_state_that_cannot_be_cut(tiny_model: Open) -> None:
    backend = tiny_model("mamba")
    tokens = [260 + i % 10 for i in range(20)]
    fresh = backend.open()
    expected = fresh.extend([*tokens, 261])
    fresh.close()
    session = backend.open()
    session.extend(tokens)
    fork, state = session.fork(), session.save()
    with pytest.raises(NotSupported):
        session.rewind(10)
    assert session.tokens == tokens
    np.testing.assert_allclose(session.extend([261]), expected, atol=1e-4)
    np.testing.assert_allclose(fork.extend([261]), expected, atol=1e-4)
    session.load(state)
    np.testing.assert_allclose(session.extend([261]), expected, atol=1e-4)
    session.rewind(0)
    np.testing.assert_allclose(session.extend([*tokens, 261]), expected, atol=1e-4)


def test_an_interrupted_state_is_evaluated_again(tiny_model: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = tiny_model("mamba")
    tokens = [260 + i % 10 for i in range(40)]
    fresh = backend.open()
    fresh.extend(tokens, 0)
    expected = fresh.extend([261])
    fresh.close()
    session = backend.open()
    session.extend(tokens, 0)
    live = backend._live
    assert live is not None
    run = live.run
    with monkeypatch.context() as patch:
        patch.setattr(live, "run", lambda work: run(work) or 2)  # evaluated, then said to be interrupted
        with pytest.raises(Interrupted):
            backend.evaluate([Extension(session, tokens[:5], 1)])
    assert session.tokens == tokens
    assert session.lost
    np.testing.assert_allclose(session.extend([261]), expected, atol=1e-4)
