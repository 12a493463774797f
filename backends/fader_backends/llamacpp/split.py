"""Owns the arithmetic of spreading a model over devices: proportions, refusals, and which layer lies where.

Knows devices by name and memory only; no library.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from fader_backends.errors import BadValue, NotSupported

MODES = {"none": 0, "layer": 1, "row": 2, "tensor": 3}
"""`llama_split_mode`. none: one device. layer: whole layers to each. row (deprecated) and tensor: each layer to all."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """Something llama.cpp can compute on."""

    name: str
    description: str
    kind: str
    """cpu, gpu, igpu (shares the system's memory), accel (helps the CPU) or meta."""
    free_bytes: int
    total_bytes: int
    """0: it does not say."""

    @property
    def takes_layers(self) -> bool:
        """Whether layers can be put on it."""
        return self.kind in ("gpu", "igpu")


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is spread, ready for the library."""

    mode: str
    main_device: int
    """Index among the devices that take layers: the only one in mode none."""
    shares: tuple[float, ...]
    """One per device that takes layers, adding up to 1; empty: the library shares out by free memory."""


def split_of(devices: Sequence[Device], mode: str, proportions: str, main_device: int) -> Split:
    """Check what was asked for against the devices there are.

    Raises NotSupported where there is nothing to spread over, BadValue for a device that is not there.
    """
    usable = [device for device in devices if device.takes_layers]
    if not usable:
        raise NotSupported(NOTHING_HERE, "", "Switch tensor_split off.")
    names = ", ".join(f"{place}: {device.name}" for place, device in enumerate(usable))
    if not 0 <= main_device < len(usable):
        raise BadValue(f"tensor_split.main_device = {main_device} is not there.", f"Devices are {names}.", _LOOK)
    given = parts_of(proportions)
    if len(given) > len(usable):
        raise BadValue(
            f"tensor_split.proportions names {len(given)} devices; there are {len(usable)}.",
            f"Devices are {names}.",
            _LOOK,
        )
    return Split(mode=mode, main_device=main_device, shares=normalised(given, len(usable)) if given else ())


NOTHING_HERE = "There is only the CPU here, so nothing can be split."
_LOOK = "`fader devices` lists them."


def parts_of(text: str) -> tuple[float, ...]:
    """Read "3,1". Raises BadValue."""
    parts = []
    for part in text.replace(";", ",").split(",") if text.strip() else ():
        try:
            parts.append(float(part))
        except ValueError:
            parts.append(math.nan)
        if not 0 <= parts[-1] < math.inf:
            raise BadValue(
                f"tensor_split.proportions: {part.strip()!r} is not a number of 0 or more.",
                "",
                "Write for example 3,1.",
            )
    if parts and not sum(parts):
        raise BadValue("tensor_split.proportions gives nothing to any device.", "", "Write for example 3,1.")
    return tuple(parts)


def normalised(parts: Sequence[float], count: int) -> tuple[float, ...]:
    """Return `count` shares that add up to 1; devices that were not named get nothing."""
    total = sum(parts)
    return tuple(part / total for part in (*parts, *[0.0] * (count - len(parts))))


def places(layers: int, gpu_layers: int, shares: Sequence[float]) -> list[int | None]:
    """Return the device of each layer, and of the output layer last; None is the CPU.

    The last `gpu_layers` of them (-1: all) go to devices, in order, by llama.cpp's rule (`load_tensors`): a layer lies
    where its distance from the first such layer, as a share of them, falls among the running sums of shares.
    """
    every = layers + 1
    moved = every if gpu_layers < 0 else min(gpu_layers, every)
    total = sum(shares)
    if not total:
        return [None] * every
    ends = [end / total for end in accumulate(shares)]
    first = every - moved
    return [
        None if layer < first else min(bisect_right(ends, (layer - first) / moved), len(ends) - 1)
        for layer in range(every)
    ]
