"""What a column changes, as `name=value` words, and sweeps that make several columns at once.

Knows switchboards and profiles, not how a column is run.

    temperature=1.2 min_p=0.1     settings of the sampler, by their name alone
    kv_cache.type_k=q8_0          any plugin's setting
    prompt_lookup=on              a switch
    profile=exact  preset=FILE    everything from a profile; the sampler from another program's preset
    model=FILE  max_tokens=200    of the profile
"""

from __future__ import annotations

import re
import shlex
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from fader_backends.errors import BadValue, UnknownName, UsageError

from ..profiles import Profile
from ..switchboard import Switchboard

MOST = 8
"""Columns of one comparison."""
SAMPLER = "sampler"
BASES = ("profile", "preset")
"""Changes that come before all others, in this order."""
FIELDS = ("backend", "model", "max_tokens")
"""Keys of a profile that a column may change."""
_SWEEP = re.compile(r"(?P<name>[\w.]+)\s+(?:(?P<low>\S+?)\.\.(?P<high>\S+)\s+)?[x×*]\s*(?P<count>\d+)\Z")
_LIST = re.compile(r"(?P<name>[\w.]+)\s+(?P<values>\S+(?:\s*,\s*\S+)+)\Z")

Changes = Mapping[str, str]
"""Name as it was written -> value; without entries the column has the settings as they stand."""


class Makers(typing.NamedTuple):
    """How names become what they stand for."""

    profile: Callable[[str], Profile]
    """A profile by name or path. Raises UnknownName, BadValue."""
    located: Callable[[Profile], Profile]
    """The profile with its model as a path. Raises ModelMissing."""


def parse(text: str) -> dict[str, str]:
    """Return the changes that a column's text asks for. Raises BadValue."""
    try:
        words = shlex.split(text.replace("\\", "\\\\"))
    except ValueError as error:
        raise BadValue(f"The column {text!r} cannot be read: {error}.", "", "Close the quotation.") from error
    changes: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise BadValue(f"{word!r} is not name=value.", "", "Write for example temperature=1.2 or prompt_lookup=on.")
        changes.pop(name, None)
        changes[name] = value
    return changes


def title(changes: Changes) -> str:
    """Return a column's title: what it changes."""
    return (
        " ".join(f"{name.removeprefix(f'{SAMPLER}.')}={_quoted(value)}" for name, value in changes.items())
        or "as it is"
    )


def _quoted(value: str) -> str:
    return shlex.quote(value) if re.search(r"\s", value) or not value else value


def sweep(text: str, board: Switchboard, seed: int) -> list[dict[str, str]]:
    """Return the changes of each column of a sweep: `temperature 0.2..1.4 x4`, `top_k 20, 40`, `seed x4`.

    Values of a range are evenly spaced, both ends included; whole where the setting is. Seeds count up from `seed`.
    Raises BadValue, UnknownName.
    """
    example = "Write for example: temperature 0.2..1.4 x4, or seed x4."
    if (listed := _LIST.match(text.strip())) is not None:
        values = [value.strip() for value in listed["values"].split(",")]
        return _counted([{listed["name"]: value} for value in values])
    found = _SWEEP.match(text.strip())
    if found is None:
        raise BadValue(f"The sweep {text!r} cannot be read.", "", example)
    name, count = found["name"].removesuffix("s") if found["name"] == "seeds" else found["name"], int(found["count"])
    if not 2 <= count <= MOST:
        raise BadValue(f"A sweep has 2 to {MOST} columns, not {count}.", "", example)
    if found["low"] is None:
        if name.removeprefix(f"{SAMPLER}.") != "seed":
            raise BadValue(f"The sweep {text!r} names no range.", "Only seeds can do without.", example)
        return [{name: str((seed + step) % 2**64)} for step in range(count)]
    try:
        low, high = float(found["low"]), float(found["high"])
    except ValueError as error:
        raise BadValue(f"{found['low']}..{found['high']} is not a range of numbers.", "", example) from error
    whole = _is_whole(name, board)
    steps = [low + (high - low) * step / (count - 1) for step in range(count)]
    return _counted([{name: str(round(step)) if whole else f"{step:.4g}"} for step in steps])


def _counted(columns: list[dict[str, str]]) -> list[dict[str, str]]:
    if len(columns) > MOST:
        raise BadValue(f"A comparison has at most {MOST} columns, not {len(columns)}.", "", "Leave some out.")
    return columns


def _is_whole(name: str, board: Switchboard) -> bool:
    if name in FIELDS:
        return name == "max_tokens"
    plugin, key = place_of(name, board)
    if not key:
        raise BadValue(f"{name} is a switch: it has no range.", "", f"Write columns {name}=on and {name}=off.")
    hint = typing.get_type_hints(board.registry.plugins[plugin].info.settings)[key]
    return int in (hint, *typing.get_args(hint)) and float not in (hint, *typing.get_args(hint))


def place_of(name: str, board: Switchboard) -> tuple[str, str]:
    """Return (plugin, setting) that a name means; the setting is "" for a plugin's switch. Raises UnknownName."""
    known = {plugin.info.name: plugin.info.settings for plugin in board.registry.usable()}
    if name in known:
        return name, ""
    plugin, dot, key = name.partition(".")
    if dot:
        if plugin not in known:
            raise UnknownName("plugin", plugin, known)
        if key not in known[plugin].__struct_fields__:
            raise UnknownName(f"setting of plugin {plugin!r}", key, known[plugin].__struct_fields__)
        return plugin, key
    owners = [one for one, kind in known.items() if name in kind.__struct_fields__]
    if SAMPLER in owners or len(owners) == 1:
        return (SAMPLER if SAMPLER in owners else owners[0]), name
    if owners:
        step = f"Write {' or '.join(f'{one}.{name}' for one in owners)}."
        raise UsageError(f"{name} is a setting of several plugins.", "", step)
    own = known[SAMPLER].__struct_fields__ if SAMPLER in known else ()
    raise UnknownName("setting", name, [*own, *known, *BASES, *FIELDS])


def board_of(base: Switchboard, changes: Changes, makers: Makers) -> Switchboard:
    """Return a switchboard as `base` stands, but for the changes. Raises FaderError; `base` stays as it is."""
    if "profile" in changes:
        profile = makers.located(makers.profile(changes["profile"]))
        board = Switchboard(base.registry, profile, base.fault)
    else:
        board = base.copy()
    if "preset" in changes:
        _use_preset(board, Path(changes["preset"]).expanduser())
    for name, value in changes.items():
        if name in FIELDS:
            board.profile = _with_field(board.profile, name, value)
        elif name not in BASES:
            _change(board, name, value)
    if any(name in FIELDS for name in changes):
        board.backend()
        board.profile = makers.located(board.profile)
    return board


def _change(board: Switchboard, name: str, value: str) -> None:
    plugin, key = place_of(name, board)
    if key:
        if (plugin, key) == (SAMPLER, "temperature"):
            board.switch(SAMPLER, True)  # as --temp does: without a sampler there is no temperature
        board.set(plugin, key, value)
        return
    if value.lower() not in ("on", "off"):
        raise BadValue(f"{name}={value}: a switch is on or off.", "", f"Write {name}=on or {name}=off.")
    board.switch(plugin, value.lower() == "on")


def _with_field(profile: Profile, name: str, value: str) -> Profile:
    given: Any = value
    if name == "max_tokens":
        if not value.isdecimal() or not int(value):
            raise BadValue(
                f"max_tokens={value}: it is a whole number above 0.", "", "Write for example max_tokens=200."
            )
        given = int(value)
    return msgspec.structs.replace(profile, **{name: given})


def _use_preset(board: Switchboard, path: Path) -> None:
    from .. import presets

    found = presets.read(path)
    board.switch(SAMPLER, True)
    for key in board.states[SAMPLER].settings:
        if key != "seed":
            board.set(SAMPLER, key, None if key != "base" else "neutral")
    for key, value in found.sampler.items():
        board.set(SAMPLER, key, value)


def shown(name: str, board: Switchboard) -> str:
    """Return what a named thing is in a column, as text for the grid."""
    if name == "profile":
        return board.profile.name or "default"
    if name == "preset":
        return ""
    if name in FIELDS:
        value = getattr(board.profile, name)
        return Path(value).name if name == "model" and value else "—" if value in (None, "") else str(value)
    plugin, key = place_of(name, board)
    if not key:
        return "on" if board.states[plugin].on else "off"
    value = board.settings(plugin).effective()[key]
    return "—" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def lacking(changes: Changes, board: Switchboard) -> str:
    """Return which changes do nothing in this column, because its backend cannot; empty when all act."""
    plugins = {place_of(name, board)[0] for name in changes if name not in (*BASES, *FIELDS)}
    reasons = {plugin: board.lacking(plugin) for plugin in sorted(plugins)}
    return "; ".join(f"{plugin} does nothing here: {why}" for plugin, why in reasons.items() if why is not None)
