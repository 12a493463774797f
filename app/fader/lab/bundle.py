"""A bundle's folder: made, checked against its hashes, opened by id, by folder or from a zip, listed, removed.

Knows files; what runs and reports mean is not its business.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from fader_backends.errors import BadValue, StoreError, UnknownName

from ..paths import make_folder
from . import archive
from .evidence import SCHEMA, Manifest

MANIFEST, WORKLOAD, PROFILES = "manifest.json", "workload.toml", ("profiles/a.toml", "profiles/b.toml")
REPORTS = ("report.json", "report.html", "report.md")
"""Derived from the rest; may be missing."""


class Bundle(NamedTuple):
    """An opened bundle."""

    folder: Path
    manifest: Manifest

    @property
    def whole(self) -> bool:
        """Whether nothing is missing from it."""
        return self.manifest.state == "complete"


class _Head(msgspec.Struct):
    schema: int = 0


def new_id(created: datetime, words: str, folder: Path) -> str:
    """Return an id that sorts by time and is free in `folder`: 20260131-140530-copy-prompt_lookup."""
    slug = re.sub(r"[^a-z0-9_]+", "-", words.lower()).strip("-")[:48]
    name = f"{created:%Y%m%d-%H%M%S}-{slug}".strip("-")
    free, number = name, 1
    while (folder / free).exists():
        number += 1
        free = f"{name}-{number}"
    return free


def make(lab: Path, manifest: Manifest, texts: dict[str, str]) -> Bundle:
    """Make a bundle's folder with its texts (name -> content) and a first manifest. Raises StoreError."""
    folder = lab / manifest.id
    make_folder(lab)
    make_folder(folder)
    try:
        make_folder(folder / "profiles")
        for name, text in texts.items():
            write(folder / name, text.encode())
        return seal(Bundle(folder, manifest), manifest)
    except StoreError:
        shutil.rmtree(folder, ignore_errors=True)  # without a manifest nobody would find it again
        raise


def seal(bundle: Bundle, manifest: Manifest) -> Bundle:
    """Write the manifest with the hashes of all files there are; return the bundle with it. Raises StoreError."""
    sealed = msgspec.structs.replace(manifest, files=hashes(bundle.folder))
    data = msgspec.json.format(msgspec.json.encode(sealed), indent=2)
    write(bundle.folder / MANIFEST, data + b"\n")
    return Bundle(bundle.folder, sealed)


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file but the manifest. Raises StoreError."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if name != MANIFEST and not name.endswith(".new"):
            found[name] = sha256(path)
    return found


def sha256(path: Path) -> str:
    """Return a file's SHA-256. Raises StoreError."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror or error}.", "", "Check the file.") from error


def write(path: Path, data: bytes) -> None:
    """Write a file in one step. Raises StoreError."""
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_bytes(data)
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        step = "Make room, or set FADER_HOME to a folder on another disk."
        raise StoreError(f"Cannot write {path}: {error.strerror or error}.", "", step) from error


def read_manifest(folder: Path) -> Manifest:
    """Return a bundle's manifest. Raises StoreError for one that is missing, damaged, or of a newer Fader."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
        schema = msgspec.json.decode(data, type=_Head).schema
        if schema > SCHEMA:
            raise StoreError(
                f"{path} was made by a newer Fader (schema {schema}; this one knows {SCHEMA}).",
                "It was not touched.",
                "Update Fader to open it.",
            )
        return msgspec.json.decode(data, type=Manifest)
    except OSError as error:
        step = "Name the folder or the .zip of a bundle; `fader lab list` shows those that are here."
        raise StoreError(f"There is no bundle in {folder}: {error.strerror or error}.", "", step) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is damaged: {error}.", "", "Get the bundle again.") from error


def load(folder: Path, check: bool = True) -> Bundle:
    """Return the bundle in a folder. Raises StoreError, also where a file is missing or is not what was sealed.

    Reports may be missing: they can be made again.
    """
    manifest = read_manifest(folder)
    for name, digest in manifest.files.items() if check else ():
        path = folder / name
        if not path.is_file():
            if name in REPORTS:
                continue
            raise StoreError(f"{path} is missing from the bundle.", "", "Get the bundle again.")
        if sha256(path) != digest:
            raise StoreError(
                f"{path} is not what was measured: its hash differs from the manifest's.",
                "Someone or something changed it.",
                "Get the bundle again.",
            )
    return Bundle(folder, manifest)


@contextmanager
def opened(name: str, lab: Path, check: bool = True) -> Iterator[Bundle]:
    """Give the bundle that `name` means: an id (or its beginning) in `lab`, a folder, or a .zip. Raises FaderError.

    A zip is unpacked into a folder that is gone afterwards.
    """
    path = Path(name).expanduser()
    if path.suffix.lower() == ".zip" and path.is_file():
        with tempfile.TemporaryDirectory(prefix="fader-bundle-", ignore_cleanup_errors=True) as folder:
            yield load(archive.unpack(path, Path(folder)), check)
        return
    yield load(find(name, lab), check)


def find(name: str, lab: Path) -> Path:
    """Return the folder that an id, the beginning of just one, or a path means. Raises UnknownName, BadValue."""
    if (lab / name / MANIFEST).is_file() and name:
        return lab / name
    path = Path(name).expanduser()
    if (path / MANIFEST).is_file():
        return path.absolute()
    known = ids(lab)
    if name == "last" and known:
        return lab / known[-1]
    fitting = [one for one in known if name and one.startswith(name)]
    if len(fitting) == 1:
        return lab / fitting[0]
    if fitting:
        raise BadValue(f"{name!r} fits {len(fitting)} bundles: {', '.join(fitting)}.", "", "Name more of it.")
    raise UnknownName("bundle", name, known)


def ids(lab: Path) -> list[str]:
    """Return the ids of all bundles, the oldest first."""
    return sorted(path.parent.name for path in lab.glob(f"*/{MANIFEST}"))


def remove(folder: Path) -> None:
    """Delete a bundle. Raises StoreError."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise StoreError(f"Cannot remove {folder}: {error.strerror or error}.", "", "Close what uses it.") from error
