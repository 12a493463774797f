"""Owns how one layer's keys or values are kept: as numbers of some type, or quantised in blocks.

Knows shapes, not what they are for. A buffer has shape (heads, capacity, width); its first `length` places are in use, and
whoever holds it knows that length. Blocks are ggml's (github.com/ggml-org/ggml/blob/master/src/ggml-quants.c): 32 numbers
along the width share one half-precision scale.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from fader_backends.errors import BadValue

BLOCK = 32
PLAIN = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
NAMES = (*PLAIN, "q8_0", "q4_0")


class Buffer(Protocol):
    """Room for the keys, or the values, of one layer and one session."""

    @property
    def capacity(self) -> int:
        """Places there is room for."""
        ...

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """The tensors it is made of, each of shape (heads, capacity, …)."""
        ...

    def with_parts(self, parts: tuple[Tensor, ...]) -> Buffer:
        """Return a buffer of the same kind over other tensors."""
        ...

    def write(self, start: int, states: Tensor) -> None:
        """Put `states`, shape (heads, count, width), at `start`."""
        ...

    def read(self, start: int, end: int, dtype: torch.dtype) -> Tensor:
        """Return places `start` to `end` as (heads, end - start, width); a view where nothing must be converted."""
        ...


class Plain:
    """Numbers as they are."""

    def __init__(self, data: Tensor) -> None:
        self.data = data

    @property
    def capacity(self) -> int:
        """See `Buffer.capacity`."""
        return self.data.shape[1]

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """See `Buffer.parts`."""
        return (self.data,)

    def with_parts(self, parts: tuple[Tensor, ...]) -> Plain:
        """See `Buffer.with_parts`."""
        return Plain(*parts)

    def write(self, start: int, states: Tensor) -> None:
        """See `Buffer.write`."""
        self.data[:, start : start + states.shape[1]] = states

    def read(self, start: int, end: int, dtype: torch.dtype) -> Tensor:
        """See `Buffer.read`."""
        return self.data[:, start:end].to(dtype)


class Blocks:
    """Codes of 8 or 4 bits, with a scale for each block of 32."""

    def __init__(self, codes: Tensor, scales: Tensor) -> None:
        """Take codes of shape (heads, capacity, width) as int8, or half of that width as uint8 holding two each."""
        self.codes = codes
        self.scales = scales

    @property
    def capacity(self) -> int:
        """See `Buffer.capacity`."""
        return self.codes.shape[1]

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """See `Buffer.parts`."""
        return (self.codes, self.scales)

    def with_parts(self, parts: tuple[Tensor, ...]) -> Blocks:
        """See `Buffer.with_parts`."""
        return Blocks(*parts)

    def write(self, start: int, states: Tensor) -> None:
        """See `Buffer.write`."""
        heads, count, width = states.shape
        blocks = states.float().reshape(heads, count, width // BLOCK, BLOCK)
        end = start + count
        if self.codes.dtype == torch.int8:
            scale = blocks.abs().amax(-1, keepdim=True) / 127
            codes = (blocks / scale.clamp_min(1e-30)).round().to(torch.int8)
            self.codes[:, start:end] = codes.reshape(heads, count, width)
        else:
            place = blocks.abs().argmax(-1, keepdim=True)
            scale = blocks.gather(-1, place) / -8
            safe = torch.where(scale == 0, 1.0, scale)
            nibbles = (blocks / safe + 8.5).clamp(0, 15).to(torch.uint8)
            low, high = nibbles.chunk(2, dim=-1)
            self.codes[:, start:end] = (low | high << 4).reshape(heads, count, width // 2)
        self.scales[:, start:end] = scale.squeeze(-1).to(torch.float16)

    def read(self, start: int, end: int, dtype: torch.dtype) -> Tensor:
        """See `Buffer.read`."""
        codes, scales = self.codes[:, start:end], self.scales[:, start:end, :, None].to(dtype)
        heads, count, blocks, _ = scales.shape
        if self.codes.dtype == torch.uint8:
            pairs = codes.reshape(heads, count, blocks, BLOCK // 2)
            values = torch.cat([pairs & 15, pairs >> 4], dim=-1).to(dtype) - 8
        else:
            values = codes.reshape(heads, count, blocks, BLOCK).to(dtype)
        return (values * scales).reshape(heads, count, blocks * BLOCK)


def make(kind: str, like: Tensor, capacity: int) -> Buffer:
    """Return an empty buffer for states like these, shape (heads, count, width); an empty kind is their own type.

    Raises BadValue where the width is no multiple of a block.
    """
    heads, _, width = like.shape
    if kind not in ("q8_0", "q4_0"):
        return Plain(torch.empty(heads, capacity, width, dtype=PLAIN.get(kind, like.dtype), device=like.device))
    if width % BLOCK:
        raise BadValue(f"{kind} needs heads of a multiple of {BLOCK}; this model's have {width}.", "", "Choose f16.")
    codes = (width, torch.int8) if kind == "q8_0" else (width // 2, torch.uint8)
    return Blocks(
        torch.empty(heads, capacity, codes[0], dtype=codes[1], device=like.device),
        torch.empty(heads, capacity, width // BLOCK, dtype=torch.float16, device=like.device),
    )


def token_bytes(kind: str, width: int, itemsize: int) -> float:
    """Return what `width` numbers of one token take."""
    if kind in ("q8_0", "q4_0"):
        return width * (34 if kind == "q8_0" else 18) / BLOCK
    return width * (PLAIN[kind].itemsize if kind else itemsize)
