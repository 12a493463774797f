"""What is compared: two switchboards, what differs between them, and the one-variable rule.

Knows profiles and switchboards; runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from fader_backends.errors import BadValue, UnknownName, UsageError

from .. import models
from ..compare import spec
from ..profiles import ContextTable, Profile, reason
from ..switchboard import Switchboard
from .evidence import Side, Variable
from .placeless import placeless
from .workload import Workload

PLAIN_FIELDS = ("backend", "model", "template", "system", "max_tokens", "stop", "chunk")
"""Keys of a profile that are compared by themselves; tables are compared key by key."""
TABLES = ("context", "load")
NEEDS_NO_MENTION = ("max_tokens", "stop")
"""What a workload sets itself, for replies of fixed length."""
DISK = ("prefix_cache", "disk_mib")
CLOCK = datetime(2026, 1, 1)
"""The time the chat template sees, so that a date cannot change a prompt."""


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A workload on one side or two."""

    workload: Workload
    boards: dict[Side, Switchboard]
    """a, and b where something is compared."""
    variables: tuple[Variable, ...]
    seed: int
    rounds: int
    aa_rounds: int
    """0 where nothing is compared."""
    many: bool = False
    """Whether more than one variable was asked for."""
    notes: tuple[str, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the rounds, in order; both sides and both phases use the same."""
        return tuple(self.seed + number for number in range(max(self.rounds, self.aa_rounds)))

    @property
    def title(self) -> str:
        """One line: the workload and what is compared on it."""
        if not self.variables:
            return f"{self.workload.name} on {self.boards['a'].profile.name or 'default'}"
        return f"{self.workload.name}: {', '.join(map(worded, self.variables))}"


def build(
    workload: Workload,
    base: Switchboard,
    changes: Sequence[str],
    makers: spec.Makers,
    *,
    both: Sequence[str] = (),
    many: bool = False,
    seed: int = 1,
    rounds: int | None = None,
    aa_rounds: int | None = None,
) -> Experiment:
    """Return what is to be run: `base`, and beside it `base` with `changes`. `both` are changes of both sides.

    Raises UsageError where the changes come to no difference, or to more than one that nobody asked for, FaderError for
    settings that cannot be meant.
    """
    a = base.copy()
    for name, value in workload.settings.items():
        change(a, name, _text(value), makers)
    for word in both:
        a = changed(a, word, makers)
    notes = _without_disk(a, changes)
    boards: dict[Side, Switchboard] = {"a": a}
    variables: tuple[Variable, ...] = ()
    if changes:
        b = a
        for word in changes:
            b = changed(b, word, makers)
        if not any(word.partition("=")[0].strip() == ".".join(DISK) for word in changes):
            _without_disk(b, changes)
        boards["b"] = b
        variables = differences(a, b)
        _check(variables, many)
        for side, board in boards.items():
            notes += _lacking(side, board, variables)
    for board in boards.values():
        board.plan("check", (), CLOCK)  # refuses what cannot be planned
    rounds = rounds or workload.rounds
    return Experiment(
        workload=workload,
        boards=boards,
        variables=variables,
        seed=seed,
        rounds=rounds,
        aa_rounds=(rounds if aa_rounds is None else aa_rounds) if changes else 0,
        many=len(variables) > 1,
        notes=tuple(notes),
    )


def _check(variables: Sequence[Variable], many: bool) -> None:
    if not variables:
        raise UsageError(
            "The change comes to no difference: both sides have the same settings.",
            "",
            "Name a value that the baseline does not have.",
        )
    if len(variables) > 1 and not many:
        listed = ", ".join(map(worded, variables))
        raise UsageError(
            f"More than one setting differs: {listed}.",
            "What a figure is due to could not be told.",
            "Leave one, or add --allow-many, which marks the report.",
        )


def changed(board: Switchboard, word: str, makers: spec.Makers) -> Switchboard:
    """Return another switchboard with one change: `plugin.key=value`, `plugin=off`, `context.threads=1`, a profile's name.

    Raises FaderError.
    """
    name, equals, value = (part.strip() for part in word.partition("="))
    if not equals and (parts := word.split()) and len(parts) == 2 and parts[1].lower() in ("on", "off"):
        name, equals, value = parts[0], "=", parts[1]
    if not equals:
        return spec.board_of(board, {"profile": word.strip()}, makers)
    twin = board.copy()
    if name == "profile":
        return spec.board_of(board, {"profile": value}, makers)
    change(twin, name, value, makers)
    return twin


def change(board: Switchboard, name: str, value: str, makers: spec.Makers) -> None:
    """Change one setting in place. Raises FaderError."""
    table, dot, key = name.partition(".")
    if dot and table in TABLES:
        board.profile = _with_entry(board.profile, table, key, value)
    elif name in ("chunk", "system", "template"):
        board.profile = _converted(board.profile, name, value)
    else:
        made = spec.board_of(board, {name.removesuffix(".on"): _switch(name, value)}, makers)
        board.profile, board.states = made.profile, made.states


def _switch(name: str, value: str) -> str:
    return {"true": "on", "false": "off"}.get(value.lower(), value) if name.endswith(".on") else value


def _with_entry(profile: Profile, table: str, key: str, value: str) -> Profile:
    old: Any = getattr(profile, table)
    if table == "load":
        return msgspec.structs.replace(profile, load={**old, key: _scalar(value)})
    if key.startswith("options."):
        options = {**old.options, key.removeprefix("options."): _scalar(value)}
        return msgspec.structs.replace(profile, context=msgspec.structs.replace(old, options=options))
    known = [name for name in ContextTable.__struct_fields__ if name != "options"]
    if key not in known:
        raise UnknownName("key in [context]", key, [*known, "options.…"])
    data = {**msgspec.to_builtins(old), key: value}
    return msgspec.structs.replace(profile, context=_convert(data, ContextTable, f"context.{key}", value))


def _converted(profile: Profile, name: str, value: str) -> Profile:
    made: Profile = _convert({**msgspec.to_builtins(profile), name: value}, Profile, name, value)
    return made


def _convert(data: Any, kind: Any, name: str, value: str) -> Any:
    try:
        return msgspec.convert(data, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadValue(f"{name} = {value!r} cannot be used: {reason(error)}.") from error


def _scalar(text: str) -> bool | int | float | str:
    """Return what a word means where any scalar may stand, as TOML would read it."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without_disk(board: Switchboard, changes: Sequence[str]) -> list[str]:
    """Keep prefixes of earlier runs out: what is on the disk from before would make a cold prompt warm."""
    plugin, key = DISK
    wanted = any(word.partition("=")[0].strip() == f"{plugin}.{key}" for word in changes)
    if wanted or plugin not in board.states or not board.states[plugin].settings.get(key):
        return []
    board.set(plugin, key, 0)
    return [f"{plugin}.{key} is 0 on both sides, so that nothing kept by earlier runs is used"]


def _lacking(side: Side, board: Switchboard, variables: Sequence[Variable]) -> list[str]:
    plugins = {variable.key.partition(".")[0] for variable in variables} & set(board.states)
    reasons = {plugin: board.lacking(plugin) for plugin in sorted(plugins)}
    return [f"{plugin} does nothing on side {side}: {why}" for plugin, why in reasons.items() if why is not None]


def differences(a: Switchboard, b: Switchboard) -> tuple[Variable, ...]:
    """Return every setting that differs. Settings of a plugin that is off on both sides do not count."""
    before, after = settings(a), settings(b)
    found = []
    for key in sorted({*before, *after}):
        plugin, dot, _ = key.partition(".")
        idle = dot and plugin in a.states and not (a.states[plugin].on or b.states[plugin].on)
        if not idle and before.get(key) != after.get(key):
            found.append(Variable(key=key, before=placeless(before.get(key)), after=placeless(after.get(key))))
    return tuple(found)


def settings(board: Switchboard) -> dict[str, Any]:
    """Return all settings by dotted key, as plain data; a plugin's own name is its switch."""
    profile = board.profile
    flat: dict[str, Any] = {
        name: _shown(name, getattr(profile, name)) for name in PLAIN_FIELDS if name not in NEEDS_NO_MENTION
    }
    context = msgspec.to_builtins(profile.context)
    options = context.pop("options")
    flat.update({f"context.{key}": value for key, value in context.items()})
    flat.update({f"context.options.{key}": value for key, value in options.items()})
    flat.update({f"load.{key}": value for key, value in profile.load.items()})
    for name, state in board.states.items():
        flat[name] = state.on
        flat.update({f"{name}.{key}": value for key, value in state.settings.items()})
    return flat


def _shown(name: str, value: Any) -> Any:
    return Path(value).name if name == "model" and value else value


def worded(variable: Variable) -> str:
    """Return a variable as `key: before -> after`."""
    return f"{variable.key} {valued(variable.before)} → {valued(variable.after)}"


def valued(value: Any) -> str:
    """Return a value as people write it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "unset" if value in (None, "") else f"{value:g}" if isinstance(value, float) else str(value)


def profile_text(board: Switchboard, name: str) -> str:
    """Return a switchboard as a profile in TOML, whole; its model by name, for folders are nobody's business."""
    import tomli_w

    profile = board.to_profile(name, board.profile.summary)
    data: dict[str, Any] = msgspec.to_builtins(profile)
    data = {**placeless(data), "model": model_name(profile.model)}
    for key in ("name", "sources"):
        data.pop(key)
    return tomli_w.dumps(_written(data))


def model_name(model: str) -> str:
    """Return how another person names a model file: empty for the embedded one."""
    embedded = models.embedded()
    if not model or (embedded is not None and Path(model) == embedded):
        return ""
    return Path(model).stem if model.lower().endswith(".gguf") else str(placeless(model))


def _written(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without what TOML cannot say and what is empty; both mean the default."""
    table = {key: _written(value) if isinstance(value, Mapping) else value for key, value in data.items()}
    return {key: value for key, value in table.items() if value is not None and value not in ("", [], {})}
