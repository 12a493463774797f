"""Profiles: TOML files that say which model, which context, and where every switch and setting stands.

Knows files and names, not what plugins do with their settings.
"""

from __future__ import annotations

from typing import Any

import msgspec
from fader_backends.base import Scalar


class ContextTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[context]` table; fields as in `ContextSpec`."""

    length: int = 0
    rows: int = 4
    batch: int = 512
    threads: int = 0
    options: dict[str, Scalar] = {}


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One profile after `extends` is resolved."""

    name: str = ""
    summary: str = ""
    backend: str = "llama.cpp"
    model: str = ""
    """A path or a known name; empty means the embedded model."""
    template: str = ""
    system: str = ""
    max_tokens: int | None = None
    stop: list[str] = []
    chunk: int = 128
    """Prompt tokens evaluated between two looks at the stop key."""
    context: ContextTable = ContextTable()
    load: dict[str, Scalar] = {}
    """Backend options that need a reload."""
    plugins: dict[str, dict[str, Any]] = {}
    """Per plugin: `on`, and its settings."""
