"""`fader kv`: what the KV cache takes by type, and what smaller types cost in quality. `fader devices`: where it can lie.

Knows model files and the llama.cpp backend; keeps no conversation.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click
import msgspec
import psutil
from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.errors import BadValue, NotSupported
from fader_backends.gguf import inspect
from fader_backends.llamacpp.kv_size import LENGTHS, KvRow, shape_of, table
from fader_plugins.kv_cache import Kind

from .. import profiles
from ..paths import Paths
from ..profiles import Profile
from ..quality import Quality, compare
from .distance import MEASURED_HEAD, measured_text
from .run import quiet
from .setup import FILE_BACKENDS, with_model
from .table import show_table

MIB = 2**20
CHECKED = (("q8_0", "q8_0"), ("q4_0", "q4_0"))
"""What is checked unless types are named."""


class KvTable(msgspec.Struct, frozen=True, kw_only=True):
    """`fader kv table --json`. Sizes in bytes."""

    model: str
    layers: int
    """Those that keep keys and values."""
    kv_heads: tuple[int, ...]
    key_size: int
    value_size: int
    window: int
    free_bytes: int
    types: list[KvRow]


def show_kv_table(profile: str, model: str | None, paths: Paths, as_json: bool) -> None:
    """Print what each type takes, from the model's header: nothing is loaded."""
    chosen = chosen_model(profile, model, paths)
    file = inspect(chosen.model)
    shape, free = shape_of(file), psutil.virtual_memory().available
    found = KvTable(
        model=file.name,
        layers=sum(count > 0 for count in shape.kv_heads),
        kv_heads=shape.kv_heads,
        key_size=shape.key_size,
        value_size=shape.value_size,
        window=shape.window,
        free_bytes=free,
        types=list(table(shape)),
    )
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    heads = sorted({count for count in shape.kv_heads if count})
    per_layer = " or ".join(str(count) for count in heads)
    click.echo(
        f"{file.name}: {found.layers} layers, {per_layer} KV heads of {shape.key_size} + {shape.value_size} numbers"
    )
    if shape.window:
        click.echo(
            f"Layers with a sliding window keep {shape.window:,} tokens at the most and take less than said here."
        )
    show_table(
        ("TYPE", "BYTES/TOKEN", "OF F16", *(f"{length // 1024}K TOKENS" for length in LENGTHS), ""),
        [
            (
                row.type,
                f"{row.token_bytes:,.0f}",
                f"{row.share:.0%}",
                *(f"{row.context_bytes[length] / MIB:,.1f} MiB" for length in LENGTHS),
                row.problem,
            )
            for row in found.types
        ],
    )
    click.echo(f"Memory free now: {free / MIB:,.0f} MiB. One row; every row of its own buffer takes as much again.")


def check_kv(
    profile: str, model: str | None, type_k: str | None, type_v: str | None, paths: Paths, as_json: bool
) -> None:
    """Print how far each pair of types moves the model's words from those of f16."""
    pairs = CHECKED if type_k is None and type_v is None else ((type_k or "f16", type_v or "f16"),)
    for kind in (kind for pair in pairs for kind in pair):
        if kind not in get_args(Kind):
            raise BadValue(f"{kind!r} is no type of a KV cache.", "", f"Choose from {', '.join(get_args(Kind))}.")
    chosen = chosen_model(profile, model, paths)
    found = measured(chosen, pairs, paths, as_json)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())


def measured(profile: Profile, pairs: Sequence[tuple[str, str]], paths: Paths, silent: bool) -> list[Quality]:
    """Load the model, compare, and print each line as it comes unless `silent`."""
    from fader_backends.llamacpp import load

    table = profile.context
    context = ContextSpec(batch=table.batch, threads=table.threads)
    with quiet(paths.log):
        backend = load(
            ModelSpec(backend=profile.backend, model=profile.model, options=dict(profile.load)),
            msgspec.structs.replace(context, length=512, rows=1),
            lambda _: True,
        )
        try:
            if not silent:
                click.echo(HEAD)
            return compare(backend, context, pairs, lambda one: None if silent else click.echo(line_of(one)))
        finally:
            backend.close()


HEAD = f"K      V       {MEASURED_HEAD} F16"


def line_of(one: Quality) -> str:
    """Return a comparison as a line under `HEAD`."""
    said = measured_text(one, one.saved)
    if one.type_k == one.type_v == "f16":
        said += " (f16 in larger batches: rounding alone)"
    return f"{one.type_k:<6} {one.type_v:<6} {said}"


def list_devices(as_json: bool) -> None:
    """Print what llama.cpp can compute on."""
    from fader_backends.llamacpp.devices import devices
    from fader_backends.llamacpp.split import NOTHING_HERE

    found = devices()
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    show_table(
        ("NAME", "KIND", "FREE MIB", "TOTAL MIB", "DESCRIPTION"),
        [
            (one.name, one.kind, f"{one.free_bytes / MIB:,.0f}", f"{one.total_bytes / MIB:,.0f}", one.description)
            for one in found
        ],
    )
    if not any(one.takes_layers for one in found):
        click.echo(NOTHING_HERE)


def chosen_model(profile: str, model: str | None, paths: Paths) -> Profile:
    """Return the profile with its model as a path. Raises NotSupported where the backend has no model file."""
    chosen = with_model(profiles.load(profile, paths), model, paths, os.environ, Path.home())
    if chosen.backend not in FILE_BACKENDS:
        raise NotSupported(f"The {chosen.backend} backend has no KV types.", "", "Choose another profile with -p.")
    return chosen
