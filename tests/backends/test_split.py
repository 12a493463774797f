"""Tensor split by arithmetic: shares, refusals, and which layer lies where, without a GPU."""

from __future__ import annotations

import pytest
from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.errors import BadValue, NotSupported
from fader_backends.llamacpp import load
from fader_backends.llamacpp.devices import KINDS, cpu_only, devices, parts
from fader_backends.llamacpp.split import Device, normalised, parts_of, places, split_of


def device(name: str, kind: str = "gpu") -> Device:
    return Device(name=name, description="", kind=kind, free_bytes=1 << 30, total_bytes=1 << 30)


TWO = (device("CUDA0"), device("CUDA1"), device("CPU", "cpu"), device("BLAS", "accel"))


def test_shares() -> None:
    assert normalised(parts_of("3, 1"), 2) == (0.75, 0.25)
    assert normalised(parts_of("1"), 3) == (1.0, 0.0, 0.0)
    assert parts_of(" ") == ()


@pytest.mark.parametrize("text", ["3,x", "-1,2", "nan", "inf,1", "0,0", "1,,2"])
def test_shares_that_are_none(text: str) -> None:
    with pytest.raises(BadValue, match=r"tensor_split\.proportions"):
        parts_of(text)


def test_a_split() -> None:
    found = split_of(TWO, "layer", "3,1", 1)
    assert (found.mode, found.main_device, found.shares) == ("layer", 1, (0.75, 0.25))
    assert split_of(TWO, "none", "", 0).shares == ()


@pytest.mark.parametrize(
    ("proportions", "main", "why"),
    [("1,1,1", 0, "names 3 devices; there are 2"), ("", 2, "main_device = 2 is not there")],
)
def test_a_device_that_is_not_there(proportions: str, main: int, why: str) -> None:
    with pytest.raises(BadValue, match=why) as caught:
        split_of(TWO, "layer", proportions, main)
    assert "0: CUDA0, 1: CUDA1" in caught.value.detail


def test_nothing_to_split_over() -> None:
    with pytest.raises(NotSupported, match="only the CPU"):
        split_of(TWO[2:], "layer", "", 0)


@pytest.mark.parametrize(
    ("layers", "gpu_layers", "shares", "want"),
    [
        (4, -1, (1.0,), [0, 0, 0, 0, 0]),
        (4, 0, (1.0,), [None] * 5),
        (4, 2, (1.0,), [None, None, None, 0, 0]),
        (4, 99, (0.5, 0.5), [0, 0, 0, 1, 1]),
        (7, -1, (0.75, 0.25), [0, 0, 0, 0, 0, 0, 1, 1]),
        (7, -1, (3, 1), [0, 0, 0, 0, 0, 0, 1, 1]),
        (3, -1, (0.0, 1.0), [1, 1, 1, 1]),
        (3, -1, (1.0, 0.0), [0, 0, 0, 0]),
        (3, -1, (), [None] * 4),
    ],
)
def test_which_layer_lies_where(
    layers: int, gpu_layers: int, shares: tuple[float, ...], want: list[int | None]
) -> None:
    """The last ones first leave the CPU, the output layer counts as one, and devices take theirs in order."""
    assert places(layers, gpu_layers, shares) == want


def test_parts_are_seen_without_loading() -> None:
    assert "base" in parts()
    assert cpu_only() == (not any(part in parts() for part in ("cuda", "metal", "vulkan", "hip", "sycl")))


@pytest.mark.slow
def test_the_devices_here() -> None:
    found = devices()
    assert any(one.kind == "cpu" and one.total_bytes > 0 for one in found)
    assert all(one.name and one.kind in KINDS for one in found)


@pytest.mark.slow
@pytest.mark.skipif(not cpu_only(), reason="there may be a GPU here")
def test_a_split_on_the_cpu_is_refused(smollm2: object) -> None:
    """What a profile may say and this machine cannot do fails with the reason, before the model is read."""
    model = ModelSpec(backend="llama.cpp", options={"split_mode": "layer", "tensor_split": "3,1"})
    with pytest.raises(NotSupported, match="only the CPU"):
        load(model, ContextSpec(length=256), lambda fraction: True)
