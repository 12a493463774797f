"""A comparison as it is stored, exported, opened and run again. An interface: fields are added, never renamed.

Knows records of turns, not how they came about.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
from fader_backends.base import Message
from fader_backends.errors import Failure, StoreError
from fader_plugins.turn import Numbers, RunRecord

from .figures import Figures, figures

VERSION = 1
"""Raised when an older Fader could not read what this one writes."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one column gave."""

    record: RunRecord
    """Its turn; the messages are the comparison's. Where a stop text cut the reply, its ids are cut, too."""
    ids: tuple[int, ...]
    """The tokens as they were generated."""
    pieces: tuple[str, ...]
    """What became visible with each token."""
    logprobs: tuple[float, ...]
    """Per token: natural log of its probability among the candidates left by the chain."""
    chosen: bytes = b""
    """What each token was chosen from (`fader.odds.packed`); empty where nobody asked for that."""
    rounds: tuple[Numbers, ...] = ()
    """Further runs of the column, where it was run for its timing."""

    @property
    def figures(self) -> Figures:
        """The numbers under the column."""
        return figures(self.record.numbers, self.ids, self.logprobs, self.rounds)


class StoredColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One column."""

    changes: dict[str, str]
    """What it changes of the settings as they stood."""
    title: str
    answer: Answer | None = None
    failure: Failure | None = None
    note: str = ""
    """What had to be said of how it ran."""
    alone: str = ""
    """What running it again by itself showed."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt under several settings."""

    version: int = VERSION
    created: datetime
    messages: tuple[Message, ...]
    """What was said, the question last; without the system prompt, which is a column's own."""
    clock: datetime
    """The time the chat template sees."""
    profile: str
    seed: int
    """Of every column that names none."""
    fair: bool
    """Whether the columns ran one at a time, for their timing."""
    columns: tuple[StoredColumn, ...]
    conversation: str | None = None
    parent: int | None = None
    """The message that the question stands below, or would."""
    question: int | None = None
    """The question's own message, where it is in the conversation."""
    replies: dict[str, int] = {}
    """Request id -> the message that its reply became."""
    kept: str = ""
    """Letter of the column whose reply the conversation went on with."""

    @property
    def prompt(self) -> str:
        """The question."""
        return self.messages[-1].content if self.messages else ""


class _Head(msgspec.Struct):
    version: int


def encode(comparison: Comparison) -> bytes:
    """Return a comparison as JSON."""
    return msgspec.json.encode(comparison)


def decode(data: bytes, name: str) -> Comparison:
    """Return what `encode` made. Raises StoreError for one of a newer Fader, and for one that cannot be read."""
    try:
        version = msgspec.json.decode(data, type=_Head).version
        if version > VERSION:
            raise StoreError(
                f"Comparison {name} was stored by a newer Fader (form {version}; this one knows {VERSION}).",
                "It was not touched.",
                "Update Fader to open it.",
            )
        return msgspec.json.decode(data, type=Comparison)
    except msgspec.MsgspecError as error:
        raise StoreError(f"Comparison {name} cannot be read: {error}.", "", "Run it anew.") from error
