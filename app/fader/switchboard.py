"""Which plugins are on, with which settings, and what changing one would cost; frozen into a draft at sending.

Knows no engine and no screen. Belongs to one thread; a draft taken from it never changes with it.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from fader_backends.base import BackendInfo, ContextSpec, Message, ModelSpec
from fader_backends.errors import BadValue, UnknownName
from fader_plugins.calls import Fault, Hooks
from fader_plugins.registry import Plugin, Registry
from fader_plugins.turn import Cost, PluginState, RequestDraft, Settings

from .profiles import Profile

COSTS: tuple[Cost, ...] = ("live", "turn", "context", "load")
CLOCK = datetime(2000, 1, 1)
"""For drafts that are only compared."""


class Switchboard:
    """Switches and settings of all usable plugins, starting where `profile` puts them.

    Raises UnknownName or BadValue when the profile names what is not there.
    """

    def __init__(self, registry: Registry, profile: Profile, fault: Fault = lambda *_: None) -> None:
        self.registry = registry
        self.profile = profile
        self.fault = fault
        self.states: dict[str, PluginState] = {}
        for plugin in registry.usable():
            self.states[plugin.info.name] = PluginState(plugin.info.on, msgspec.to_builtins(plugin.info.settings()))
        for name, table in profile.plugins.items():
            for key, value in table.items():
                if key == "on":
                    self.switch(name, value)
                else:
                    self.set(name, key, value)
        self._backends: dict[str, BackendInfo] | None = None

    def switch(self, name: str, on: bool) -> None:
        """Turn a plugin on or off."""
        info = self._plugin(name).info
        if not isinstance(on, bool):
            raise BadValue(f"{name}.on = {on!r} is not true or false.")
        if not info.toggle and not on:
            raise BadValue(f"Plugin {name!r} has no switch.", info.summary + ".", "Leave it on.")
        self.states[name] = PluginState(on, self.states[name].settings)

    def set(self, name: str, key: str, value: Any) -> None:
        """Change one setting. A string is read as the setting's type, so that command lines and forms can pass text."""
        kind = self._plugin(name).info.settings
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        if key not in fields:
            raise UnknownName(f"setting of plugin {name!r}", key, fields)
        changed = {**self.states[name].settings, key: value}
        if isinstance(value, str) and value.lower() in ("", "none") and _takes_none(kind, key):
            changed[key] = None
        try:
            typed = msgspec.convert(changed, kind, strict=not isinstance(value, str))
        except msgspec.ValidationError as error:
            raise BadValue(
                f"{name}.{key} = {value!r} cannot be used: {_reason(error)}.", "", range_of(kind, key)
            ) from error
        typed.check()
        self.states[name] = PluginState(self.states[name].on, msgspec.to_builtins(typed))

    def settings(self, name: str) -> Settings:
        """Return a plugin's settings, typed."""
        kind = self._plugin(name).info.settings
        return msgspec.convert(self.states[name].settings, kind)

    def enabled(self) -> frozenset[str]:
        """Return the names of the plugins that are on and not lacking anything."""
        return frozenset(name for name, state in self.states.items() if state.on and self.lacking(name) is None)

    def backends(self) -> dict[str, BackendInfo]:
        """Return the backends that can be chosen; an earlier plugin wins a name."""
        if self._backends is None:
            found = Hooks(self.registry, self.states, self.fault).backends()
            self._backends = {info.name: info for info in reversed(found)}
        return self._backends

    def backend(self) -> BackendInfo:
        """Return the profile's backend. Raises UnknownName."""
        known = self.backends()
        if self.profile.backend not in known:
            raise UnknownName("backend", self.profile.backend, known)
        return known[self.profile.backend]

    def lacking(self, name: str) -> str | None:
        """Return why a plugin cannot work with this backend; None when it can."""
        needs = self._plugin(name).info.needs
        if not needs:
            return None
        backend = self.backend()
        missing = sorted(needs - backend.provides)
        for capability in missing:
            if capability in backend.lacks:
                return backend.lacks[capability]
        return f"the {self.profile.backend} backend cannot {', '.join(missing)}" if missing else None

    def plan(self, owner: str, messages: Sequence[Message], now: datetime) -> RequestDraft:
        """Return the draft of a turn as the switches stand now. Raises FaderError; nothing is changed by it."""
        provides = self.backend().provides
        profile, enabled = self.profile, self.enabled()
        states = {name: PluginState(name in enabled, state.settings) for name, state in self.states.items()}
        draft = RequestDraft(
            owner=owner,
            messages=list(messages),
            model=ModelSpec(
                backend=profile.backend, model=profile.model, template=profile.template, options=dict(profile.load)
            ),
            context=ContextSpec(**msgspec.structs.asdict(profile.context)),
            chunk=profile.chunk,
            max_tokens=profile.max_tokens,
            stop=list(profile.stop),
            now=now,
            profile=profile.name,
            plugins=states,
            provides=provides,
        )
        Hooks(self.registry, enabled, self.fault).plan_request(draft)
        return draft

    def look_ahead(self, draft: RequestDraft, typed: str) -> str | None:
        """Return which part of a text being typed may be evaluated now; None when nobody wants that."""
        return Hooks(self.registry, self.enabled(), self.fault).look_ahead(draft, typed)

    def copy(self) -> Switchboard:
        """Return another one that stands the same; changing it leaves this one alone."""
        twin = Switchboard.__new__(Switchboard)
        twin.__dict__ = {**self.__dict__, "states": dict(self.states)}
        return twin

    def cost_of(self, change: Callable[[Switchboard], None]) -> Cost:
        """Return what `change` would cost, by planning once as things stand and once with it done to a copy."""
        twin = self.copy()
        change(twin)
        before, after = (board.plan("", (), CLOCK) for board in (self, twin))
        if before.model != after.model:
            return "load"
        if before.context != after.context:
            return "context"
        declared = [
            declared_cost(self._plugin(name).info.settings, key)
            for name in twin.states
            if twin.states[name].on == self.states[name].on
            for key, value in twin.states[name].settings.items()
            if value != self.states[name].settings[key]
        ]
        switched = any(twin.states[name].on != self.states[name].on for name in twin.states)
        return "live" if declared and not switched and set(declared) == {"live"} else "turn"

    def to_profile(self, name: str, summary: str = "") -> Profile:
        """Return the switches as they stand as a profile of that name."""
        tables = {
            name: {"on": state.on, **state.settings}
            for name, state in self.states.items()
            if self._plugin(name).info.toggle
        }
        return msgspec.structs.replace(self.profile, name=name, summary=summary, plugins=tables)

    def _plugin(self, name: str) -> Plugin:
        plugin = self.registry.plugins.get(name)
        if plugin is None:
            raise UnknownName("plugin", name, self.registry.plugins)
        if plugin.problem is not None:
            raise BadValue(f"Plugin {name!r} could not be loaded.", plugin.problem, "Mend or remove it.")
        return plugin


def declared_cost(kind: type[Settings], key: str) -> Cost:
    """Return the cost a setting declares."""
    for meta in _metas(kind, key):
        cost = (meta.extra or {}).get("cost")
        if cost in COSTS:
            return typing.cast("Cost", cost)
    return "turn"


def range_of(kind: type[Settings], key: str) -> str:
    """Return a sentence on what values a setting takes; empty when it declares nothing."""
    for meta in _metas(kind, key):
        low, high = meta.ge, meta.le
        if low is not None and high is not None:
            return f"Use a value from {low:g} to {high:g}."
        if low is not None:
            return f"Use a value of at least {low:g}."
    return ""


def _metas(kind: type[Settings], key: str) -> list[msgspec.Meta]:
    hint = typing.get_type_hints(kind, include_extras=True)[key]
    parts = [hint, *typing.get_args(hint)]  # `Annotated[float, meta]` and `Annotated[float, meta] | None`
    return [meta for part in parts for meta in getattr(part, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]


def _takes_none(kind: type[Settings], key: str) -> bool:
    hint = typing.get_type_hints(kind)[key]
    return type(None) in typing.get_args(hint)


def _reason(error: msgspec.ValidationError) -> str:
    return str(error).split(" - at ")[0].replace("`", "")
