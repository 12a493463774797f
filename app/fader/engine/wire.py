"""What crosses the pipes between app and engine process: length-prefixed msgpack of commands and events.

Knows neither of the two.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, TypeAlias

import msgspec
from fader_backends.base import SamplerSettings
from fader_plugins.turn import AnyEvent, GenerationRequest

LENGTH = struct.Struct("<I")


class Submit(msgspec.Struct, frozen=True, tag=True):
    """Run this turn."""

    request: GenerationRequest


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Stop that turn."""

    request_id: str


class Adjust(msgspec.Struct, frozen=True, tag=True):
    """Use these sampler settings from that turn's next token on."""

    request_id: str
    sampler: SamplerSettings


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """Evaluate what this turn is certain to begin with, while nothing else is to do."""

    request: GenerationRequest


class Look(msgspec.Struct, frozen=True, tag=True):
    """Tell what a token costs in operators, with this turn's model and context; its messages do not matter."""

    request: GenerationRequest


Command: TypeAlias = Submit | Cancel | Adjust | Prepare | Look

encoder = msgspec.msgpack.Encoder()
commands: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)
events: msgspec.msgpack.Decoder[AnyEvent] = msgspec.msgpack.Decoder(AnyEvent)


def write(pipe: BinaryIO, value: Command | AnyEvent) -> None:
    """Write one value and flush. Raises OSError when the other side is gone."""
    data = encoder.encode(value)
    pipe.write(LENGTH.pack(len(data)) + data)
    pipe.flush()


def read(pipe: BinaryIO) -> bytes | None:
    """Read one value's bytes; None when the other side is gone, also in the middle of a value."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    data = pipe.read(size)
    return data if len(data) == size else None
