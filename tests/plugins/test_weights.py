"""The weights plugin: planned where a backend can, greyed with its reason elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from fader.switchboard import Switchboard
from fader_backends.errors import BadValue

Board = Callable[..., Switchboard]
NOW = datetime(2026, 1, 1)


def test_it_starts_off(board: Board) -> None:
    assert "matrices" not in board(backend="torch", load={}).plan("me", [], NOW).model.options


def test_options(board: Board) -> None:
    """Both settings mean a reload; a type left at auto keeps the profile's."""
    switches = board(backend="torch", load={"dtype": "bfloat16"}, plugins={"weights": {"on": True, "matrices": "int8"}})
    assert switches.plan("me", [], NOW).model.options == {"dtype": "bfloat16", "matrices": "int8"}
    switches.set("weights", "dtype", "float16")
    assert switches.plan("me", [], NOW).model.options == {"dtype": "float16", "matrices": "int8"}
    for change in (
        lambda twin: twin.set("weights", "matrices", "int4"),
        lambda twin: twin.set("weights", "dtype", "float32"),
        lambda twin: twin.switch("weights", False),
    ):
        assert switches.cost_of(change) == "load"


@pytest.mark.parametrize(
    ("backend", "says"), [("llama.cpp", "the number types of the file"), ("echo", "echo has no weights")]
)
def test_greyed(board: Board, backend: str, says: str) -> None:
    """Switched on where it cannot be, it changes nothing and says why."""
    switches = board(backend=backend, load={}, plugins={"weights": {"on": True}})
    assert says in (switches.lacking("weights") or "")
    assert switches.plan("me", [], NOW).model.options == {}


def test_bad_values(board: Board) -> None:
    with pytest.raises(BadValue, match=r"weights\.matrices = 'int3'"):
        board(backend="torch", load={}).set("weights", "matrices", "int3")
