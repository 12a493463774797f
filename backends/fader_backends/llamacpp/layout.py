"""Owns how a context is laid out: checks `ContextSpec`, fills in what it leaves open, estimates memory.

Knows the model's header, not its weights, and makes no context itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec
import psutil

from fader_backends.base import ContextSpec, Scalar
from fader_backends.errors import BadValue, OutOfMemory, UnknownName
from fader_backends.ggml_types import BLOCKS, CACHE_TYPES
from fader_backends.gguf import GgufFile
from fader_backends.llamacpp.kv_size import shape_of

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
    check_names(spec.options, ("flash_attention", "type_k", "type_v", "ubatch", "unified"))
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
    unified = spec.options.get("unified", True)
    if not isinstance(unified, bool):
        raise BadValue(f"unified = {unified!r} is neither true nor false.")
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


def cores() -> int:
    """Return the number of physical cores: threads beyond them slow decoding down."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def check_names(options: Mapping[str, Scalar], known: tuple[str, ...]) -> None:
    """Raise UnknownName for the first option that is not known."""
    for name in options:
        if name not in known:
            raise UnknownName("llama.cpp option", name, known)


def choice(options: Mapping[str, Scalar], name: str, default: str, known: Mapping[str, object]) -> str:
    """Return a named value. Raises BadValue."""
    value = options.get(name, default)
    if not isinstance(value, str) or value not in known:
        raise BadValue(f"{name} = {value!r} is none of {', '.join(known)}.")
    return value


def integer(options: Mapping[str, Scalar], name: str, default: int) -> int:
    """Return a whole number. Raises BadValue."""
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadValue(f"{name} = {value!r} is not a whole number.")
    return value


def within(name: str, value: int, low: int, high: int) -> None:
    """Raise BadValue when `value` is outside its range."""
    if not low <= value <= high:
        raise BadValue(f"{name} = {value} is outside {low} to {high}.")
