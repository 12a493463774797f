"""Lends a folder's vocabulary to llama.cpp's grammar matcher, as a GGUF file that holds a vocabulary and nothing else.

Knows which bytes each token stands for, not how text becomes tokens: matching needs no more.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fader_backends.constraint import Constraint
from fader_backends.errors import NotSupported

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
"""GGUF's token types."""
_ENDS = ("eos", "eot", "eom")
"""Keys under which a GGUF file names its end tokens; those after the third count where llama.cpp knows their texts."""
_UINT32, _INT32, _STRING, _ARRAY = 4, 5, 8, 9


class Entry(NamedTuple):
    """A token of the vocabulary."""

    text: str
    kind: int


class Matcher:
    """Constraints over a vocabulary of `entries`, of which `ends` end a reply."""

    def __init__(self, entries: Sequence[Entry], ends: Sequence[int]) -> None:
        """Raises NotSupported when llama.cpp cannot take it in, or nothing ends a reply."""
        if not ends:
            raise NotSupported(
                "This model cannot be held to a grammar or a JSON schema.",
                "None of its tokens ends a reply.",
                "Clear sampler.grammar and sampler.json_schema.",
            )
        from fader_backends.llamacpp.library import bindings, reason
        from fader_backends.llamacpp.vocabulary import Vocabulary, model_of

        self._library = bindings()
        with tempfile.TemporaryDirectory(prefix="fader-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "vocabulary.gguf"
            path.write_bytes(packed(entries, ends))
            self._model, lines = model_of(path)
            if not self._model:
                raise NotSupported(
                    "This model cannot be held to a grammar or a JSON schema.",
                    f"llama.cpp, whose matcher is used, does not take its vocabulary in: {reason(lines)}",
                    "Clear sampler.grammar and sampler.json_schema, or choose a GGUF file of the model.",
                )
            self._own = Vocabulary(self._model, np.array([kind for _, kind in entries]), lines)

    def constrain(self, grammar: str, json_schema: str) -> Constraint:
        """See `vocabulary.Vocabulary.constrain`."""
        from fader_backends.llamacpp.grammar import constraint

        return constraint(self._own, grammar, json_schema)

    def close(self) -> None:
        """Free the library's part."""
        model, self._model = self._model, None
        if model:
            self._library.llama_model_free(model)


def packed(entries: Sequence[Entry], ends: Sequence[int]) -> bytes:
    """Return a GGUF file (version 3) of no tensors with a byte-level vocabulary."""
    tokens = b"".join(_text(text) for text, _ in entries)
    kinds = struct.pack(f"<{len(entries)}i", *(kind for _, kind in entries))
    keys = {
        "general.architecture": _string("llama"),
        "tokenizer.ggml.model": _string("gpt2"),
        "tokenizer.ggml.pre": _string("default"),
        "tokenizer.ggml.tokens": _array(_STRING, len(entries), tokens),
        "tokenizer.ggml.token_type": _array(_INT32, len(entries), kinds),
        "tokenizer.ggml.merges": _array(_STRING, 1, _text("a b")),  # it must have some; nothing is split by it
    }
    for name, token in zip(_ENDS, ends, strict=False):
        keys[f"tokenizer.ggml.{name}_token_id"] = struct.pack("<II", _UINT32, token)
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    return head + b"".join(_text(key) + value for key, value in keys.items())


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _string(text: str) -> bytes:
    return struct.pack("<I", _STRING) + _text(text)


def _array(kind: int, count: int, data: bytes) -> bytes:
    return struct.pack("<IIQ", _ARRAY, kind, count) + data
