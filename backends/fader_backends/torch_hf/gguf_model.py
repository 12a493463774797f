"""Owns GGUF files on torch: a copy of their weights in the form of a model folder, made once and found again by hash.

Knows files; what families do with names and layouts is in `families`, numbers in `unpack`. Read once from the map of the file,
whole tensors at a time, this takes seconds where transformers' own loading takes most of a minute.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from fader_backends.base import Progress
from fader_backends.errors import Interrupted, LoadError, ModelUnsupported
from fader_backends.fingerprint import fingerprint, parts
from fader_backends.folders import cache_folder
from fader_backends.gguf import GgufFile, inspect, tensors
from fader_backends.llamacpp.weights import find
from fader_backends.torch_hf.families import ROTARY, configuration, family_of, laid_out, name_of
from fader_backends.torch_hf.folder import Folder, inspect_weights
from fader_backends.torch_hf.unpack import KINDS, nbytes, unpacked
from fader_backends.torch_hf.vocabulary import GgufVocabulary

VERSION = 1
"""Of the copies; another one is not read."""
ROTARY_FILE = "rotary.safetensors"
CONFIG, WEIGHTS = "config.json", "model.safetensors"


class Copy(NamedTuple):
    """A GGUF file, and its weights as a folder."""

    file: GgufFile
    folder: Folder
    fingerprint: str
    vocabulary: GgufVocabulary


def converted(model: str, dtype: torch.dtype, progress: Progress) -> Copy:
    """Return a GGUF file's copy in numbers of this type, making it where there is none. Raises LoadError, Interrupted."""
    file = inspect(find(model))
    family_of(file)
    mark = fingerprint(parts(file.path))
    name = f"{mark}-{str(dtype).removeprefix('torch.')}-{VERSION}"
    place = cache_folder(os.environ) / "torch" / name
    vocabulary = GgufVocabulary(file)
    try:
        if not (place / CONFIG).is_file():
            _make(file, place, dtype, min(vocabulary.end_tokens, default=None), progress)
        weights, numbers = inspect_weights(place)
        config = json.loads((place / CONFIG).read_text(encoding="utf-8"))
    except BaseException:
        vocabulary.close()
        raise
    return Copy(file, Folder(place, config, weights, numbers, file.size_bytes), mark, vocabulary)


def _make(file: GgufFile, place: Path, dtype: torch.dtype, end: int | None, progress: Progress) -> None:
    """Write the copy beside its place, then move it there, so that half a copy is never found."""
    needed = file.parameters * dtype.itemsize
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(place.parent).free
        if free < needed:
            raise OSError(f"{needed / 2**20:,.0f} MiB are needed, {free / 2**20:,.0f} are free")
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".") as draft:
            _fill(Path(draft), file, dtype, end, progress)
            made = Path(draft) / "made"
            made.mkdir()
            for part in [one for one in Path(draft).iterdir() if one.is_file()]:
                part.rename(made / part.name)
            if not place.exists():
                made.rename(place)
    except OSError as error:
        raise LoadError(
            f"The copy of {file.name} for torch could not be written.",
            f"{error} ({place.parent}).",
            "Free some space, or set FADER_HOME to a folder elsewhere.",
        ) from error


def _fill(folder: Path, file: GgufFile, dtype: torch.dtype, end: int | None, progress: Progress) -> None:
    family = family_of(file)
    found: dict[str, Tensor] = {}
    names: set[str] = set()
    done = 0
    for path in parts(file.path):
        blob = np.memmap(path, mode="r")
        for tensor in tensors(path):
            name = name_of(family, tensor.name)
            if (name is None and tensor.name != ROTARY) or tensor.kind not in KINDS:
                what = f"of number type {tensor.kind}" if tensor.kind not in KINDS else "that it has no place for"
                raise ModelUnsupported(
                    f"{file.name} holds a tensor {what} on torch: {tensor.name}.", "", "Run it on llama.cpp."
                )
            count = math.prod(tensor.shape)
            data = blob[tensor.offset : tensor.offset + nbytes(tensor.kind, count)]
            values = laid_out(family, file, tensor.name, unpacked(data, tensor.kind).reshape(tensor.shape[::-1]))
            if name is None:
                save_file({"divisors": values.contiguous()}, folder / ROTARY_FILE)
            else:
                found[name] = values.to(dtype).contiguous()
            names.add(tensor.name)
            done += count
            if not progress(0.4 * done / file.parameters):
                raise Interrupted
    vocabulary = found["model.embed_tokens.weight"].shape[0]
    save_file(found, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(configuration(file, vocabulary, names, end)), encoding="utf-8")


def scale_rotary(model: Any, folder: Path) -> None:
    """Divide a model's rotary frequencies by what its GGUF file says, where it says so (Llama 3.1 and later)."""
    if (folder / ROTARY_FILE).is_file():
        rotary = model.model.rotary_emb
        divisors = load_file(folder / ROTARY_FILE)["divisors"].to(rotary.inv_freq)
        rotary.inv_freq /= divisors
        rotary.original_inv_freq /= divisors
