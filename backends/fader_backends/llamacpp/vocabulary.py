"""Owns one model's vocabulary: text to ids, ids to bytes, and which tokens are more than text.

Knows no context and no conversation.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fader_backends.llamacpp.library import LOG, Line, bindings, catch_log

KINDS = "tokenizer.ggml.token_type"
"""A GGUF file's array of the kinds of its tokens."""
_UNKNOWN, _CONTROL, _USER_DEFINED = 1, 8, 16  # llama_token_attr
_PLAIN_TYPES = (1, 5, 6)  # GGUF's token types normal, unused, byte


def model_of(path: str | Path) -> tuple[Any, list[Line]]:
    """Return the library's model of a file's vocabulary alone, None where it takes none in, and what it said of it."""
    library = bindings()
    catch_log(library)
    parameters = library.llama_model_default_params()
    parameters.vocab_only, parameters.use_mmap = True, False  # no file stays open
    with LOG.listen() as lines:
        return library.llama_model_load_from_file(os.fsencode(path), parameters), lines


class Vocabulary:
    """The vocabulary of a loaded model, which must outlive it."""

    def __init__(self, model: Any, kinds: npt.NDArray[np.generic], log: Sequence[Line]) -> None:
        """Take the file's `KINDS`, and the lines logged while it was loaded: they name the end-of-generation tokens."""
        self._library = bindings()
        self.pointer: Any = self._library.llama_model_get_vocab(model)
        self._buffer = (ctypes.c_int32 * 4096)()
        self._pieces: dict[int, bytes] = {}
        self.size: int = self._library.llama_vocab_n_tokens(self.pointer)
        bos, eos = self._library.llama_vocab_bos(self.pointer), self._library.llama_vocab_eos(self.pointer)
        self.bos: int | None = bos if bos >= 0 else None
        self.bos_text = self.text(bos)
        self.eos_text = self.text(eos)
        self.adds_bos: bool = self._library.llama_vocab_get_add_bos(self.pointer)
        special = self._special(kinds, log)
        is_end = self._library.llama_vocab_is_eog
        self.end_tokens = frozenset(token for token in special if is_end(self.pointer, token))
        self.control = {self.text(token): token for token in special if self._is_control(token)}
        """Texts that parsing turns into something other than text, and their tokens.

        User-defined tokens count (`<think>` is one in some models), except runs of white space, which are text.
        """

    def _special(self, kinds: npt.NDArray[np.generic], log: Sequence[Line]) -> list[int]:
        """Return the tokens worth asking about: asking for each of 50,000 or more costs 50 ms and up."""
        ends = {int(found[1]) for line in log if (found := re.search(r"EOG token\s*= (\d+) ", line.text))}
        if not ends or len(kinds) != self.size:
            return list(range(self.size))
        return sorted(ends.union(np.flatnonzero(~np.isin(kinds, _PLAIN_TYPES)).tolist()))

    def _is_control(self, token: int) -> bool:
        attribute = self._library.llama_vocab_get_attr(self.pointer, token)
        text = self.text(token)
        if attribute & (_CONTROL | _UNKNOWN) or token in self.end_tokens:
            return text != ""
        return bool(attribute & _USER_DEFINED) and text.replace("▁", " ").strip() != ""

    def text(self, token: int) -> str:
        """Return a token's entry in the vocabulary; empty for no token."""
        entry: bytes | None = self._library.llama_vocab_get_text(self.pointer, token) if token >= 0 else b""
        return (entry or b"").decode("utf-8", "replace")

    def parse(self, text: str) -> list[int]:
        """Return the ids of text in which control tokens are recognised; nothing is added."""
        data = text.encode("utf-8", "replace")
        if not data:
            return []
        if len(self._buffer) < len(data) + 2:
            self._buffer = (ctypes.c_int32 * (len(data) + 2))()
        count = self._tokenise(data)
        if count < 0:
            self._buffer = (ctypes.c_int32 * -count)()
            count = self._tokenise(data)
        return self._buffer[:count]

    def _tokenise(self, data: bytes) -> int:
        count: int = self._library.llama_tokenize(
            self.pointer, data, len(data), self._buffer, len(self._buffer), False, True
        )
        return count

    def piece(self, token: int) -> bytes:
        """Return the bytes a token stands for; empty for control tokens and for no token."""
        if (piece := self._pieces.get(token)) is None:
            piece = self._pieces[token] = self._read_piece(token)
        return piece

    def _read_piece(self, token: int) -> bytes:
        if not 0 <= token < self.size:
            return b""
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            count: int = self._library.llama_token_to_piece(self.pointer, token, buffer, size, 0, False)
            if count >= 0:
                return buffer.raw[:count]
            size = -count
