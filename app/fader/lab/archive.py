"""A bundle as one .zip, made and unpacked; what comes in is not trusted.

Knows zip files, not what is in a bundle.
"""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path, PurePosixPath, PureWindowsPath

from fader_backends.errors import BadValue, StoreError

MOST_FILES = 100
MOST_BYTES = 512 * 2**20
"""Unpacked; a bundle of 100 turns takes about 2 MB."""
BLOCK = 2**20


def pack(folder: Path, path: Path) -> None:
    """Write the files of `folder` into a zip, below its name. Raises StoreError."""
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(file for file in folder.rglob("*") if file.is_file()):
                archive.write(file, f"{folder.name}/{file.relative_to(folder).as_posix()}")
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StoreError(f"Cannot write {path}: {error.strerror or error}.", "", "Choose another place.") from error


def unpack(path: Path, folder: Path) -> Path:
    """Unpack a bundle below `folder`, which must be empty; return where its manifest lies.

    Raises BadValue for one that is no zip, is too large, or has a path that leaves the folder; nothing is unpacked then,
    except where a file turns out larger than it says.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            _check(path, entries)
            left = MOST_BYTES
            for entry in entries:
                left = _extract(path, archive, entry, folder, left)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadValue(f"{path} is not a sound zip file: {error}.", "", "Get the bundle again.") from error
    except OSError as error:
        raise StoreError(f"Cannot unpack {path}: {error.strerror or error}.", "", "Make room, or check it.") from error
    found = sorted(folder.rglob("manifest.json"), key=lambda one: len(one.parts))
    if not found:
        raise BadValue(f"{path} holds no bundle: there is no manifest.json in it.", "", "Name a bundle of Fader's.")
    return found[0].parent


def _check(path: Path, entries: list[zipfile.ZipInfo]) -> None:
    for entry in entries:
        name = entry.filename
        posix, windows = PurePosixPath(name), PureWindowsPath(name)
        outside = ".." in (*posix.parts, *windows.parts) or posix.is_absolute() or windows.drive or windows.root
        if outside or stat.S_ISLNK(entry.external_attr >> 16):
            raise BadValue(f"{path} holds {name!r}, which leaves its folder.", "", "Do not use this file.")
    if len(entries) > MOST_FILES:
        raise BadValue(
            f"{path} holds {len(entries):,} files; a bundle has at most {MOST_FILES}.", "", "Check its origin."
        )
    total = sum(entry.file_size for entry in entries)
    if total > MOST_BYTES:
        raise _huge(path, total)


def _extract(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, left: int) -> int:
    """Write one file; return how many bytes may still come. What an entry says of its size is not trusted."""
    target = folder / PurePosixPath(entry.filename)
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(entry) as source, target.open("wb") as file:
        while block := source.read(BLOCK):
            left -= len(block)
            if left < 0:
                raise _huge(path, MOST_BYTES - left)
            file.write(block)
    return left


def _huge(path: Path, size: int) -> BadValue:
    return BadValue(
        f"{path} would unpack to {size / 2**20:,.0f} MiB; a bundle has at most {MOST_BYTES / 2**20:,.0f}.",
        "",
        "Check its origin.",
    )
