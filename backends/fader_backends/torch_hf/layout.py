"""Owns how a context is laid out: checks `ContextSpec`, fills in what it leaves open, estimates memory.

Knows a model's configuration, not its weights.
"""

from __future__ import annotations

from typing import Any

import msgspec
import torch

from fader_backends.base import ContextSpec
from fader_backends.errors import BadValue, OutOfMemory
from fader_backends.options import boolean, check_names, choice, cores, within
from fader_backends.torch_hf import best, graph
from fader_backends.torch_hf.best import PLACES
from fader_backends.torch_hf.cache import STEP, Kinds
from fader_backends.torch_hf.devices import Placement, free_bytes
from fader_backends.torch_hf.graph import Plan
from fader_backends.torch_hf.kv_types import NAMES, token_bytes

SHARE = 0.5
"""Most of the free memory that a context of unstated length takes."""
OPTIONS = ("type_k", "type_v", "cache", "flash_attention", "unified", "best_on", *graph.OPTIONS)
FALLBACK_LENGTH = 4096
"""When neither the spec nor the model says how long."""


class Layout(msgspec.Struct, frozen=True):
    """A context's numbers."""

    length: int
    rows: int
    batch: int
    threads: int
    kinds: Kinds
    fused: bool
    graph: Plan | None
    """Which steps have graphs."""
    best: bool
    """Whether the best scores are found on the device."""
    token_bytes: float
    """What keys and values of one token take."""


def plan(spec: ContextSpec, config: Any, placement: Placement, freed: int = 0) -> Layout:
    """Fill in what `spec` leaves open; `freed` bytes will come back first. `config` is transformers', of the text model.

    Raises BadValue, UnknownName, or OutOfMemory when it cannot fit.
    """
    check_names(spec.options, OPTIONS, "torch")
    names = dict.fromkeys(NAMES)
    type_k, type_v = (
        choice(spec.options, name, "", names) if name in spec.options else "" for name in ("type_k", "type_v")
    )
    whole = choice(spec.options, "cache", "dynamic", {"dynamic": 0, "static": 1}) == "static"
    steps = graph.plan(spec.options)
    finds = best.finds(choice(spec.options, "best_on", "auto", dict.fromkeys(PLACES)), placement.device)
    kinds = Kinds(type_k, type_v, whole or steps is not None)
    flash = choice(spec.options, "flash_attention", "auto", {"auto": 0, "on": 1, "off": 2})
    if boolean(spec.options, "unified", False):
        raise BadValue("unified = true is not to be had with torch.", "Each row has its own buffers.", "Leave it out.")
    for name, value, low, high in (
        ("rows", spec.rows, 1, 256),
        ("batch", spec.batch, 1, 1 << 16),
        ("length", spec.length, 0, 1 << 24),
        ("threads", spec.threads, 0, 512),
    ):
        within(name, value, low, high)
    each = bytes_per_token(config, kinds, placement.dtype)
    free = free_bytes(placement.device) + freed
    trained = getattr(config, "max_position_embeddings", None) or FALLBACK_LENGTH
    affordable = max(STEP, int(free * SHARE / max(each, 1)) // STEP * STEP)
    enough = -(-spec.enough // STEP) * STEP or trained
    length = spec.length or min(trained, affordable, enough)
    needed = length * each * (spec.rows if kinds.whole else 1)
    if needed > free:
        raise OutOfMemory(
            f"A context of {length:,} tokens needs {needed / 2**20:,.0f} MiB; {free / 2**20:,.0f} are free.",
            "",
            f"Set the length to {max(STEP, int(length * free / needed * SHARE)):,} or less.",
        )
    threads = spec.threads or cores()
    return Layout(length, spec.rows, spec.batch, threads, kinds, flash != "off", steps, finds, each)


def bytes_per_token(config: Any, kinds: Kinds, dtype: torch.dtype) -> float:
    """Return what one token's keys and values take over all layers, as far as the configuration tells. Raises BadValue."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    for kind in (kinds.keys, kinds.values):
        if kind in ("q8_0", "q4_0") and width % 32:
            raise BadValue(f"{kind} needs heads of a multiple of 32; this model's have {width}.", "", "Choose f16.")
    numbers = heads * width
    return float(
        config.num_hidden_layers
        * sum(token_bytes(kind, numbers, dtype.itemsize) for kind in (kinds.keys, kinds.values))
    )
