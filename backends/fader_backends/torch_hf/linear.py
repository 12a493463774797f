"""Owns how few rows go through a large matrix on the CPU: in pieces, which torch computes on all threads.

Knows one kind of layer. MKL's product of a float32 matrix with a single row runs on one thread, and with two to sixteen it takes
twice as long as reading the matrix; as a batch of products over pieces of the matrix, the same numbers come out in 0.6 to 0.9
of the time (tests/bench, `torch-tpot`). Half-precision types have their own fast path in torch and are left alone.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import Linear, Module
from torch.nn.functional import linear

PIECES = 8
MOST_ROWS = 32
"""From here on the whole product is as fast."""


def split(model: Module) -> None:
    """Let the linear layers of a float32 model on the CPU work in pieces where few rows come."""
    for module in model.modules():
        if type(module) is Linear and module.out_features % PIECES == 0 and module.weight.dtype == torch.float32:
            module.forward = partial(_in_pieces, module)  # type: ignore[method-assign]


def _in_pieces(layer: Linear, inputs: Tensor) -> Tensor:
    """Return what the layer would: shape (…, out_features)."""
    width = inputs.shape[-1]
    rows = inputs.numel() // width
    if not 0 < rows <= MOST_ROWS:
        return linear(inputs, layer.weight, layer.bias)
    pieces = layer.weight.view(PIECES, -1, width).transpose(1, 2)
    found = torch.bmm(inputs.reshape(1, rows, width).expand(PIECES, rows, width), pieces)
    whole = found.transpose(0, 1).reshape(*inputs.shape[:-1], layer.out_features)
    return whole if layer.bias is None else whole + layer.bias
