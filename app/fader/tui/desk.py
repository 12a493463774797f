"""What the rack shows, as rows: for each plugin its switch, its summary, why it cannot be used, and its settings.

Knows the switchboard, not the screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from fader_backends.errors import FaderError
from fader_plugins.turn import Cost

from .fields import Field, fields

if TYPE_CHECKING:
    from fader_plugins.registry import Plugin

    from ..switchboard import Switchboard

WHEN: dict[Cost, str] = {
    "live": "at once",
    "turn": "from the next turn on",
    "context": "next turn, in a new context: all is evaluated again",
    "load": "next turn, after the model is loaded again",
}
"""When a change acts, in words."""


FIRST = 6
"""Settings of a folded plugin that are shown in any case."""
MANY = 10
"""A plugin with more settings begins folded."""


def long_ones(board: Switchboard) -> frozenset[str]:
    """Return the plugins whose forms are so long that they begin folded."""
    return frozenset(plugin.info.name for plugin in board.registry.usable() if len(fields(plugin.info.settings)) > MANY)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the rack."""

    kind: Literal["switch", "summary", "reason", "setting", "gap"]
    plugin: str = ""
    text: str = ""
    on: bool = False
    usable: bool = True
    """False: greyed out."""
    toggle: bool = True
    field: Field | None = None
    value: Any = None
    changed: bool = False
    """Whether the value differs from the plugin's default."""
    acting: Any = None
    """What the value comes to: an empty one stands for something else."""

    @property
    def reachable(self) -> bool:
        """Whether the cursor may stand here."""
        return self.kind in ("switch", "setting")


def lines(board: Switchboard, faults: dict[str, str], folded: frozenset[str]) -> list[Line]:
    """Return all rows. `faults`: what went wrong with plugins since the start; `folded`: whose settings are few.

    Folded, a plugin shows its first settings and those that differ from their default.
    """
    found: list[Line] = []
    for plugin in board.registry.plugins.values():
        name, info = plugin.info.name, plugin.info
        if not info.toggle and plugin.problem is None:
            continue
        state = board.states.get(name)
        why = reason(board, plugin, faults)
        on = state.on if state else False
        usable = why is None
        found.append(Line(kind="switch", plugin=name, text=name, on=on, usable=usable, toggle=info.toggle))
        if why is None:
            more = f"⏎ all {len(fields(info.settings))} settings · " if name in folded else ""
            found.append(Line(kind="summary", plugin=name, text=more + info.summary, on=on))
        else:
            found.append(Line(kind="reason", plugin=name, text=why, usable=False))
        if state is not None:
            acting = board.settings(name).effective()
            for place, field in enumerate(fields(info.settings)):
                value = state.settings.get(field.name)
                changed = value != field.default
                if name in folded and place >= FIRST and not changed:
                    continue
                found.append(
                    Line(
                        kind="setting",
                        plugin=name,
                        text=field.name.replace("_", " "),
                        on=on,
                        usable=usable,
                        field=field,
                        value=value,
                        changed=changed,
                        acting=acting.get(field.name),
                    )
                )
        found.append(Line(kind="gap"))
    return found


def reason(board: Switchboard, plugin: Plugin, faults: dict[str, str]) -> str | None:
    """Return why a plugin cannot be used now; None when it can."""
    name = plugin.info.name
    if plugin.problem is not None:
        return plugin.problem
    if name in faults:
        return faults[name]
    try:
        return board.lacking(name)
    except FaderError as error:
        return str(error)


def cost(board: Switchboard, line: Line) -> str:
    """Return in words when a change of this row would act, found by planning once with it done."""
    name, field = line.plugin, line.field
    try:
        if field is None:
            return WHEN[board.cost_of(lambda twin: twin.switch(name, not line.on))]
        if not line.on:
            return "once it is on, " + WHEN["turn" if field.cost == "live" else field.cost]
        other = field.stepped(line.acting, 1)
        other = field.stepped(line.acting, -1) if other == line.acting else other
        if other == line.acting:
            return WHEN[field.cost]
        return WHEN[board.cost_of(lambda twin: twin.set(name, field.name, other))]
    except FaderError as error:
        return f"cannot be planned: {error}"


def explain(board: Switchboard, line: Line) -> tuple[str, str]:
    """Return what a row is about, and when a change of it would act."""
    if line.kind == "switch":
        plugin = board.registry.plugins[line.plugin]
        if not line.usable:
            return plugin.info.summary, ""
        origin = "" if plugin.origin == "built in" else f" From {plugin.origin}."
        return f"{plugin.info.summary}.{origin}", f"switching it {'off' if line.on else 'on'} acts {cost(board, line)}"
    field = line.field
    if field is None:
        return "", ""
    bounds = f" {field.low:g} to {field.high:g}." if field.low is not None and field.high is not None else ""
    default = f" Default {field.shown(field.default)}."
    return f"{field.help}.{bounds}{default}", f"acts {cost(board, line)}" if line.usable else ""
