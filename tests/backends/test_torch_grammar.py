"""Grammars on torch: one matcher for vocabularies from GGUF files and from folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fader_backends.base import SamplerSettings
from fader_backends.llamacpp.backend import LlamaCpp
from fader_backends.sampling import chain

from tests.backends.conftest import Open

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["gguf", "folder"])
def test_grammars(kind: str, open_torch: Open, folders: Callable[[str], Path]) -> None:
    """A reply follows a grammar, whichever vocabulary the model has, and ends where the grammar does."""
    from fader_backends.errors import BadValue

    backend = open_torch("" if kind == "gguf" else folders("llama"))
    held = backend.constrain('root ::= "yes" | "no" | "né"', "")
    assert held.allows(backend.encode("yes")[0])
    assert not held.allows(backend.encode("maybe")[0])
    masked = held.mask(np.zeros(backend.facts.vocabulary, np.float32))
    assert 0 < np.isfinite(masked).sum() < 20
    assert not any(held.allows(end) for end in backend.end_tokens)
    for token in backend.encode("né"):
        held.accept(token)
    assert np.flatnonzero(np.isfinite(held.mask(np.zeros(backend.facts.vocabulary, np.float32)))).tolist() == sorted(
        backend.end_tokens
    )
    held.close()
    with pytest.raises(BadValue, match="line 1"):
        backend.constrain("root ::= (", "")


@pytest.mark.parametrize("seed", range(3))
def test_a_model_of_random_words_writes_json(seed: int, open_torch: Open, folders: Callable[[str], Path]) -> None:
    """Held to a schema, even random weights from a folder write what parses."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 6}, "b": {"enum": ["é\\", "日本"]}}}
    backend = open_torch(folders("llama"))
    held = backend.constrain("", json.dumps({**schema, "required": ["a", "b"], "additionalProperties": False}))
    sample = chain(SamplerSettings(temperature=1.0, seed=seed), backend, backend.facts.vocabulary, held)
    session, ids = backend.open(), backend.encode("well")
    begun = len(ids)
    while ids[-1] not in backend.end_tokens:
        assert len(ids) < 200, "it goes on and on"
        ids.append(sample(session.extend(ids[len(session.tokens) :])[0], ids).token)
    held.close()
    text = b"".join(backend.piece(token) for token in ids[begun:]).decode(
        errors="replace"
    )  # llama.cpp lets bytes go astray
    said = json.loads(text)
    assert list(said) == ["a", "b"]
    assert said["b"] in ("é\\", "日本")


def test_a_lent_vocabulary_matches_as_the_own(llama: LlamaCpp) -> None:
    """SmolLM2's words, taken over piece by piece: the same tokens are allowed at every step as with its GGUF file."""
    from fader_backends.torch_hf.matcher import CONTROL, NORMAL, Entry, Matcher
    from fader_backends.torch_hf.vocabulary import _CHARACTERS

    entries = []
    named = {token: text for text, token in llama._vocabulary.control.items()}
    for token in range(llama.facts.vocabulary):
        text = "".join(_CHARACTERS[byte] for byte in llama.piece(token))
        entries.append(Entry(named[token], CONTROL) if token in named else Entry(text, NORMAL))
    lent = Matcher(entries, sorted(llama.end_tokens))
    grammar = r'root ::= "{" [^{}\x00]{2,9} "}" ("日" | "né")+ <|im_start|>? [0-9]*'
    one, other = lent.constrain(grammar, ""), llama.constrain(grammar, "")
    flat = np.zeros(llama.facts.vocabulary, np.float32)
    for text in ("{", "a", " 日本", "}", "né", "日", "<|im_start|>", "7"):
        tokens = [named_token] if (named_token := llama._vocabulary.control.get(text)) else llama.encode(text)
        for token in tokens:
            np.testing.assert_array_equal(one.mask(flat), other.mask(flat), err_msg=f"before {text}")
            one.accept(token)
            other.accept(token)
    np.testing.assert_array_equal(one.mask(flat), other.mask(flat))
    assert all(one.allows(end) for end in llama.end_tokens)
    one.close()
    other.close()
    lent.close()
