"""Owns the arithmetic of KV memory: what one token takes in a cache of given types, from a model's header alone.

Knows no library and no context; a test compares it with the buffers the library makes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fader_backends.errors import BadValue
from fader_backends.ggml_types import BLOCKS, CACHE_TYPES
from fader_backends.gguf import GgufFile

LENGTHS = (1024, 8192, 32768)
"""Context lengths, in tokens, that the table shows."""


class KvShape(msgspec.Struct, frozen=True):
    """What a model keeps per token."""

    kv_heads: tuple[int, ...]
    """Of each layer that keeps keys and values; 0 where it keeps none."""
    key_size: int
    """Elements of a key, per head."""
    value_size: int
    window: int
    """Tokens that sliding-window layers keep, which then take less than said here; 0 where there are none."""

    def bytes_per_token(self, type_k: str, type_v: str) -> float:
        """Return layers x KV heads x (key size x bytes of an element + value size x bytes of an element)."""
        element_k, element_v = bytes_per_element(type_k), bytes_per_element(type_v)
        return sum(self.kv_heads) * (self.key_size * element_k + self.value_size * element_v)

    def check(self, type_k: str, type_v: str) -> None:
        """Raise BadValue when a type's blocks do not divide a head, as llama.cpp demands."""
        for name, kind, size in (("type_k", type_k, self.key_size), ("type_v", type_v, self.value_size)):
            block = BLOCKS[CACHE_TYPES[kind]][0]
            if size % block:
                raise BadValue(
                    f"{name} = {kind} does not fit this model.",
                    f"The type holds {block} numbers in a block, and a head of this model has {size}.",
                    f"Set {name} to f16, bf16 or f32.",
                )


class KvRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table: a cache type and what it takes, in bytes."""

    type: str
    """Of K and V both."""
    token_bytes: float
    share: float
    """Of what f16 takes."""
    context_bytes: dict[int, int]
    """Context length in tokens -> bytes of one row's buffers."""
    problem: str = ""
    """Why the type cannot be used with this model."""


def shape_of(file: GgufFile) -> KvShape:
    """Read a model's shape from its header. Per-layer head counts are kept apart; layers without attention count 0.

    Keys of the header: github.com/ggml-org/ggml/blob/master/docs/gguf.md; `full_attention_interval` (one layer in so many
    keeps keys) and `shared_kv_layers` (the last ones use those of others) as llama.cpp reads them.
    """
    heads = max(file.number("attention.head_count", 1), 1)
    size = file.number("embedding_length") // heads
    layers = file.number("block_count")
    given = file.metadata.get(f"{file.architecture}.attention.head_count_kv", heads)
    per_layer = [int(count) for count in given] if isinstance(given, tuple) else [int(given)] * layers
    per_layer = per_layer[: len(per_layer) - file.number("attention.shared_kv_layers")]
    interval = file.number("full_attention_interval")
    if interval > 1 and not isinstance(given, tuple):
        per_layer = [count if (layer + 1) % interval == 0 else 0 for layer, count in enumerate(per_layer)]
    return KvShape(
        tuple(per_layer),
        file.number("attention.key_length", size),
        file.number("attention.value_length", size),
        file.number("attention.sliding_window"),
    )


def bytes_per_element(kind: str) -> float:
    """Return the bytes one number takes in a cache of this type, its share of the block's scales included."""
    elements, size = BLOCKS[CACHE_TYPES[kind]]
    return size / elements


def table(shape: KvShape) -> Iterator[KvRow]:
    """Yield what each type takes for K and V, the largest first."""
    full = shape.bytes_per_token("f16", "f16")
    for kind in sorted(CACHE_TYPES, key=bytes_per_element, reverse=True):
        token = shape.bytes_per_token(kind, kind)
        try:
            shape.check(kind, kind)
            problem = ""
        except BadValue as error:
            problem = error.detail
        yield KvRow(
            type=kind,
            token_bytes=token,
            share=token / full if full else 0.0,
            context_bytes={length: round(token * length) for length in LENGTHS},
            problem=problem,
        )
