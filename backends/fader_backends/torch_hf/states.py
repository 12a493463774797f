"""Owns the form in which a session's keys and values leave the process: safetensors, one tensor per part of a buffer.

Knows buffers, not tokens. Names are `<layer>.<k or v>.<part>`, shapes (heads, length, …).
"""

from __future__ import annotations

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fader_backends.errors import NotSupported, OutOfMemory
from fader_backends.torch_hf.cache import Held
from fader_backends.torch_hf.devices import is_out_of_memory
from fader_backends.torch_hf.kv_types import Blocks, Buffer, Plain


def pack(held: Held) -> bytes:
    """Return what is held. Raises OutOfMemory."""
    try:
        named = {
            f"{layer}.{name}.{place}": part[:, : held.length].contiguous().cpu()
            for layer, pair in held.store.layers.items()
            for name, buffer in zip("kv", pair, strict=True)
            for place, part in enumerate(buffer.parts)
        }
        return bytes(save(named))
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise OutOfMemory(f"No memory to save {held.length:,} tokens' state.") from error
        raise


def unpack(held: Held, data: bytes, length: int, device: torch.device) -> None:
    """Fill an empty `held`. Raises NotSupported when the data is damaged, OutOfMemory; it stays empty then."""
    try:
        named = load(data)
        grouped: dict[tuple[int, str], dict[int, Tensor]] = {}
        for name, part in named.items():
            number, which, place = name.split(".")
            grouped.setdefault((int(number), which), {})[int(place)] = part
        held.store.reserve(length)
        for layer in sorted({layer for layer, _ in grouped}):
            keys, values = (_buffer(grouped[layer, which], held.store.capacity, length, device) for which in ("k", "v"))
            held.store.layers[layer] = keys, values
        held.length = length
    except (SafetensorError, ValueError, KeyError, IndexError) as error:
        raise NotSupported("This saved state is damaged.", str(error), "Start without it.") from error
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise OutOfMemory(
                f"There is no room for {length:,} saved tokens.", "", "Close other rows first."
            ) from error
        raise


def _buffer(parts: dict[int, Tensor], capacity: int, length: int, device: torch.device) -> Buffer:
    roomy = []
    for place in sorted(parts):
        part = parts[place]
        if part.ndim != 3 or part.shape[1] != length:
            raise ValueError(f"a part of shape {tuple(part.shape)} for {length} tokens")
        fresh = torch.zeros(part.shape[0], capacity, part.shape[2], dtype=part.dtype, device=device)
        fresh[:, :length] = part.to(device)
        roomy.append(fresh)
    return Plain(*roomy) if len(roomy) == 1 else Blocks(*roomy)
