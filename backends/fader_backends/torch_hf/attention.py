"""Owns attention over the parts of a call: each session's queries against its own keys.

Knows `cache.Parts`, and the arguments with which transformers 5.24 calls an attention function: `scaling`, `sliding_window`,
`softcap` (Gemma 2) and `s_aux` (attention sinks, GPT-OSS).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from fader_backends.torch_hf.cache import Batch, Parts

NAME = "fader"
"""Under which transformers finds `attention`. No mask function goes by it, so models build no masks of their own."""


class Hooks:
    """What happens before each layer's attention, and whether it is fused; of the backend that computes just now."""

    before: Callable[[], None] = staticmethod(lambda: None)
    fused = True


class Whole(NamedTuple):
    """Keys, or values, of a step of fixed shape (`graph.py`): one session's whole buffer, also where it is empty yet."""

    tensor: Tensor
    """Shape (heads, length, width)."""
    places: Tensor
    """Where the step's tokens stand, shape (count,)."""


def attention(
    _module: torch.nn.Module,
    query: Tensor,
    key: Parts | Whole,
    value: Parts | Whole,
    attention_mask: Tensor | None,  # noqa: ARG001 - transformers' signature
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Return the context of all queries, shape (1, count, heads, width). `query`: (1, heads, count, width)."""
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    if isinstance(key, Whole):
        assert isinstance(value, Whole)
        return _over_whole(query, key, value.tensor, scale, sliding_window, softcap, s_aux), None
    assert isinstance(value, Parts)
    Hooks.before()
    batch = key.batch
    pieces = torch.split(query, batch.counts, 2) if len(batch.counts) > 1 else (query,)
    if softcap is None and s_aux is None and Hooks.fused:
        found = [
            _fused(batch, part, keys, values, scale, sliding_window)
            for part, keys, values in zip(pieces, key.tensors, value.tensors, strict=True)
        ]
    else:
        found = [
            _written_out(batch, part, keys, values, scale, sliding_window, softcap, s_aux)
            for part, keys, values in zip(pieces, key.tensors, value.tensors, strict=True)
        ]
    whole = found[0] if len(found) == 1 else torch.cat(found, 2)
    return whole.transpose(1, 2), None


def _near(count: int, keys: Tensor, values: Tensor, window: int | None) -> tuple[Tensor, Tensor]:
    """Leave out what lies before the window of the first of `count` queries."""
    first = keys.shape[2] - count - window + 1 if window else 0
    return (keys[:, :, first:], values[:, :, first:]) if first > 0 else (keys, values)


def _mask(batch: Batch, count: int, length: int, window: int | None, like: Tensor) -> Tensor:
    """Return (count, length): 0 where a query may look, -inf elsewhere. The last query stands at the last key."""
    known = batch.masks.get(place := (count, length, window or 0, like.dtype, like.device))
    if known is None:
        queries = torch.arange(length - count, length, device=like.device)[:, None]
        keys = torch.arange(length, device=like.device)
        seen = keys <= queries
        if window:
            seen &= keys > queries - window
        known = torch.zeros(count, length, dtype=like.dtype, device=like.device).masked_fill_(~seen, float("-inf"))
        batch.masks[place] = known
    return known


def _fused(batch: Batch, query: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None) -> Tensor:
    count = query.shape[2]
    keys, values = _near(count, keys, values, window)
    length, shared = keys.shape[2], keys.shape[1] != query.shape[1]
    mask = None
    causal = count > 1 and count == length and (not window or window >= length)
    if count > 1 and not causal:
        mask = _mask(batch, count, length, window, query)
        if shared and query.device.type == "cuda":  # with a mask, only equal heads get a fused kernel there
            keys, values = (part.repeat_interleave(query.shape[1] // part.shape[1], 1) for part in (keys, values))
            shared = False
    return scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=shared
    )


def _written_out(
    batch: Batch,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """The same step by step, with a soft cap on scores and sinks: a score per head that takes part in the softmax only."""
    count, heads = query.shape[2], query.shape[1]
    keys, values = _near(count, keys, values, window)
    keys, values = (part.repeat_interleave(heads // part.shape[1], 1) for part in (keys, values))
    scores = torch.matmul(query, keys.transpose(2, 3)) * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores + _mask(batch, count, keys.shape[2], window, query)
    if sinks is not None:
        scores = torch.cat([scores, sinks.reshape(1, -1, 1, 1).expand(1, heads, count, 1).to(scores.dtype)], -1)
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights[..., : keys.shape[2]], values)


def _over_whole(
    query: Tensor,
    keys: Whole,
    values: Tensor,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
) -> Tensor:
    """The same over a whole buffer: what stands after a query is masked. Heads that share keys are rows of one product."""
    _, heads, count, width = query.shape
    shared, length, _ = keys.tensor.shape
    rows = query[0].reshape(shared, heads // shared * count, width)
    scores = torch.matmul(rows, keys.tensor.transpose(1, 2)).view(heads, count, length) * scale
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    places = torch.arange(length, device=query.device)
    seen = places <= keys.places[:, None]
    if window:
        seen = seen & (places > keys.places[:, None] - window)
    scores = scores.masked_fill(~seen, float("-inf"))
    if sinks is not None:
        scores = torch.cat([scores, sinks.reshape(heads, 1, 1).expand(heads, count, 1).to(scores.dtype)], -1)
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)[..., :length]
    found = torch.matmul(weights.reshape(shared, heads // shared * count, length), values)
    return found.view(1, heads, count, width).transpose(1, 2)


AttentionInterface.register(NAME, attention)
