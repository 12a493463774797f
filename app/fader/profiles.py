"""Profiles: TOML files that say which model, which context, and where every switch and setting stands.

Knows files and names, not what plugins do with their settings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import fader_profiles
import msgspec
from fader_backends.base import Scalar
from fader_backends.errors import BadValue, UnknownName
from fader_plugins.turn import Settings
from msgspec import Meta

from .paths import Paths
from .toml_source import read_toml, where

DEFAULT = "default"
NOT_WRITTEN = ("name", "sources")
"""Fields of `Profile` that no file may set."""


class ContextTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[context]` table; fields as in `ContextSpec`."""

    length: Annotated[int, Meta(ge=0)] = 0
    rows: Annotated[int, Meta(ge=1)] = 4
    batch: Annotated[int, Meta(ge=1)] = 512
    threads: Annotated[int, Meta(ge=0)] = 0
    options: dict[str, Scalar] = {}


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One profile after `extends` is resolved."""

    name: str = ""
    summary: str = ""
    backend: str = "llama.cpp"
    model: str = ""
    """A path or a known name; empty means the embedded model."""
    template: str = ""
    system: str = ""
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    stop: list[str] = []
    chunk: Annotated[int, Meta(ge=1)] = 256
    """Prompt tokens evaluated between two looks at the stop key."""
    context: ContextTable = ContextTable()
    load: dict[str, Scalar] = {}
    """Backend options that need a reload."""
    gates: list[str] = []
    """Limits that `fader bench` holds results against, such as `ttft_p95 <= 300 ms`."""
    watch: list[str] = []
    """Limits that the running chat is held against, such as `itl_p95 <= 60 ms over 100 tokens`."""
    record_mib: Annotated[int, Meta(ge=0)] = 16
    """MiB that the events of the last turns of all chats may take; 0 keeps none."""
    plugins: dict[str, dict[str, Any]] = {}
    """Per plugin: `on`, and its settings."""
    sources: tuple[str, ...] = ()
    """The files it came from, the one that others extend first."""


def load(name_or_path: str, paths: Paths) -> Profile:
    """Return a profile by name or by path. Raises UnknownName or BadValue with file and line."""
    chain = _chain(path_of(name_or_path or DEFAULT, paths), paths)
    return resolve(chain)


def resolve(chain: list[Path]) -> Profile:
    """Return the profile that files make, each extending the one before it."""
    data: dict[str, Any] = {}
    for path in chain:
        table = read_toml(path)
        _check(table, Profile, path, ())
        table.pop("extends", None)
        if path != chain[-1]:
            table.pop("summary", None)
        data = _merged(data, table)
    return msgspec.convert({**data, "name": chain[-1].stem, "sources": [str(path) for path in chain]}, Profile)


def names(paths: Paths) -> list[str]:
    """Return the names of all profiles, sorted."""
    return sorted({path.stem for folder in (_built_in(), paths.profiles) for path in folder.glob("*.toml")})


def path_of(name: str, paths: Paths) -> Path:
    """Return the file of a profile: a path as it is, else the user's folder before the built-in ones."""
    if name.endswith(".toml") or "/" in name or "\\" in name:
        return Path(name).expanduser().absolute()
    for folder in (paths.profiles, _built_in()):
        if (path := folder / f"{name}.toml").is_file():
            return path
    raise UnknownName("profile", name, names(paths))


def is_built_in(path: Path) -> bool:
    """Whether the file ships with Fader."""
    return path.parent == _built_in()


def check_plugins(profile: Profile, known: Mapping[str, type[Settings]], broken: Collection[str] = ()) -> None:
    """Check the plugin tables against the plugins' settings types. Raises UnknownName or BadValue with file and line.

    Plugins in `broken` are passed over: a plugin that cannot be loaded must not stop the start.
    """
    for plugin, table in profile.plugins.items():
        if plugin in broken:
            continue
        if plugin not in known:
            raise UnknownName("plugin", plugin, known, _source(profile, "plugins", plugin))
        hints = {"on": bool, **get_type_hints(known[plugin], include_extras=True)}
        for key, value in table.items():
            if key not in hints:
                raise UnknownName(f"setting of plugin {plugin!r}", key, hints, _source(profile, "plugins", plugin, key))
            try:
                msgspec.convert(value, hints[key])
            except msgspec.ValidationError as error:
                place = _source(profile, "plugins", plugin, key)
                raise BadValue(f"{place}: {plugin}.{key} = {value!r}: {reason(error)}.") from error


def reason(error: msgspec.ValidationError) -> str:
    """Return what msgspec says without its own way of naming the place."""
    text = str(error).split(" - at `")[0].replace("`", "")
    return text[:1].lower() + text[1:]


def _built_in() -> Path:
    return Path(fader_profiles.__file__).parent


def _chain(path: Path, paths: Paths) -> list[Path]:
    """Return `path` and everything it extends, the root first."""
    chain = [path]
    while (base := read_toml(chain[0]).get("extends")) is not None:
        place = where(chain[0], ("extends",))
        if not isinstance(base, str):
            raise BadValue(f"{place}: extends must be the name of a profile, not {base!r}.")
        found = _base(base, chain[0], paths, place)
        if found in chain:
            circle = " → ".join(step.stem for step in [*reversed(chain[: chain.index(found) + 1]), found])
            raise BadValue(f"{place}: extends goes in a circle: {circle}.", "", "Remove one extends.")
        chain.insert(0, found)
    return chain


def _base(name: str, child: Path, paths: Paths, place: str) -> Path:
    if name == child.stem and not is_built_in(child):
        # A user's "default" that extends "default" means the one that ships.
        shipped = _built_in() / f"{name}.toml"
        if shipped.is_file():
            return shipped
    if name.endswith(".toml"):
        return (child.parent / Path(name).expanduser()).absolute()
    try:
        return path_of(name, paths)
    except UnknownName as error:
        raise UnknownName("profile", name, names(paths), place) from error


def _check(table: Mapping[str, Any], kind: type[msgspec.Struct], path: Path, at: tuple[str, ...]) -> None:
    """Check one table of a file against a struct, so that a fault names its line."""
    hints = get_type_hints(kind, include_extras=True)
    known = {name: hint for name, hint in hints.items() if at or name not in NOT_WRITTEN}
    for key, value in table.items():
        if key == "extends" and not at:
            continue
        if key not in known:
            shown = f"key in [{'.'.join(at)}]" if at else "key"
            options = [*known] if at else [*known, "extends"]
            raise UnknownName(shown, key, options, where(path, (*at, key)))
        hint = known[key]
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and isinstance(value, Mapping):
            _check(value, hint, path, (*at, key))
            continue
        for part, item, expected in _parts(value, hint):
            try:
                msgspec.convert(item, expected)
            except msgspec.ValidationError as error:
                place = where(path, (*at, key, *part))
                raise BadValue(f"{place}: {'.'.join((*at, key, *part))} = {item!r}: {reason(error)}.") from error


def _parts(value: Any, hint: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield what is checked by itself: the values of a table each, anything else as a whole."""
    if get_origin(hint) is dict and isinstance(value, Mapping):
        for key, item in value.items():
            yield (key,), item, get_args(hint)[1]
    else:
        yield (), value, hint


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _source(profile: Profile, *key: str) -> str:
    """Return file and line of the file that had the last word on `key`."""
    for source in reversed(profile.sources):
        place = where(Path(source), key)
        if place != source:
            return place
    return f"profile {profile.name!r}"
