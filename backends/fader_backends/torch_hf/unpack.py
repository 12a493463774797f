"""Owns how a tensor's bytes in a GGUF file become numbers, a whole tensor at a time.

Knows ggml's block layouts (github.com/ggml-org/ggml/blob/master/src/ggml-quants.c) as far as transformers 5.24 does not: its
`integrations/gguf/dequant` does all others with torch's own vector operations. The `gguf` package's numpy code would do as well,
but is another dependency, and slower where torch has threads.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from transformers.integrations.gguf.dequant import GGML_BLOCK, dequantize

from fader_backends import ggml_types

PLAIN = {0: torch.float32, 1: torch.float16, 30: torch.bfloat16}
Q5_0, Q5_1 = 6, 7
KINDS = frozenset([*PLAIN, Q5_0, Q5_1, *GGML_BLOCK])
"""ggml types that can be unpacked."""


def nbytes(kind: int, count: int) -> int:
    """Return the bytes that `count` numbers take."""
    block, size = ggml_types.BLOCKS[kind]
    return count // block * size


def unpacked(data: np.ndarray[tuple[int], np.dtype[np.uint8]], kind: int) -> Tensor:
    """Return the numbers in `data`, which is not changed, as float32 (count,)."""
    raw = torch.from_numpy(np.array(data))
    if kind in PLAIN:
        return raw.view(PLAIN[kind]).float()
    if kind in (Q5_0, Q5_1):
        return _five_bits(raw.view(-1, ggml_types.BLOCKS[kind][1]), kind == Q5_1)
    values: Tensor = dequantize(raw, kind)
    return values.float()


def _five_bits(blocks: Tensor, offset: bool) -> Tensor:
    """Four bits in 16 bytes, low halves first, and the fifth of all 32 in four bytes; scale, and minimum where there is one."""
    head = 4 if offset else 2
    scale = blocks[:, :2].contiguous().view(torch.float16).float()
    high = blocks[:, head : head + 4, None] >> torch.arange(8, dtype=torch.uint8) & 1
    low = blocks[:, head + 4 :]
    codes = torch.cat([low & 15, low >> 4], 1) | high.reshape(-1, 32) << 4
    if offset:
        return (codes.float() * scale + blocks[:, 2:4].contiguous().view(torch.float16).float()).reshape(-1)
    return ((codes.float() - 16) * scale).reshape(-1)
