"""Turns without process or screen: for `fader run`, the laws, and plugin authors' tests.

Knows the engine and how to wait for it; keeps no conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fader_plugins.registry import Registry
from fader_plugins.turn import AnyEvent, GenerationRequest

from .engine.engine import Engine

if TYPE_CHECKING:
    from fader_plugins.testing import Turns


class Headless:
    """An engine on the caller's thread. Use as a context manager, or call `close`."""

    def __init__(self, registry: Registry, emit: Callable[[AnyEvent], None] = lambda _: None) -> None:
        self.events: list[AnyEvent] = []
        self._forward = emit
        self.engine = Engine(registry, self._emit)

    def _emit(self, event: AnyEvent) -> None:
        self.events.append(event)
        self._forward(event)

    def run(self, *requests: GenerationRequest) -> list[AnyEvent]:
        """Run turns together to their ends; return their events."""
        self.events = []
        for request in requests:
            self.engine.submit(request)
        self.engine.run_until_idle()
        return self.events

    def close(self) -> None:
        """Free the model."""
        self.engine.close()
        self.engine.run_until_idle()

    def __enter__(self) -> Headless:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def turns(registry: Registry) -> Turns:
    """Return a fresh engine as a function from request to events."""
    return Headless(registry).run
