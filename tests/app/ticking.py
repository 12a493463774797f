"""A clock that ticks, and a turn to store: for tests of the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from fader.store import Conversation, Store

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def ticking() -> Callable[[], datetime]:
    moment = START

    def now() -> datetime:
        nonlocal moment
        moment += timedelta(seconds=1)
        return moment

    return now


def turn(store: Store, chat: Conversation, parent: int | None, text: str) -> int:
    user = store.add(chat.id, parent, "user", text)
    return store.add(chat.id, user.id, "assistant", f"re: {text}", ids=(1, 2**32 - 1)).id
