"""`fader weights check`: what weights of fewer bits save, and what they do to the words.

Knows the backends that can keep weights so; keeps no conversation.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec
from fader_backends.base import ContextSpec, ModelSpec
from fader_backends.errors import BadValue, NotSupported

from .. import profiles
from ..paths import Paths
from ..quality import WeightsQuality, compare_weights
from .distance import MEASURED_HEAD, measured_text
from .run import quiet
from .setup import with_model

BACKENDS = ("torch",)
CHECKED = ("float16", "int8", "int4")
MIB = 2**20
HEAD = f"MATRICES     MIB  {MEASURED_HEAD} PLAIN"


def check_weights(profile: str, model: str | None, matrices: str | None, paths: Paths, as_json: bool) -> None:
    """Print how far each way to keep the matrices moves the model's words from those of the model as it is."""
    if matrices is not None and matrices not in CHECKED:
        raise BadValue(f"{matrices!r} is no way to keep matrices.", "", f"Choose from {', '.join(CHECKED)}.")
    chosen = with_model(profiles.load(profile, paths), model, paths, os.environ, Path.home())
    if chosen.backend not in BACKENDS:
        raise NotSupported(
            f"The {chosen.backend} backend keeps weights as its files have them.",
            "",
            "Choose another profile: -p torch.",
        )
    from fader_backends.torch_hf import load

    spec = ModelSpec(backend=chosen.backend, model=chosen.model, template=chosen.template, options=dict(chosen.load))
    context = ContextSpec(
        batch=chosen.context.batch, threads=chosen.context.threads, options=dict(chosen.context.options)
    )
    if not as_json:
        click.echo(HEAD)
    with quiet(paths.log):
        found = compare_weights(
            load, spec, context, (matrices,) if matrices else CHECKED, lambda one: None if as_json else _tell(one)
        )
    if as_json:
        click.echo(msgspec.json.encode(found).decode())


def _tell(one: WeightsQuality) -> None:
    size = "-" if one.weights_bytes is None else f"{one.weights_bytes / MIB:,.0f}"
    said = measured_text(one, one.saved)
    if one.matrices == "plain":
        said += " (itself in larger batches: rounding alone)"
    click.echo(f"{one.matrices:<8} {size:>7}  {said}")
