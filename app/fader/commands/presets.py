"""`fader profiles import`: another program's preset becomes a profile of the user's.

Knows files and names; what the formats say is in `fader.presets`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
import msgspec
from fader_backends.errors import StoreError

from .. import presets, profile_files, profiles
from ..paths import Paths
from ..profiles import ContextTable, Profile
from .plain import plain
from .profiles import check_name


def import_preset(file: Path, name: str | None, kind: str | None, force: bool, paths: Paths) -> None:
    """Write a profile, print its path, and say on stderr what was not carried over. Raises UsageError, StoreError."""
    found = presets.read(file, kind)
    stem = file.name.removesuffix(file.suffix).removesuffix(".preset")
    wanted = name_for(found.title or stem) if name is None else name
    check_name(wanted)
    taken = {known.casefold(): known for known in profiles.names(paths)}
    if not force and wanted.casefold() in taken:
        step = "Choose another name with --name, or replace it with --force."
        raise StoreError(f"There is a profile {taken[wanted.casefold()]!r} already.", "", step)
    path = paths.profiles / f"{wanted}.toml"
    profile_files.save(profile_of(found, wanted, found.title or stem), path)
    for note in found.notes:
        click.echo(plain(f"fader: not carried over: {' '.join(str(note).split())}", sys.stderr), err=True)
    click.echo(str(path))


def profile_of(found: presets.Imported, name: str, title: str) -> Profile:
    """Return the profile a preset makes: neutral, but for what the preset says."""
    keys = dict(found.profile)
    context = msgspec.convert(keys.pop("context", {}), ContextTable)
    sampler = {"on": True, "base": "neutral", **found.sampler}
    summary = " ".join(f"{title} (from {found.program})".split())
    return Profile(name=name, summary=summary, context=context, plugins={"sampler": sampler}, **keys)


def name_for(title: str) -> str:
    """Return a title as a profile's name."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", title).strip("-._") or "imported"
