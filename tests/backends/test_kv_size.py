"""KV memory by arithmetic: per-layer heads, block formats, and equality with the library's buffers."""

from __future__ import annotations

import msgspec
import pytest
from fader_backends.base import ContextSpec
from fader_backends.errors import BadValue
from fader_backends.ggml_types import CACHE_TYPES
from fader_backends.gguf import GgufFile
from fader_backends.llamacpp.backend import LlamaCpp
from fader_backends.llamacpp.kv_size import LENGTHS, KvShape, bytes_per_element, shape_of, table
from fader_backends.llamacpp.layout import plan


def file(**keys: int | tuple[int, ...]) -> GgufFile:
    """A header of six layers with four heads of 32."""
    base: dict[str, int | tuple[int, ...]] = {
        "block_count": 6,
        "embedding_length": 128,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
    }
    return GgufFile(
        path="x.gguf",
        size_bytes=0,
        architecture="toy",
        name="toy",
        quantisation="",
        context_length=512,
        chat_template="",
        tensors=1,
        parameters=1,
        metadata={f"toy.{key.replace('__', '.')}": value for key, value in {**base, **keys}.items()},
        arrays={},
    )


@pytest.mark.parametrize(
    ("length", "enough", "got"), [(0, 0, 512), (0, 100, 256), (0, 257, 512), (0, 10**6, 512), (300, 100, 300)]
)
def test_a_context_is_no_longer_than_will_ever_be_needed(length: int, enough: int, got: int) -> None:
    """What is enough counts only where the length is open, and never beyond the model's own."""
    assert plan(ContextSpec(length=length, enough=enough), file()).length == got


def test_the_formula() -> None:
    """2 x layers x KV heads x head size x bytes."""
    assert shape_of(file()).bytes_per_token("f16", "f16") == 2 * 6 * 2 * 32 * 2
    assert shape_of(file()).bytes_per_token("q8_0", "q4_0") == 6 * 2 * 32 * (34 / 32 + 18 / 32)


@pytest.mark.parametrize(
    ("keys", "heads"),
    [
        ({"attention__head_count_kv": (2, 0, 1, 2, 0, 1)}, (2, 0, 1, 2, 0, 1)),
        ({"attention__shared_kv_layers": 2}, (2, 2, 2, 2)),
        ({"full_attention_interval": 3}, (0, 0, 2, 0, 0, 2)),
    ],
)
def test_layers_that_differ(keys: dict[str, int | tuple[int, ...]], heads: tuple[int, ...]) -> None:
    assert shape_of(file(**keys)).kv_heads == heads


def test_sizes_of_their_own() -> None:
    shape = shape_of(file(attention__key_length=64, attention__value_length=16, attention__sliding_window=128))
    assert (shape.key_size, shape.value_size, shape.window) == (64, 16, 128)


def test_blocks_must_divide_heads() -> None:
    """A head of 48 numbers cannot be cut into blocks of 32; the table says so, and a context is refused."""
    odd = file(attention__key_length=48, attention__value_length=32)
    with pytest.raises(BadValue, match="type_k = q8_0 does not fit") as caught:
        plan(ContextSpec(length=256, options={"type_k": "q8_0"}), odd)
    assert "32 numbers in a block, and a head of this model has 48" in caught.value.detail
    assert plan(ContextSpec(length=256, options={"type_v": "q8_0"}), odd).type_v == "q8_0"
    assert {row.type for row in table(shape_of(odd)) if not row.problem} == {"f32", "f16", "bf16"}


def test_the_table() -> None:
    rows = {row.type: row for row in table(KvShape((2, 2), 32, 32, 0))}
    assert set(rows) == set(CACHE_TYPES)
    assert (rows["f16"].share, rows["f16"].token_bytes) == (1.0, 512.0)
    assert rows["q8_0"].share == pytest.approx(34 / 64)
    assert rows["f32"].context_bytes == {length: 1024 * length for length in LENGTHS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CACHE_TYPES)
def test_it_is_what_the_library_allocates(llama: LlamaCpp, kind: str) -> None:
    """For every type the header's figure is the size of the live buffers, to what the log's two decimals of MiB leave."""
    before = llama.context
    options = {**before.options, "type_k": kind, "type_v": kind, "unified": True}
    try:
        llama.configure(msgspec.structs.replace(before, options=options))
        want = shape_of(llama._weights.file).bytes_per_token(kind, kind) * llama.context.length
        assert llama.memory().kv_bytes == pytest.approx(want, abs=0.005 * 2**20)
        assert bytes_per_element(kind) * 2 * 30 * 3 * 64 * llama.context.length == want
    finally:
        llama.configure(before)
