"""Requests and engines for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest
from fader.headless import Headless
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import Registry
from fader_plugins.turn import GenerationRequest

NOW = datetime(2026, 1, 2, 3, 4, 5)
Ask = Callable[..., GenerationRequest]


@pytest.fixture
def ask(board: Callable[..., Switchboard]) -> Ask:
    """Make a request on echo from a text or messages; `change` holds draft fields, other keywords profile keys."""
    made = 0

    def make(
        said: str | Sequence[Message] = "hello",
        *,
        owner: str = "me",
        id: str = "",  # noqa: A002 - as in the request
        change: dict[str, Any] | None = None,
        on: Registry | None = None,
        **profile: Any,
    ) -> GenerationRequest:
        nonlocal made
        made += 1
        profile.setdefault("load", {"noise": 0.0})
        switches = board(**profile)
        if on is not None:
            switches = Switchboard(on, switches.profile)
        messages = [Message("user", said)] if isinstance(said, str) else said
        draft = switches.plan(owner, messages, NOW)
        for name, value in (change or {}).items():
            setattr(draft, name, value)
        return draft.freeze(id or f"request-{made}", 0)

    return make


@pytest.fixture
def engine(registry: Registry) -> Iterator[Headless]:
    """An engine on the test's own thread."""
    with Headless(registry) as made:
        yield made
