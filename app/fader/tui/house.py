"""What the screen needs from behind it: opened after the first frame, closed at the end. And what it remembers.

Knows where the parts come from; the screen itself only uses them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
from fader_backends.errors import FaderError, Failure

if TYPE_CHECKING:  # imported when opened: the first frame is quicker without them
    from fader_backends.base import SamplerSettings
    from fader_plugins.registry import Registry
    from fader_plugins.turn import AnyEvent, GenerationRequest

    from ..paths import Paths
    from ..profiles import Profile
    from ..store import Store


class House(Protocol):
    """Opens the parts, and knows the clock and the files."""

    paths: Paths

    def registry(self) -> Registry:
        """Find the plugins; may take long, may run on any thread."""
        ...

    def store(self) -> Store:
        """Open the conversations. Raises StoreError."""
        ...

    def engine(self, emit: Callable[[AnyEvent], None]) -> RunningEngine:
        """Return the engine; it may start now or when first needed."""
        ...

    def problem(self, profile: Profile) -> Failure | None:
        """Return why the profile's model cannot be used, as far as that shows without loading it."""
        ...

    def now(self) -> datetime:
        """Return the time."""
        ...


class RunningEngine(Protocol):
    """An engine (`fader.turns.Engine`) that can be started early and closed."""

    def submit(self, request: GenerationRequest) -> None:
        """Take a request up."""
        ...

    def prepare(self, request: GenerationRequest) -> None:
        """Evaluate ahead."""
        ...

    def look(self, request: GenerationRequest) -> None:
        """Tell what a token costs in operators."""
        ...

    def adjust(self, request_id: str, sampler: SamplerSettings) -> None:
        """Change a running reply's sampler."""
        ...

    def cancel(self, request_id: str) -> None:
        """Stop a request soon."""
        ...

    def start(self) -> None:
        """Start it now."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class RealHouse:
    """The house as `fader` runs it."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths

    def registry(self) -> Registry:
        """See `House.registry`."""
        from fader_plugins import registry

        return registry.build(self.paths.plugins)

    def store(self) -> Store:
        """See `House.store`."""
        from ..store import Store

        return Store.open(self.paths.database, self.now)

    def engine(self, emit: Callable[[AnyEvent], None]) -> RunningEngine:
        """See `House.engine`."""
        from ..engine.remote import EngineProcess

        return EngineProcess(self.paths.engine_log, self.paths.plugins, emit)

    def problem(self, profile: Profile) -> Failure | None:
        """See `House.problem`."""
        from .. import models

        if profile.backend != "llama.cpp" and (profile.backend not in models.BACKENDS or profile.model):
            return None
        try:
            models.resolve(profile.model, models.folders(self.paths, os.environ, Path.home()))
        except FaderError as error:
            return error.failure
        return None

    def now(self) -> datetime:
        """See `House.now`."""
        return datetime.now(UTC).astimezone()


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What the screen remembers from one start to the next. Losing it loses nothing but a draft."""

    theme: str = ""
    draft: str = ""


def recall(folder: Path) -> Memory:
    """Read what was remembered; anything unreadable counts as nothing."""
    try:
        return msgspec.json.decode((folder / "screen.json").read_bytes(), type=Memory)
    except (OSError, msgspec.MsgspecError):
        return Memory()


def remember(folder: Path, memory: Memory) -> None:
    """Write what to remember, if the folder can be written."""
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = folder / "screen.json.new"
        aside.write_bytes(msgspec.json.encode(memory))
        aside.replace(folder / "screen.json")


__all__ = ["House", "Memory", "RealHouse", "RunningEngine", "recall", "remember"]
