"""Writing profiles: only what differs, in one step, with the old file kept.

Knows TOML files and the profile structs, not where the values come from.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from fader_backends.errors import StoreError
from fader_plugins.turn import PluginInfo

from .paths import make_folder
from .profiles import NOT_WRITTEN, Profile, is_built_in, resolve


def save(profile: Profile, path: Path, plugins: Mapping[str, PluginInfo] = {}) -> None:
    """Write `profile` to `path`: what differs from the profile it was made from, which it then extends.

    Saved over its own file it keeps extending what that file extended. Settings that stand at the defaults of
    `plugins` are left out. An existing file is kept as `<name>.bak` (comments in it are not carried over).
    Raises StoreError.
    """
    import tomli_w

    path = path.absolute()
    text = tomli_w.dumps(_difference(profile, path, plugins))
    make_folder(path.parent)
    fresh = path.with_name(path.name + ".new")
    try:
        with fresh.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copy2(path, path.with_name(path.name + ".bak"))
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        step = "Make room or the folder writable, or save under another path."
        raise StoreError(f"Cannot write {path}: {error.strerror or error}.", "", step) from error


def _difference(profile: Profile, path: Path, plugins: Mapping[str, PluginInfo]) -> dict[str, Any]:
    chain = [Path(source) for source in profile.sources]
    if chain and chain[-1] == path:
        chain.pop()
    wanted = _plain(profile, plugins)
    if chain and all(file.is_file() for file in chain):
        base = {**_plain(resolve(chain), plugins), "summary": ""}  # a summary is not inherited
        table = _changes(base, wanted)
        if table is not None:
            return {"extends": _name_of(chain[-1], path), **table}
    return _changes(_plain(Profile(), plugins), wanted) or {}


def _plain(profile: Profile, plugins: Mapping[str, PluginInfo]) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(profile)
    full = {name: {"on": info.on, **msgspec.to_builtins(info.settings())} for name, info in plugins.items()}
    tables = {name: {**full.get(name, {}), **profile.plugins.get(name, {})} for name in {**full, **profile.plugins}}
    return {**{key: value for key, value in data.items() if key not in NOT_WRITTEN}, "plugins": tables}


def _changes(base: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what must be said to get from `base` to `wanted`; None where TOML cannot say it (nothing unsets a key)."""
    if any(key not in wanted for key in base):
        return None
    table: dict[str, Any] = {}
    for key, value in wanted.items():
        old = base.get(key)
        if isinstance(value, Mapping):
            inner = _changes(old if isinstance(old, Mapping) else {}, value)
            if inner is None:
                return None
            if inner or key not in base:
                table[key] = inner
        elif value is None:
            if old is not None:
                return None
        elif key not in base or type(value) is not type(old) or value != old:
            table[key] = value
    return table


def _name_of(base: Path, child: Path) -> str:
    """Return how `child` names `base`: by name where that finds it, else by path."""
    if is_built_in(base):
        shadow = child.with_name(base.name)
        return base.stem if shadow == child or not shadow.exists() else str(base)
    return base.stem if base.parent == child.parent and base != child else str(base)
