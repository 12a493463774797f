"""The tensor split plugin: greyed with its reason on a CPU, planned where there may be devices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec
import pytest
from fader.profiles import ContextTable
from fader.switchboard import Switchboard
from fader_backends.errors import BadValue
from fader_backends.llamacpp.devices import cpu_only

Board = Callable[..., Switchboard]
NOW = datetime(2026, 1, 1)


@pytest.fixture
def able(board: Board) -> Switchboard:
    """A board whose backend can split, with the plugin on."""
    switches = board(backend="llama.cpp", context=ContextTable(options={"type_k": "q8_0"}))
    info = switches.backend()
    switches._backends = {
        "llama.cpp": msgspec.structs.replace(info, provides=info.provides | {"tensor_split"}, lacks={})
    }
    switches.set("kv_cache", "type_k", "q8_0")
    switches.switch("tensor_split", True)
    return switches


@pytest.mark.skipif(not cpu_only(), reason="llama.cpp was built for a GPU")
def test_on_a_cpu_it_is_greyed_with_the_reason(board: Board) -> None:
    """Switched on it changes nothing: the turn runs as ever, and the rack says why."""
    switches = board(backend="llama.cpp", plugins={"tensor_split": {"on": True}})
    reason = switches.lacking("tensor_split")
    assert reason is not None
    assert "only the CPU" in reason
    assert "tensor_split" not in switches.enabled()
    assert switches.plan("me", [], NOW).model.options == {}


def test_a_backend_without_it(board: Board) -> None:
    assert board().lacking("tensor_split") == "the echo backend cannot tensor_split"


def test_it_starts_off(board: Board) -> None:
    assert not board().states["tensor_split"].on


def test_options(able: Switchboard) -> None:
    able.set("tensor_split", "proportions", "3,1")
    able.set("tensor_split", "n_gpu_layers", 12)
    assert able.plan("me", [], NOW).model.options == {
        "n_gpu_layers": 12,
        "split_mode": "layer",
        "tensor_split": "3,1",
        "main_gpu": 0,
    }
    assert able.cost_of(lambda twin: twin.switch("tensor_split", False)) == "load"


def test_what_cannot_be(able: Switchboard) -> None:
    able.set("tensor_split", "split_mode", "tensor")
    with pytest.raises(BadValue, match="cannot work with a KV cache of q8_0"):
        able.plan("me", [], NOW)
    able.set("tensor_split", "split_mode", "layer")
    able.set("tensor_split", "proportions", "3,x")
    with pytest.raises(BadValue, match="'x' is not a number"):
        able.plan("me", [], NOW)


def test_the_command_line_says_why(board: Board) -> None:
    from fader.commands.run import Asked, throw_switches
    from fader_backends.errors import NotSupported

    with pytest.raises(NotSupported, match="tensor_split cannot be switched on here"):
        throw_switches(board(), Asked(on=("tensor_split",)))
