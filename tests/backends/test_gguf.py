"""Every unusable model file is refused with a line that names it, before the library sees it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from fader_backends import ggml_types, gguf
from fader_backends.errors import FaderError, ModelDamaged, ModelMissing, ModelUnsupported

Pair = tuple[str, int, bytes]


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, value: str | int | bool) -> Pair:
    if isinstance(value, bool):
        return key, 7, struct.pack("<?", value)
    return (key, 8, text(value)) if isinstance(value, str) else (key, 4, struct.pack("<I", value))


def gguf_bytes(pairs: list[Pair], tensors: int = 1, version: int = 3, claimed: int | None = None) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, tensors if claimed is None else claimed, len(pairs))
    for key, kind, value in pairs:
        head += text(key) + struct.pack("<I", kind) + value
    for index in range(tensors):
        head += text(f"t{index}") + struct.pack("<IQIQ", 1, 32, 0, index * 128)
    return head + bytes(-len(head) % 32) + bytes(128 * tensors)


LLAMA = [pair("general.architecture", "llama"), pair("llama.context_length", 2048), pair("general.file_type", 15)]


def refused(path: Path, kind: type[FaderError]) -> FaderError:
    with pytest.raises(kind) as caught:
        gguf.inspect(path)
    error = caught.value
    assert path.name in error.title
    assert error.next_step.endswith(".") or "-m PATH" in error.next_step
    return error


def write(folder: Path, data: bytes, name: str = "m.gguf") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def test_a_sound_file(tmp_path: Path) -> None:
    file = gguf.inspect(write(tmp_path, gguf_bytes(LLAMA, 3)))
    assert (file.architecture, file.quantisation, file.context_length) == ("llama", "Q4_K_M", 2048)
    assert (file.name, file.tensors, file.parameters, file.chat_template) == ("m", 3, 96, "")


def test_missing_and_folder(tmp_path: Path) -> None:
    assert "no model file" in refused(tmp_path / "nowhere.gguf", ModelMissing).title
    assert "is a folder" in refused(tmp_path, ModelMissing).title
    assert "cannot be read" in refused(tmp_path / ("x" * 5000), ModelMissing).title
    refused(tmp_path / "a\0b", ModelMissing)


def test_empty(tmp_path: Path) -> None:
    assert "is empty" in refused(write(tmp_path, b""), ModelDamaged).title


@pytest.mark.parametrize("data", [b"Dear diary,\n" * 99, b"GG", b"\0" * 99, b"<!DOCTYPE html>"])
def test_something_else_named_gguf(tmp_path: Path, data: bytes) -> None:
    assert "is not a GGUF model" in refused(write(tmp_path, data), ModelDamaged).title


@pytest.mark.parametrize("version", [0, 1, 4, 1 << 30])
def test_versions(tmp_path: Path, version: int) -> None:
    assert "version" in refused(write(tmp_path, gguf_bytes(LLAMA, version=version)), ModelUnsupported).title


def test_big_endian(tmp_path: Path) -> None:
    refused(write(tmp_path, b"FUGG" + bytes(64)), ModelUnsupported)


@pytest.mark.parametrize("claimed", [1000, 1 << 40, (1 << 64) - 1])
def test_absurd_counts(tmp_path: Path, claimed: int) -> None:
    refused(write(tmp_path, gguf_bytes(LLAMA, claimed=claimed)), ModelDamaged)


@pytest.mark.parametrize(
    "value",
    [
        (8, struct.pack("<Q", 1 << 62)),
        (9, struct.pack("<IQ", 8, 1 << 50)),
        (9, struct.pack("<IQ", 4, 1 << 62)),
        (9, struct.pack("<IQ", 9, 1)),
        (99, b"\0" * 8),
    ],
)
def test_values_that_lie(tmp_path: Path, value: tuple[int, bytes]) -> None:
    refused(write(tmp_path, gguf_bytes([*LLAMA, ("lie", *value)])), ModelDamaged)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    whole = gguf_bytes(LLAMA, 2)
    for size in range(1, len(whole)):
        refused(write(tmp_path, whole[:size]), ModelDamaged)


def test_vocabulary_only(tmp_path: Path) -> None:
    assert "vocabulary only" in refused(write(tmp_path, gguf_bytes(LLAMA, 0)), ModelUnsupported).title


@pytest.mark.parametrize(
    ("extra", "what"),
    [
        (pair("general.type", "adapter"), "LoRA"),
        (pair("general.type", "mmproj"), "image"),
        (pair("llama.attention.causal", False), "embeddings"),
    ],
)
def test_other_kinds(tmp_path: Path, extra: Pair, what: str) -> None:
    assert what in refused(write(tmp_path, gguf_bytes([*LLAMA, extra])), ModelUnsupported).title


def part(index: int) -> bytes:
    return gguf_bytes([*LLAMA, pair("split.count", 2), pair("split.no", index)])


def test_split_files(tmp_path: Path) -> None:
    first = write(tmp_path, part(0), "big-00001-of-00002.gguf")
    assert "big-00002-of-00002.gguf" in refused(first, ModelMissing).detail
    second = write(tmp_path, part(1), "big-00002-of-00002.gguf")
    assert gguf.inspect(first).parameters == 64
    assert "big-00001-of-00002.gguf" in refused(second, ModelUnsupported).next_step
    second.write_bytes(part(1)[:-1])
    with pytest.raises(ModelDamaged, match="00002-of"):
        gguf.inspect(first)
    refused(write(tmp_path, part(0), "renamed.gguf"), ModelUnsupported)


@pytest.mark.slow
def test_the_embedded_model_whole_and_cut(smollm2: Path, tmp_path: Path) -> None:
    file = gguf.inspect(smollm2)
    assert (file.architecture, file.quantisation, file.context_length) == ("llama", "Q4_1", 8192)
    assert file.parameters == 134_515_008
    assert len(gguf.numbers(file, "tokenizer.ggml.token_type")) == 49152
    data = smollm2.read_bytes()
    for size in (1024, len(data) // 2, len(data) - 1):
        assert "damaged or incomplete" in refused(write(tmp_path, data[:size]), ModelDamaged).title


@pytest.mark.slow
def test_the_table_is_the_librarys() -> None:
    import ctypes

    from fader_backends.llamacpp.library import bindings

    bindings()
    import llama_cpp._ggml as installed

    base = installed.libggml
    base.ggml_type_size.restype = ctypes.c_size_t
    base.ggml_blck_size.restype = ctypes.c_int64
    for kind, sizes in ggml_types.BLOCKS.items():
        assert (base.ggml_blck_size(kind), base.ggml_type_size(kind)) == sizes
