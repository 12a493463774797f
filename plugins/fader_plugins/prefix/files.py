"""One kept prefix as a file: written whole or not at all, read only when nothing about it is wrong.

Knows bytes and one path at a time; which files there should be is `folder`'s.

    magic  8 bytes   "FADERPFX"
    length 4 bytes   of the header, little endian
    header           msgpack: version, owner, key, state_key, tokens (int32, little endian), size and CRC-32 of the data
    crc    4 bytes   CRC-32 of everything before
    data             as `Session.save` gave it
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from pathlib import Path
from typing import BinaryIO

import msgspec
from fader_backends.base import SessionState

from .radix import Ids
from .shelf import Place

MAGIC = b"FADERPFX"
VERSION = 1
LONGEST_HEADER = 1 << 28


class Unusable(Exception):
    """A file that cannot be used; its text says why."""


class Header(msgspec.Struct, frozen=True):
    """What stands before the data."""

    version: int
    owner: str | None
    key: str
    state_key: str
    tokens: bytes
    size: int
    crc: int

    @property
    def place(self) -> Place:
        """Whose prefix it is."""
        return Place(self.owner, self.key)

    @property
    def ids(self) -> Ids:
        """Its tokens."""
        import numpy as np

        return np.frombuffer(self.tokens, "<i4").astype(np.int32)


_decoder = msgspec.msgpack.Decoder(Header)


def write(path: Path, place: Place, state: SessionState, tokens: Ids) -> int:
    """Write a state beside `path`, then move it there in one step; return the bytes written. Raises OSError."""
    header = msgspec.msgpack.encode(
        Header(
            VERSION,
            place.owner,
            place.key,
            state.key,
            tokens.astype("<i4").tobytes(),
            len(state.data),
            zlib.crc32(state.data),
        )
    )
    head = MAGIC + len(header).to_bytes(4, "little") + header
    head += zlib.crc32(head).to_bytes(4, "little")
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")  # private to the user
    try:
        with os.fdopen(descriptor, "wb") as file:
            put(file, head)
            put(file, state.data)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    return len(head) + len(state.data)


def put(file: BinaryIO, data: bytes) -> None:
    """Write all of `data`."""
    file.write(data)


def read_header(path: Path) -> Header:
    """Return what a file holds, without its data. Raises Unusable or OSError."""
    with path.open("rb") as file:
        return _header(file, path.stat().st_size)


def read(path: Path, place: Place) -> SessionState:
    """Return the state in a file, every byte of it checked. Raises Unusable or OSError."""
    with path.open("rb") as file:
        header = _header(file, path.stat().st_size)
        if header.place != place:
            raise Unusable("it belongs to another conversation or model")
        data = file.read()
    if zlib.crc32(data) != header.crc:
        raise Unusable("its data is damaged")
    return SessionState(tuple(header.ids.tolist()), header.state_key, data)


def _header(file: BinaryIO, size: int) -> Header:
    start = file.read(len(MAGIC) + 4)
    if len(start) < len(MAGIC) + 4 or not start.startswith(MAGIC):
        raise Unusable("it is no prefix file" if len(start) >= len(MAGIC) else "it was cut short")
    length = int.from_bytes(start[len(MAGIC) :], "little")
    if length > min(size, LONGEST_HEADER):
        raise Unusable("it was cut short or is damaged")
    body, crc = file.read(length), file.read(4)
    if len(body) < length or len(crc) < 4:
        raise Unusable("it was cut short")
    if zlib.crc32(start + body) != int.from_bytes(crc, "little"):
        raise Unusable("its header is damaged")
    try:
        version = msgspec.msgpack.decode(body)["version"]
        if version != VERSION:
            raise Unusable(f"it is of version {version}; this is version {VERSION}")
        header = _decoder.decode(body)
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise Unusable("its header cannot be read") from error
    if size != len(start) + length + 4 + header.size:
        raise Unusable("it was cut short" if size < len(start) + length + 4 + header.size else "it is too long")
    return header
