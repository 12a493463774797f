"""The sheet behind "since switch": the parts of TTFT and of a decode step, before the last switch was thrown and now.

Knows two turns and how to show parts of them; the parts are `fader.lab.breakdown`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fader_backends.errors import FaderError
from rich.table import Table
from rich.text import Text

from ..lab import breakdown
from ..lab.experiment import valued
from ..lab.method import flat
from ..metrics import Stats
from .flow import clean
from .screens import HelpScreen

if TYPE_CHECKING:
    from ..lab.values import Part
    from .evidence import Evidence

SHOWN = 6
"""Differences that are named; more are counted."""


class Row(NamedTuple):
    """One line of the table: a heading where there is nothing but a name."""

    name: str
    before: str = ""
    now: str = ""
    change: str = ""


def opened(app: Evidence) -> None:
    """Open the sheet. Raises FaderError where there are no two turns to compare."""
    comparison = app.side.comparison
    before, now = comparison.pair if app.viewed is None else (comparison.turn_before, app.viewed.stats)
    if before is None or now is None:
        step = "Send a message, throw a switch (F2), and send again (/regen asks the same)."
        raise FaderError("There is no turn before a switch and one after it yet.", "", step)
    app.push_screen(BreakdownScreen(before, now))


class BreakdownScreen(HelpScreen):
    """Two turns, part by part."""

    def __init__(self, before: Stats, now: Stats) -> None:
        super().__init__([])
        self.before = before
        self.now = now

    def _text(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(max_width=34)
        for _ in range(3):
            table.add_column(justify="right", no_wrap=True)
        for row in rows(self.before, self.now):
            style = "dim" if row.before or row.now else "bold"
            table.add_row(Text(row.name, style), Text(row.before, "dim"), Text(row.now), Text(row.change))
        outer = Table.grid()
        for title, said in notes(self.before, self.now):
            outer.add_row(Text(title, "bold"))
            outer.add_row(Text(said, "dim"))
            outer.add_row()
        outer.add_row(table)
        return outer


def rows(before: Stats, now: Stats) -> list[Row]:
    """Return the table: TTFT with its parts, a decode step with its parts, and what went through."""
    parts = breakdown.between(before, now)
    a, b = before.numbers(), now.numbers()
    found = [Row("", "before", "now", "change")]
    found += [_row("TTFT", a.ttft_ms, b.ttft_ms), *_parts(parts, "ttft")]
    found += [Row(""), _row("TPOT", a.tpot_ms, b.tpot_ms), *_parts(parts, "step"), Row("")]
    for name, key in (
        ("prompt tokens", "prompt_tokens"),
        ("reused", "reused_tokens"),
        ("reply tokens", "output_tokens"),
    ):
        found.append(_row(name, getattr(a, key), getattr(b, key), ""))
    return found


def _parts(parts: Sequence[Part], whole: str) -> list[Row]:
    return [
        _row(f"  {one.name}", one.a, one.b, "ms" if one.unit == "ms" else "") for one in parts if one.whole == whole
    ]


def _row(name: str, a: float | None, b: float | None, unit: str = "ms") -> Row:
    change = "" if a is None or b is None else f"{b - a:+,.{_digits(b - a, unit)}f} {unit}".rstrip()
    return Row(name, _shown(a, unit), _shown(b, unit), change)


def _shown(value: float | None, unit: str) -> str:
    return "—" if value is None else f"{value:,.{_digits(value, unit)}f} {unit}".rstrip()


def _digits(value: float, unit: str) -> int:
    if not unit:
        return 0 if value == int(value) else 2
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def notes(before: Stats, now: Stats) -> list[tuple[str, str]]:
    """Return what changed between the two turns, and what must be said of comparing them."""
    old, new = flat(before.request), flat(now.request)
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    own = [
        key for key in keys if "." not in key or key.partition(".")[0] not in keys
    ]  # a switch takes its settings along
    changed = [f"{key} {valued(old.get(key))} → {valued(new.get(key))}" for key in own]
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    title = clean(", ".join(changed[:SHOWN])) + more or "no setting that a request tells"
    said = "One turn against one turn: it shows where time went, not whether it will again (fader bench measures that)."
    if before.request.messages != now.request.messages:
        said += " The two were asked different things: /regen after a switch asks the same again."
    return [(f"Before and after: {title}", said)]
