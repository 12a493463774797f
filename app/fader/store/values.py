"""What the store hands out, and how times and token ids look in a row.

Knows no SQL.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from fader_backends.base import Role

State: TypeAlias = Literal["complete", "streaming", "cancelled", "failed", "interrupted", "edited"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One message and its place in the tree."""

    id: int
    conversation: str
    parent: int | None
    """None for a conversation's first message (there may be several: an edited first turn is a sibling)."""
    role: Role
    content: str
    ids: tuple[int, ...] | None
    """Generated token ids of a reply."""
    state: str
    """A `State`. "interrupted": its process ended while it was streaming; "edited": a reply in a person's words."""
    created: datetime
    record: bytes | None
    """A `RunRecord` as JSON."""


class Twig(NamedTuple):
    """A message's place in the tree, and how its text begins."""

    id: int
    parent: int | None
    role: Role
    state: str
    sketch: str
    """At most 200 characters, on one line."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation without its messages."""

    id: str
    """Sorts by time of creation."""
    title: str
    """First line of the first user message."""
    profile: str
    created: datetime
    updated: datetime
    clock: datetime
    """The time the chat template sees in every turn, so that a date cannot change the prompt."""
    leaf: int | None
    """The message the conversation stands at."""
    messages: int
    """How many there are, on all branches."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One message found by a search."""

    conversation: Conversation
    node: int
    role: str
    snippet: str
    """The words found with some around them, on one line."""


def to_micros(moment: datetime) -> int:
    """Return microseconds since 1970 UTC; a naive datetime is local time."""
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """Return an aware datetime in local time."""
    return (_EPOCH + timedelta(microseconds=micros)).astimezone()


def pack_ids(ids: tuple[int, ...] | None) -> bytes | None:
    """Return ids as little-endian 32-bit integers."""
    return None if ids is None else struct.pack(f"<{len(ids)}I", *ids)


def unpack_ids(data: bytes | None) -> tuple[int, ...] | None:
    """Undo `pack_ids`."""
    return None if data is None else struct.unpack(f"<{len(data) // 4}I", data)


def clean(text: str) -> str:
    """Return `text` with what UTF-8 cannot hold (lone surrogates) replaced, so that it can always be stored."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def title_of(text: str) -> str:
    """Return the first line that says something, on at most 80 characters."""
    for line in text.splitlines():
        if words := " ".join(line.split()):
            return words if len(words) <= 80 else words[:79] + "…"
    return ""
