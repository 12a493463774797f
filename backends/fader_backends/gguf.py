"""Owns the header of GGUF files: reads it, and refuses damaged or unusable files before any C code sees them.

Knows no inference library and loads no weights. Layout: github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import math
import mmap
import struct
from pathlib import Path
from typing import NoReturn, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from fader_backends import ggml_types as ggml
from fader_backends.errors import ModelDamaged, ModelMissing, ModelUnsupported

Value: TypeAlias = bool | int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[bool, ...]

KEPT = 1024
"""Number arrays up to this length are read with the header; longer ones, and arrays of strings, only located."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_SIZES = {kind: struct.calcsize(f"<{code}") for kind, code in _SCALARS.items()}
_STRING, _ARRAY = 8, 9


class Array(msgspec.Struct, frozen=True):
    """Where a long metadata array lies in the file."""

    kind: int
    """GGUF value type of its elements."""
    length: int
    offset: int


class Tensor(msgspec.Struct, frozen=True):
    """Where a tensor lies in its file. `shape`: fastest dimension first; `kind`: ggml type; `offset`: from the file's start."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


class GgufFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the header of a sound, usable model file says."""

    path: str
    size_bytes: int
    """Over all parts of a split model."""
    architecture: str
    name: str
    quantisation: str
    """Such as `Q4_1`; empty when the file does not say."""
    context_length: int
    """Tokens the model was trained for; 0 when the file does not say."""
    chat_template: str
    """Jinja source; empty when the file carries none."""
    tensors: int
    parameters: int
    metadata: dict[str, Value]
    arrays: dict[str, Array]

    def number(self, key: str, default: int = 0) -> int:
        """Return the integer `<architecture>.<key>`; the largest element when it is given per layer."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, tuple):
            return int(max(value, default=default))
        return default if isinstance(value, str) else int(value)


def inspect(path: str | Path) -> GgufFile:
    """Read and check a model file, and the other parts of a split one.

    Raises ModelMissing (nothing there, a folder, a part missing), ModelDamaged (not GGUF, cut short, inconsistent) or
    ModelUnsupported (sound, but no chat model), each naming the file.
    """
    path = Path(path)
    header = _read(path)
    _check_kind(header, path)
    meta = header.metadata
    size, tensors, parameters = header.size, header.tensors, header.parameters
    parts = meta.get("split.count", 0)
    if isinstance(parts, int) and parts > 1:
        for part in _other_parts(path, int(meta.get("split.no", 0) or 0), parts):  # type: ignore[arg-type]
            other = _read(part)
            size, tensors, parameters = size + other.size, tensors + other.tensors, parameters + other.parameters
    if tensors == 0:
        raise ModelUnsupported(
            f"{path.name} holds a vocabulary only.", "It has no weights, so nothing can be generated.", _CHOOSE
        )
    architecture = str(meta.get("general.architecture", ""))
    context = meta.get(f"{architecture}.context_length", 0)
    return GgufFile(
        path=str(path),
        size_bytes=size,
        architecture=architecture,
        name=str(meta.get("general.name", "")) or path.stem,
        quantisation=ggml.FILE_TYPES.get(meta.get("general.file_type", -1), ""),  # type: ignore[arg-type]
        context_length=context if isinstance(context, int) else 0,
        chat_template=str(meta.get("tokenizer.chat_template", "")),
        tensors=tensors,
        parameters=parameters,
        metadata=meta,
        arrays=header.arrays,
    )


def tensors(path: str | Path) -> list[Tensor]:
    """Return the tensors of one file. Raises as `inspect` does."""
    return _read(Path(path)).table


def numbers(file: GgufFile, key: str) -> npt.NDArray[np.generic]:
    """Read a number array of the metadata from disk; empty when the file has none of that name."""
    if (kept := file.metadata.get(key)) is not None:
        return np.atleast_1d(np.asarray(kept))
    place = file.arrays.get(key)
    if place is None or place.kind not in _SCALARS:
        return np.zeros(0, np.int32)
    kind = np.dtype(f"<{_SCALARS[place.kind]}") if place.kind != 7 else np.dtype(bool)
    return np.fromfile(file.path, kind, place.length, offset=place.offset)


_CHOOSE = "Choose a chat model in GGUF form with -m PATH."
_AGAIN = "Download the file again, or choose another with -m PATH."


class _Header(msgspec.Struct):
    size: int
    tensors: int
    parameters: int
    metadata: dict[str, Value]
    arrays: dict[str, Array]
    table: list[Tensor]


class _Reader:
    """Reads forward through the mapped file; `struct.error` and `ValueError` mean that it ended or lied."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def number(self, kind: int) -> int | float | bool:
        value: int | float | bool = struct.unpack_from(f"<{_SCALARS[kind]}", self.data, self.at)[0]
        self.at += _SIZES[kind]
        return value

    def count(self) -> int:
        return int(self.number(10))

    def skip(self, size: int) -> int:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ValueError(f"something of {size} bytes at byte {start} does not fit")
        return start

    def text(self) -> str:
        size = self.count()
        start = self.skip(size)
        return self.data[start : start + size].decode("utf-8", "replace")

    def skip_texts(self, count: int) -> None:
        length, data, at = struct.Struct("<Q").unpack_from, self.data, self.at
        for _ in range(count):
            at += 8 + length(data, at)[0]
        self.at = at
        self.skip(0)

    def value(self, kind: int) -> Value | Array:
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.number(kind)
        inner, length = int(self.number(4)), self.count()
        place = Array(inner, length, self.at)
        if inner == _STRING:
            if length * 8 > len(self.data):
                raise ValueError(f"an array of {length} texts does not fit")
            self.skip_texts(length)
            return place
        self.skip(length * _SIZES[inner])
        if length > KEPT:
            return place
        return struct.unpack_from(f"<{length}{_SCALARS[inner]}", self.data, place.offset)


def _read(path: Path) -> _Header:
    try:
        if path.is_dir():
            raise ModelMissing(f"{path} is a folder.", "A model is one .gguf file.", "Name a file in it with -m PATH.")
        if not path.exists():
            raise ModelMissing(f"There is no model file {path}.", "", "Check the path, or choose another with -m PATH.")
        size = path.stat().st_size
        if size == 0:
            raise ModelDamaged(f"{path} is empty.", "", _AGAIN)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _header(_Reader(data), path, size)
    except OSError as error:
        raise ModelMissing(f"{path} cannot be read.", error.strerror or str(error), "Check its permissions.") from error
    except (struct.error, ValueError, KeyError, OverflowError) as error:
        _cut_short(path, f"Its header ends or contradicts itself ({error}).")


def _header(reader: _Reader, path: Path, size: int) -> _Header:
    magic = reader.data[:4]
    if magic == b"FUGG":
        raise ModelUnsupported(f"{path.name} is a big-endian GGUF file.", "This machine cannot use it.", _CHOOSE)
    if magic != b"GGUF":
        start = bytes(magic).decode(errors="replace")
        raise ModelDamaged(f"{path.name} is not a GGUF model.", f"It starts with {start!r}.", _CHOOSE)
    reader.at = 4
    version = int(reader.number(4))
    if version not in (2, 3):
        raise ModelUnsupported(f"{path.name} has GGUF version {version}.", "Versions 2 and 3 can be read.", _CHOOSE)
    tensor_count, value_count = reader.count(), reader.count()
    if tensor_count * 24 > size or value_count * 13 > size:
        _cut_short(path, f"It claims {tensor_count} tensors and {value_count} values in {size} bytes.")
    header = _Header(size, tensor_count, 0, {}, {}, [])
    for _ in range(value_count):
        key, kind = reader.text(), int(reader.number(4))
        value = reader.value(kind)
        if isinstance(value, Array):
            header.arrays[key] = value
        else:
            header.metadata[key] = value
    end = 0
    table: list[tuple[str, list[int], int, int]] = []
    for _ in range(tensor_count):
        name = reader.text()
        shape = [reader.count() for _ in range(_dimensions(reader))]
        kind, offset = int(reader.number(4)), reader.count()
        elements = math.prod(shape)
        header.parameters += elements
        block, block_bytes = ggml.BLOCKS.get(kind, (1, 0))
        end = max(end, offset + elements // block * block_bytes)
        table.append((name, shape, kind, offset))
    align = header.metadata.get("general.alignment", 32)
    if not isinstance(align, int) or align <= 0:
        _cut_short(path, f"Its alignment is {align!r}.")
    base = math.ceil(reader.at / align) * align
    needed = base + end
    if tensor_count and needed > size:
        _cut_short(path, f"It has {size:,} bytes; its weights need {needed:,}.")
    header.table = [Tensor(name, tuple(shape), kind, base + at) for name, shape, kind, at in table]
    return header


def _dimensions(reader: _Reader) -> int:
    count = int(reader.number(4))
    if count > 8:
        raise ValueError(f"a tensor with {count} dimensions")
    return count


def _cut_short(path: Path, detail: str) -> NoReturn:
    raise ModelDamaged(f"{path.name} is damaged or incomplete.", detail, _AGAIN)


def _check_kind(header: _Header, path: Path) -> None:
    kind = header.metadata.get("general.type", "model")
    architecture = str(header.metadata.get("general.architecture", ""))
    if not architecture:
        _cut_short(path, "It does not name its architecture.")
    what = ""
    if kind in ("adapter", "imatrix", "mmproj"):
        what = {"adapter": "a LoRA adapter", "imatrix": "quantisation statistics", "mmproj": "an image encoder"}[kind]
    elif architecture == "clip":
        what = "an image encoder"
    elif header.metadata.get(f"{architecture}.attention.causal") is False:
        what = "a model for embeddings"
    if what:
        raise ModelUnsupported(f"{path.name} is {what}, not a chat model.", "", _CHOOSE)


def _other_parts(path: Path, index: int, count: int) -> list[Path]:
    ending = f"-{index + 1:05}-of-{count:05}.gguf"
    if not path.name.endswith(ending):
        raise ModelUnsupported(
            f"{path.name} is part {index + 1} of {count}, renamed.", f"Its name must end in {ending}.", "Rename it."
        )
    stem = path.name.removesuffix(ending)
    if index:
        first = f"{stem}-00001-of-{count:05}.gguf"
        raise ModelUnsupported(f"{path.name} is part {index + 1} of {count}.", "", f"Open the first part, {first}.")
    parts = [path.with_name(f"{stem}-{part:05}-of-{count:05}.gguf") for part in range(2, count + 1)]
    if missing := [part.name for part in parts if not part.is_file()]:
        raise ModelMissing(
            f"{path.name} is the first of {count} parts, and {len(missing)} are missing.",
            f"Missing: {', '.join(missing[:4])}{' …' if len(missing) > 4 else ''}.",
            "Put all parts into one folder.",
        )
    return parts
