"""Conversations on engines: turns of an owner, with what the cache said of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fader.headless import Headless
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins import prefix_cache
from fader_plugins.prefix.tiers import Tiers
from fader_plugins.registry import Registry
from fader_plugins.testing import reply
from fader_plugins.turn import PluginFault, Restored

NOW = datetime(2026, 1, 2, 3, 4, 5)


class Talk:
    """Turns on one engine, which can be restarted."""

    def __init__(self, registry: Registry, board: Switchboard) -> None:
        self.registry = registry
        self.board = board
        self.engine = Headless(registry)
        self.restored: Restored | None = None
        self._count = 0

    def set(self, **settings: Any) -> None:
        """Change settings of the prefix cache."""
        for key, value in settings.items():
            self.board.set("prefix_cache", key, value)

    def say(self, messages: Sequence[Message], owner: str = "me", now: datetime = NOW) -> list[Message]:
        """Run a turn; return the messages with its reply."""
        self._count += 1
        events = self.engine.run(self.board.plan(owner, messages, now).freeze(f"turn-{self._count}", 0))
        assert not [event for event in events if isinstance(event, PluginFault)]
        (self.restored,) = [event for event in events if isinstance(event, Restored)]
        text, ids = reply(events)
        return [*messages, Message("assistant", text, ids)]

    @property
    def reused(self) -> tuple[int, str]:
        """Tokens the last turn reused, and from which tier."""
        assert self.restored is not None
        return self.restored.reused, self.restored.tier

    @property
    def note(self) -> str:
        """What the cache said of the last turn."""
        assert self.restored is not None
        return self.restored.note

    @property
    def tiers(self) -> Tiers:
        """What the plugin holds."""
        backend = self.engine.engine.model.backend
        assert backend is not None
        return prefix_cache.plugin.tiers(backend)

    def restart(self) -> None:
        """End the engine and start another, as after a crash: only files stay."""
        assert self.tiers.disk.flush(10)
        prefix_cache.plugin.memory.clear()
        self.engine.close()
        self.engine = Headless(self.registry)


@pytest.fixture
def talk(registry: Registry, board: Callable[..., Switchboard], home: Path) -> Iterator[Talk]:
    """Turns on echo, which draws its tokens, so that any false prefix changes the reply."""
    sampled = {"seed": 7, "temperature": 1.0, "top_p": 1.0, "min_p": 0.0}
    switches = board(
        load={"noise": 1.5}, max_tokens=20, plugins={"sampler": sampled, "prefix_cache": {"min_tokens": 8}}
    )
    made = Talk(registry, switches)
    yield made
    made.engine.close()


def user(text: str) -> Message:
    return Message("user", text)


LONG = "a message of some length, so that it is worth keeping"


CACHES = {
    "session only": {"live_rows": 0, "memory_mib": 0, "disk_mib": 0},
    "live": {"live_rows": 2, "memory_mib": 0, "disk_mib": 0},
    "memory": {"live_rows": 0, "memory_mib": 8, "disk_mib": 0},
    "disk": {"live_rows": 0, "memory_mib": 0, "disk_mib": 8},
}
