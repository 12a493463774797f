"""Owns what a model folder must hold: looks at its files, and refuses before anything large is read.

Knows file formats' outsides; imports no torch. Layout of safetensors: github.com/huggingface/safetensors (README, "Format").
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec

from fader_backends.errors import ModelDamaged, ModelMissing, ModelUnsupported

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "model*.bin")
LONGEST_HEADER = 100 << 20
_AGAIN = "Download the folder again, or choose another model with -m."


class Folder(msgspec.Struct, frozen=True):
    """A folder whose files fit together."""

    path: Path
    config: dict[str, Any]
    weights: tuple[Path, ...]
    numbers: int
    """How many numbers the tensors hold; 0 where that cannot be told (pickles)."""
    size_bytes: int


def inspect_folder(path: Path, allow_pickle: bool, trust: bool) -> Folder:
    """Look at a folder. Raises ModelMissing, ModelDamaged or ModelUnsupported, naming the file."""
    if not path.is_dir():
        raise ModelMissing(f"There is no model folder {path}.", "", "Check the path, or choose another with -m.")
    config = _config(path)
    if "auto_map" in config and not trust:
        raise ModelUnsupported(
            f"{path.name} brings code of its own, which would run with your rights.",
            "It is refused unless you trust its makers.",
            "Choose another model, or set load.trust_remote_code = true in the profile.",
        )
    weights, numbers = inspect_weights(path, allow_pickle)
    if not any((path / name).is_file() for name in TOKENIZERS):
        raise ModelDamaged(f"{path} holds no tokenizer.", f"One of {', '.join(TOKENIZERS)} is needed.", _AGAIN)
    return Folder(path, config, weights, numbers, sum(file.stat().st_size for file in weights))


def _config(path: Path) -> dict[str, Any]:
    file = path / "config.json"
    if not file.is_file():
        if (path / "adapter_config.json").is_file():
            raise ModelUnsupported(f"{path.name} is a LoRA adapter, not a whole model.", "", "Choose a whole model.")
        ggufs = sorted(one.name for one in path.glob("*.gguf"))
        if ggufs:
            raise ModelMissing(
                f"{path} is a folder of GGUF files.", f"It holds {', '.join(ggufs[:3])}.", "Name one of them."
            )
        raise ModelDamaged(f"{path} holds no config.json.", "So it is no model folder, or not all of one.", _AGAIN)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelDamaged(f"{file} cannot be read.", str(error), _AGAIN) from error
    if not isinstance(found, dict):
        raise ModelDamaged(f"{file} holds no configuration.", "", _AGAIN)
    return found


def inspect_weights(path: Path, allow_pickle: bool = False) -> tuple[tuple[Path, ...], int]:
    """Return a folder's weight files and how many numbers they hold. Raises ModelDamaged or ModelUnsupported."""
    index = path / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelDamaged(f"{index} cannot be read.", str(error), _AGAIN) from error
        if missing := [name for name in names if not (path / name).is_file()]:
            more = " …" if len(missing) > 4 else ""
            raise ModelDamaged(
                f"{path.name} lacks {len(missing)} of its {len(names)} weight files.",
                f"Missing: {', '.join(missing[:4])}{more}.",
                "Download them into the same folder.",
            )
        files = [path / name for name in names]
    else:
        files = sorted(path.glob("model*.safetensors")) or sorted(path.glob("*.safetensors"))
    if files:
        return tuple(files), sum(_checked(file) for file in files)
    pickles = sorted({file for pattern in PICKLES for file in path.glob(pattern)})
    if not pickles:
        raise ModelDamaged(
            f"{path} holds no weights.", "model.safetensors is needed, or its parts with an index.", _AGAIN
        )
    if not allow_pickle:
        raise ModelUnsupported(
            f"{path.name} holds its weights as pickles ({pickles[0].name}), which can run code.",
            "Only safetensors are read.",
            "Convert them, choose another model, or set load.allow_pickle = true in the profile if you trust its makers.",
        )
    return tuple(pickles), 0


def _checked(file: Path) -> int:
    """Return how many numbers a safetensors file holds, after comparing its header with its size."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise ModelDamaged(f"{file.name} is damaged or cut short.", f"It has {size:,} bytes.", _AGAIN)
        text = opened.read(length)
    try:
        tensors = {name: one for name, one in json.loads(text).items() if name != "__metadata__"}
        end = max((one["data_offsets"][1] for one in tensors.values()), default=0)
        numbers: int = sum(math.prod(one["shape"]) for one in tensors.values())
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ModelDamaged(f"{file.name} is damaged.", f"Its header cannot be read ({error}).", _AGAIN) from error
    if 8 + length + end > size:
        raise ModelDamaged(
            f"{file.name} is damaged or cut short.",
            f"It has {size:,} bytes; its weights need {8 + length + end:,}.",
            _AGAIN,
        )
    return numbers


def brief(error: BaseException, longest: int = 240) -> str:
    """Return what a library said, on one line of bearable length."""
    text = " ".join(str(error).split())
    return text if len(text) <= longest else f"{text[: longest - 2]} …"
