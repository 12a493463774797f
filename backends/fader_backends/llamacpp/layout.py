"""Owns how a context is laid out: checks `ContextSpec`, fills in what it leaves open, estimates memory.

Knows the model's header, not its weights, and makes no context itself.
"""

from __future__ import annotations

import msgspec
import psutil

from fader_backends.base import ContextSpec
from fader_backends.errors import BadValue, OutOfMemory
from fader_backends.ggml_types import BLOCKS, CACHE_TYPES
from fader_backends.gguf import GgufFile
from fader_backends.llamacpp.kv_size import shape_of
from fader_backends.options import boolean, check_names, choice, cores, integer, within

FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
STEP = 256
"""The library pads the length of a context to a multiple of this."""
SHARE = 0.5
"""Most of the free memory that a context of unstated length takes."""
FALLBACK_LENGTH = 4096
"""When neither the spec nor the model says how long."""


class Layout(msgspec.Struct, frozen=True):
    """A context's numbers, ready for the library."""

    length: int
    rows: int
    batch: int
    ubatch: int
    threads: int
    flash_attention: str
    type_k: str
    type_v: str
    unified: bool
    """Whether all rows share one buffer, or each has its own of full length."""


def plan(spec: ContextSpec, file: GgufFile, freed: int = 0) -> Layout:
    """Fill in what `spec` leaves open; `freed` bytes will come back before the context is made.

    Raises BadValue, UnknownName, or OutOfMemory when it cannot fit.
    """
    check_names(spec.options, ("flash_attention", "type_k", "type_v", "ubatch", "unified"), "llama.cpp")
    flash = choice(spec.options, "flash_attention", "auto", FLASH_ATTENTION)
    type_k = choice(spec.options, "type_k", "f16", CACHE_TYPES)
    type_v = choice(spec.options, "type_v", "f16", CACHE_TYPES)
    if flash == "off" and BLOCKS[CACHE_TYPES[type_v]][0] > 1:
        raise BadValue(f"type_v = {type_v} needs flash attention.", "", "Set flash_attention to on or auto.")
    within("rows", spec.rows, 1, 256)
    within("batch", spec.batch, 1, 1 << 16)
    within("length", spec.length, 0, 1 << 24)
    within("threads", spec.threads, 0, 512)
    ubatch = integer(spec.options, "ubatch", min(512, spec.batch))
    within("ubatch", ubatch, 1, spec.batch)
    unified = boolean(spec.options, "unified", True)
    shape = shape_of(file)
    shape.check(type_k, type_v)
    per_token = max(1, int((1 if unified else spec.rows) * shape.bytes_per_token(type_k, type_v)))
    free = psutil.virtual_memory().available + freed
    within("enough", spec.enough, 0, 1 << 32)
    most = file.context_length or FALLBACK_LENGTH
    if spec.enough:
        most = min(most, -(-spec.enough // STEP) * STEP)
    length = spec.length or _affordable(most, per_token, free)
    if length * per_token > free:
        raise OutOfMemory(
            f"A context of {length:,} tokens needs {length * per_token / 2**20:,.0f} MiB; {free / 2**20:,.0f} are free.",
            "",
            f"Set the length to {max(STEP, _affordable(length, per_token, free)):,} or less.",
        )
    return Layout(length, spec.rows, spec.batch, ubatch, spec.threads or cores(), flash, type_k, type_v, unified)


def _affordable(length: int, per_token: int, free: int) -> int:
    most = int(free * SHARE) // per_token // STEP * STEP
    return min(length, max(most, STEP))
