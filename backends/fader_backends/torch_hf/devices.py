"""Owns where a model runs and in which number type, and why.

Knows torch's devices, no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import psutil
import torch

from fader_backends.base import Scalar
from fader_backends.errors import BadValue
from fader_backends.options import choice

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_AUTO = "auto"


class Placement(NamedTuple):
    """Where, in which type, and why."""

    device: torch.device
    dtype: torch.dtype
    reason: str

    def __str__(self) -> str:
        return f"{self.device}, {str(self.dtype).removeprefix('torch.')} ({self.reason})"


def place(options: Mapping[str, Scalar]) -> Placement:
    """Choose device and number type: the fastest there is, unless the options say. Raises BadValue."""
    asked = options.get("device", _AUTO)
    if not isinstance(asked, str):
        raise BadValue(f"device = {asked!r} is no device.", "", "Write for example cpu, cuda or mps.")
    device, why = _best() if asked == _AUTO else (_checked(asked), "as asked for")
    name = choice(options, "dtype", _AUTO, {_AUTO: None, **DTYPES})
    if name != _AUTO:
        return Placement(device, DTYPES[name], f"{why}; type as asked for")
    if device.type == "cuda":
        new = torch.cuda.is_bf16_supported(including_emulation=False)
        dtype, because = (torch.bfloat16, "half the memory") if new else (torch.float16, "this GPU has no bfloat16")
    elif device.type == "mps":
        dtype, because = torch.float16, "half the memory"
    else:
        dtype, because = torch.float32, "the most exact, and what every processor computes fast"
    return Placement(device, dtype, f"{why}; {because}")


def _best() -> tuple[torch.device, str]:
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device()), f"torch sees {torch.cuda.get_device_name()}"
    if torch.backends.mps.is_available():
        return torch.device("mps"), "torch sees Apple's GPU"
    return torch.device("cpu"), f"{_absent()} and no Apple GPU"


def _absent() -> str:
    return "torch was built without CUDA" if torch.version.cuda is None else "torch sees no CUDA device"


def _checked(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda", "mps"):
        raise BadValue(f"device = {name!r} is no device.", "", "Write auto, cpu, cuda, cuda:1 or mps.")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise BadValue(
                f"device = {name}: there is none.", f"{_absent().capitalize()}.", "Set device to auto or cpu."
            )
        if (device.index or 0) >= count:
            raise BadValue(f"device = {name}: there are {count} of them, from cuda:0.", "", "Name one of those.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise BadValue("device = mps: there is none.", "torch sees no Apple GPU.", "Set device to auto or cpu.")
    return device


def free_bytes(device: torch.device) -> int:
    """Return what is free where the model would lie."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def peak_bytes(device: torch.device) -> int | None:
    """Return the most that tensors took on a GPU; None on others, where nobody counts."""
    return int(torch.cuda.max_memory_allocated(device)) if device.type == "cuda" else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether torch found no memory: on the CPU it says so in the message only."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and ("not enough memory" in str(error) or "can't allocate memory" in str(error))
    )
