"""`fader profiles`: which there are, what one holds, where it lies, and a new one.

Knows profile files; of plugins only whether a profile's tables fit them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import msgspec
from fader_backends.errors import BadValue, FaderError, StoreError

from .. import profiles
from ..paths import Paths, make_folder
from .setup import plugins_for
from .table import show_table

if TYPE_CHECKING:
    from fader_plugins.registry import Registry

NEW = """\
# A profile of your own: it changes what the one it extends says. Every key: profiles/README.md in the source, or
# `fader profiles show {base}` for one with all that is set.
extends = "{base}"
summary = ""

# system = "Answer briefly."
# max_tokens = 400
#
# [plugins.sampler]
# temperature = 0.2
"""


def list_profiles(paths: Paths) -> None:
    """Print names, owners and summaries; a file that cannot be used is listed with the reason."""
    rows = []
    registry: Registry | None = None
    for name in profiles.names(paths):
        owner = "built in" if profiles.is_built_in(profiles.path_of(name, paths)) else "yours"
        try:
            profile = profiles.load(name, paths)
            if owner == "yours":
                registry, profile = plugins_for(profile, paths, registry)
            summary = profile.summary
        except FaderError as error:
            summary = f"cannot be used: {error}"
        rows.append((name, owner, summary))
    show_table(("NAME", "FROM", "SUMMARY"), rows)


def show_profile(name: str, paths: Paths) -> None:
    """Print a profile as TOML after `extends` is resolved, with the files it came from."""
    import tomli_w

    profile = profiles.load(name, paths)
    data = {key: value for key, value in msgspec.to_builtins(profile).items() if value is not None}
    for source in profile.sources:
        click.echo(f"# from {source}")
    click.echo(tomli_w.dumps({key: value for key, value in data.items() if key not in profiles.NOT_WRITTEN}), nl=False)


def new_profile(name: str, base: str, paths: Paths) -> None:
    """Write a profile that extends `base` and print its path. Raises UsageError, or StoreError when it is there."""
    check_name(name)
    profiles.load(base, paths)
    path = paths.profiles / f"{name}.toml"
    make_folder(path.parent)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(NEW.format(base=base))
    except FileExistsError as error:
        raise StoreError(f"{path} is there already.", "", "Edit it, or choose another name.") from error
    except OSError as error:
        step = "Make room or the folder writable, or set FADER_HOME to one that is."
        raise StoreError(f"Cannot write {path}: {error.strerror or error}.", "", step) from error
    click.echo(str(path))


def check_name(name: str) -> None:
    """Raise BadValue for what cannot be a profile's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) or name.endswith(".toml"):
        raise BadValue(
            f"{name!r} cannot be a profile's name.",
            "",
            "Use letters, digits, '-', '_' and '.', without the ending .toml.",
        )
