"""`Asked`: what all columns of a comparison are asked.

Knows messages, nothing that runs.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from fader_backends.base import Message


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One question, and what is the same in every column."""

    owner: str
    """The conversation, whose prefix is reused."""
    messages: tuple[Message, ...]
    """Without the system prompt, which is a column's own."""
    now: datetime
    """The conversation's clock."""
    seed: int
    """For columns that name none, so that they differ in nothing but what they say."""
    rows: int | None = None
    """Rows of the context; None leaves the profile's."""
    enough: int | None = None
    """A context length that will do (`ContextSpec.enough`); None leaves the profile's."""
    change: dict[str, Any] = {}
    """Fields of every column's draft (`RequestDraft`), such as ignore_end."""
