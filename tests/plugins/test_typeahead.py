"""Typeahead: what it lets the engine evaluate, and when it holds back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace

import psutil
import pytest
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.calls import Hooks
from fader_plugins.turn import Numbers
from fader_plugins.typeahead import readings, whole_words

NOW = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("typed", "certain"),
    [
        ("", ""),
        ("hel", ""),
        ("hello ", "hello"),
        ("hello wor", "hello"),
        ("hello  world\n", "hello  world"),
        ("one\n\ntwo thr", "one\n\ntwo"),
        ("   ", ""),
        ("said said", "said"),
    ],
)
def test_whole_words(typed: str, certain: str) -> None:
    """The last word may still grow, unless white space follows it."""
    assert whole_words(typed) == certain


def asked(board: Switchboard, typed: str = "hello wor") -> str | None:
    hooks = Hooks(board.registry, board.enabled(), lambda *_: None)
    return hooks.look_ahead(board.plan("me", [Message("user", typed)], NOW), typed)


def test_it_holds_back_where_nothing_is_kept(board: Callable[..., Switchboard]) -> None:
    """Without state, without prefix reuse or when off, there is nothing to evaluate ahead for."""
    assert asked(board()) == "hello"
    for name in ("kv_cache", "prefix_cache", "typeahead"):
        assert asked(board(plugins={name: {"on": False}})) is None, name


def test_it_yields_to_battery_power(board: Callable[..., Switchboard], monkeypatch: pytest.MonkeyPatch) -> None:
    """On battery it waits for Enter, unless told otherwise."""
    monkeypatch.setattr(psutil, "sensors_battery", lambda: SimpleNamespace(power_plugged=False), raising=False)
    assert asked(board()) is None
    assert asked(board(plugins={"typeahead": {"on_battery": True}})) == "hello"
    monkeypatch.setattr(psutil, "sensors_battery", lambda: None, raising=False)
    assert asked(board()) == "hello"


def test_rows() -> None:
    """Two rows when anything was evaluated ahead, none otherwise."""
    assert readings(Numbers()) == []
    assert [row.value for row in readings(Numbers(ready_tokens=30, vain_tokens=2))] == [30.0, 2.0]
