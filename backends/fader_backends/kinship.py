"""Whether two models speak in the same tokens, so that one can draft for the other.

Knows vocabularies as values and where a GGUF file keeps them; loads no model.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .base import Backend
from .gguf import GgufFile, inspect

SIZE_DIFFERENCE = 128
"""Vocabularies may differ by so many tokens at their ends, where some files are padded."""
FIRST = 5
"""Token from which on texts are compared: those before it are often renamed control tokens."""

STRING = 8
"""GGUF's value type of texts, each behind its length in eight bytes."""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """A vocabulary."""

    name: str
    """Its model's, for people."""
    kind: str
    """How text is split, as GGUF names it: `llama`, `gpt2`, …"""
    bos: int | None
    """None: the model's prompts begin with none."""
    eos: int | None
    """None: the tokenizer adds none."""
    texts: Sequence[str]


def mismatch(target: Words, draft: Words) -> str | None:
    """Return why the draft's tokens cannot be the target's; None when they can.

    The rules are those of llama.cpp (`common/speculative.cpp`): same kind, same BOS and EOS where they are added, sizes
    within 128, same text from token 5 on.
    """
    if target.kind != draft.kind:
        return f"they are of different kinds ({target.kind} and {draft.kind})"
    for name, one, other in (("BOS", target.bos, draft.bos), ("EOS", target.eos, draft.eos)):
        if one != other:
            return f"{name} is {_token(one)} in the one and {_token(other)} in the other"
    sizes = len(target.texts), len(draft.texts)
    if abs(sizes[0] - sizes[1]) > SIZE_DIFFERENCE:
        return f"they have {sizes[0]:,} and {sizes[1]:,} tokens, more than {SIZE_DIFFERENCE} apart"
    for token in range(FIRST, min(sizes)):
        if target.texts[token] != draft.texts[token]:
            return f"token {token} is {target.texts[token]!r} in the one and {draft.texts[token]!r} in the other"
    return None


def different(target: Backend, draft: Backend) -> str | None:
    """Return why two loaded models' tokens differ, where their files do not tell: sizes within 128, same bytes from 5 on."""
    sizes = target.facts.vocabulary, draft.facts.vocabulary
    if abs(sizes[0] - sizes[1]) > SIZE_DIFFERENCE:
        return f"they have {sizes[0]:,} and {sizes[1]:,} tokens, more than {SIZE_DIFFERENCE} apart"
    for token in range(FIRST, min(sizes)):
        one, other = target.piece(token), draft.piece(token)
        if one != other:
            return f"token {token} is {one!r} in the one and {other!r} in the other"
    return None


def _token(token: int | None) -> str:
    return "not added" if token is None else f"token {token}"


def read(path: str | Path) -> Words:
    """Return a model file's vocabulary. Raises as `inspect` does."""
    file = inspect(path)
    kind = str(file.metadata.get("tokenizer.ggml.model", ""))
    return Words(
        name=file.name,
        kind=kind,
        bos=_added(file, "bos", kind == "llama"),
        eos=_added(file, "eos", False),
        texts=texts(file, "tokenizer.ggml.tokens"),
    )


def texts(file: GgufFile, key: str) -> list[str]:
    """Read an array of strings of the metadata from disk; empty when the file has none of that name."""
    place = file.arrays.get(key)
    if place is None or place.kind != STRING:
        return []
    found, at = [], place.offset
    with Path(file.path).open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for _ in range(place.length):
            (size,) = struct.unpack_from("<Q", data, at)
            found.append(data[at + 8 : at + 8 + size].decode("utf-8", "replace"))
            at += 8 + size
    return found


def _added(file: GgufFile, which: str, otherwise: bool) -> int | None:
    token = file.metadata.get(f"tokenizer.ggml.{which}_token_id")
    adds = file.metadata.get(f"tokenizer.ggml.add_{which}_token", otherwise)
    return token if adds and isinstance(token, int) else None
