"""Owns vocabularies: text to ids, ids to bytes, and which tokens are more than text.

Knows two kinds: a folder's tokenizer, and that of a GGUF file, which llama.cpp reads in a tenth of a second and splits exactly
as on its own backend. Knows no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from fader_backends.constraint import Constraint
from fader_backends.errors import LoadError, ModelDamaged, ModelUnsupported
from fader_backends.gguf import GgufFile, numbers
from fader_backends.torch_hf.folder import brief
from fader_backends.torch_hf.matcher import CONTROL, NORMAL, UNUSED, USER_DEFINED, Entry, Matcher

ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<|return|>",
    "<|call|>",
    "</s>",
)
"""Texts of tokens that end a reply in one family or another, as llama.cpp knows them (`src/llama-vocab.cpp`)."""


class Vocabulary(Protocol):
    """What the backend needs of one."""

    bos: int | None
    adds_bos: bool
    bos_text: str
    eos_text: str
    end_tokens: frozenset[int]
    control: dict[str, int]
    """Texts that parsing turns into something other than text, and their tokens."""
    chat_template: str
    """Jinja source; empty when there is none."""

    def parse(self, text: str) -> list[int]:
        """Return the ids of text in which control tokens are recognised; nothing is added."""
        ...

    def piece(self, token: int) -> bytes:
        """Return the bytes a token stands for; empty for control tokens and for no token."""
        ...

    def constrain(self, grammar: str, json_schema: str) -> Constraint:
        """Return what may come next in one reply that follows one of the two. Raises BadValue or NotSupported."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class GgufVocabulary:
    """A GGUF file's, through llama.cpp."""

    def __init__(self, file: GgufFile) -> None:
        """Raises LoadError."""
        from fader_backends.llamacpp.library import bindings, reason
        from fader_backends.llamacpp.vocabulary import KINDS, model_of
        from fader_backends.llamacpp.vocabulary import Vocabulary as Own

        self._library = bindings()
        self._model, lines = model_of(file.path)
        if not self._model:
            raise LoadError(f"The vocabulary of {file.name} could not be read.", reason(lines), "Choose another model.")
        own = self._own = Own(self._model, numbers(file, KINDS), lines)
        self.parse, self.piece = own.parse, own.piece
        self.bos, self.adds_bos, self.bos_text, self.eos_text = own.bos, own.adds_bos, own.bos_text, own.eos_text
        self.end_tokens, self.control = own.end_tokens, own.control
        self.chat_template = file.chat_template

    def constrain(self, grammar: str, json_schema: str) -> Constraint:
        """See `Vocabulary.constrain`: llama.cpp's own matcher, which needs the vocabulary only."""
        from fader_backends.llamacpp.grammar import constraint

        return constraint(self._own, grammar, json_schema)

    def close(self) -> None:
        """Free the library's part."""
        if self._model:
            self._library.llama_model_free(self._model)
            self._model = None


class FolderVocabulary:
    """A folder's tokenizer, read by transformers."""

    def __init__(self, folder: Path, ends: Iterable[int], trust: bool, size: int) -> None:
        """Take the end tokens that the model's configuration names; `size`: tokens the model has scores for.

        Raises ModelDamaged or ModelUnsupported.
        """
        from transformers import AutoTokenizer

        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=trust)
        except Exception as error:  # whatever the parser raises, the file is to blame
            raise ModelDamaged(
                f"The tokenizer in {folder} cannot be read.",
                brief(error),
                "Download the folder again.",
            ) from error
        if not getattr(tokenizer, "is_fast", False):
            raise ModelUnsupported(
                f"{folder.name} has a tokenizer without tokenizer.json ({type(tokenizer).__name__}).",
                "Only those of the tokenizers library can be used here.",
                "Choose another model, or a GGUF file of it.",
            )
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder
        self._added = {token: b"" if one.special else one.content.encode() for token, one in added.items()}
        self.control = {one.content: token for token, one in added.items() if one.content.strip()}
        self.bos, self.bos_text = tokenizer.bos_token_id, tokenizer.bos_token or ""
        self.eos_text = tokenizer.eos_token or ""
        self.adds_bos = self.bos is not None and tokenizer("x").input_ids[:1] == [self.bos]
        known = [self.control[text] for text in ENDS if text in self.control]
        own = [tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []
        self.end_tokens = frozenset([*ends, *known, *own])
        template = tokenizer.chat_template or ""
        self.chat_template: str = template.get("default", "") if isinstance(template, dict) else template
        self._byte_level = "ByteLevel" in _decoders(tokenizer.backend_tokenizer.decoder)
        self._pieces: dict[int, bytes] = {}
        self._size = size
        self._matcher: Matcher | None = None

    def parse(self, text: str) -> list[int]:
        """See `Vocabulary.parse`."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False).input_ids
        return ids

    def piece(self, token: int) -> bytes:
        """See `Vocabulary.piece`."""
        if (piece := self._pieces.get(token)) is None:
            piece = self._pieces[token] = self._read(token)
        return piece

    def _read(self, token: int) -> bytes:
        if token in self._added:
            return self._added[token]
        text: str | None = self._tokenizer.backend_tokenizer.id_to_token(token) if token >= 0 else None
        if text is None:
            return b""
        if self._byte_level:
            return bytes(_BYTES[character] for character in text if character in _BYTES)
        if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
            return bytes([int(text[3:5], 16)])
        return text.replace("▁", " ").encode()

    def constrain(self, grammar: str, json_schema: str) -> Constraint:
        """See `Vocabulary.constrain`; the first one takes the vocabulary over to llama.cpp, whose matcher it is."""
        if self._matcher is None:
            entries = [self._entry(token) for token in range(self._size)]
            self._matcher = Matcher(entries, sorted(self.end_tokens))
        return self._matcher.constrain(grammar, json_schema)

    def _entry(self, token: int) -> Entry:
        if (added := self._tokenizer.added_tokens_decoder.get(token)) is not None:
            return Entry(added.content, CONTROL if added.special or token in self.end_tokens else USER_DEFINED)
        piece = self.piece(token)
        if not piece:
            return Entry(f"<unused {token}>", UNUSED)
        return Entry("".join(_CHARACTERS[byte] for byte in piece), NORMAL)

    def close(self) -> None:
        """Free what the matcher holds."""
        matcher, self._matcher = self._matcher, None
        if matcher is not None:
            matcher.close()


def _decoders(decoder: Any) -> set[str]:
    """Return the kinds of decoders a tokenizer's decoder is made of."""
    if decoder is None:
        return set()
    described: dict[str, Any] = json.loads(decoder.__getstate__())
    return {described["type"], *(one["type"] for one in described.get("decoders", ()))}


def _byte_characters() -> dict[str, int]:
    """Return which byte each character of a byte-level vocabulary stands for (GPT-2's `bytes_to_unicode`)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTES = _byte_characters()
_CHARACTERS = {byte: character for character, byte in _BYTES.items()}
