"""What every command needs before it starts: profile and plugins, checked against each other, and the model's file.

Knows names a person gave; starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from fader_backends.errors import ModelMissing

from .. import models, profiles
from ..paths import Paths
from ..profiles import Profile

if TYPE_CHECKING:
    from fader_plugins.registry import Registry

FILE_BACKENDS = ("llama.cpp",)
"""Backends whose model is a file that the app looks up; torch also takes folders and hub ids, so it gets those as they are,
and others get every name as it is."""


def plugins_for(profile: Profile, paths: Paths, registry: Registry | None = None) -> tuple[Registry, Profile]:
    """Return the plugins (looked for unless given), and the profile without tables for broken ones. Raises UsageError."""
    from fader_plugins.registry import build

    registry = registry or build(paths.plugins)
    known = {plugin.info.name: plugin.info.settings for plugin in registry.usable()}
    broken = {name for name in registry.plugins if name not in known}
    profiles.check_plugins(profile, known, broken)
    tables = {name: table for name, table in profile.plugins.items() if name not in broken}
    return registry, msgspec.structs.replace(profile, plugins=tables)


def with_model(
    profile: Profile, model: str | None, paths: Paths, environ: Mapping[str, str], home: Path, *, needed: bool = True
) -> Profile:
    """Return the profile with `model` (None: its own) as a path. Raises ModelMissing.

    Unless `needed`, the embedded model stays a name: the chat opens without it and says what to do, and a profile saved
    there holds no path into an installation.
    """
    name = profile.model if model is None else model
    is_embedded = name.lower() in ("", models.EMBEDDED)
    if profile.backend in models.BACKENDS and (needed or not is_embedded):
        try:
            name = str(models.resolve(name, models.folders(paths, environ, home)))
        except ModelMissing:
            if profile.backend in FILE_BACKENDS or is_embedded:
                raise
            folder = Path(name).expanduser()
            name = str(folder.absolute()) if folder.is_dir() else name
    return msgspec.structs.replace(profile, model=name)
