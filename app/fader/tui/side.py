"""`Side`: the rack and the numbers, and what throwing a switch does to both.

Knows the switchboard and readings; whether it stands beside the transcript or over it is the style sheet's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fader_backends.errors import BadValue
from fader_plugins.turn import Numbers, Reading
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from . import desk
from .compare import Comparison
from .contain import contained
from .flow import clean
from .overlay import Overlay
from .rack import Rack

if TYPE_CHECKING:
    from fader_plugins.calls import Hooks

    from ..metrics import Stats
    from ..switchboard import Switchboard

HINT = "F2 brings the keys here. Each switch and setting then says here what it does, and when a change acts."
HEADING = "Rack        Space on/off  ←→ set  ⏎ type"


class Side(Vertical):
    """The column with rack and numbers. Empty until `open`."""

    def __init__(
        self,
        changed: Callable[[], None],
        adjusted: Callable[[str, str], None],
        thrown: Callable[[str, Any, Any], None] = lambda *_: None,
    ) -> None:
        super().__init__(id="side")
        self.changed = changed
        """Called after a switch or setting was changed."""
        self.adjusted = adjusted
        """Called with plugin and key after a setting was changed."""
        self.thrown = thrown
        """Called with `plugin` or `plugin.key`, and its value before and after, when it was changed."""
        self.board: Switchboard | None = None
        self.comparison = Comparison()
        self.faults: dict[str, str] = {}
        self.folded: frozenset[str] = frozenset()
        self.hooks: Hooks | None = None
        self.rack = Rack()
        self.overlay = Overlay()

    def compose(self) -> ComposeResult:
        """Rack above, numbers below."""
        with Vertical(id="rack-part"):
            yield Static(HEADING, classes="heading", markup=False)
            yield self.rack
            yield Static("", id="rack-help", markup=False)
        with Vertical(id="numbers-part"):
            yield Static("Numbers    F5 breakdown".ljust(29) + "since switch", classes="heading", markup=False)
            yield self.overlay

    def open(self, board: Switchboard) -> None:
        """Show the switches of this board."""
        self.board = board
        self.folded = desk.long_ones(board)
        self.hooks = None
        self.refresh_rack()

    def refresh_rack(self) -> None:
        """Draw the rack as the switches stand."""
        if self.board is not None:
            self.rack.show(desk.lines(self.board, self.faults, self.folded))

    def fault(self, plugin: str, hook: str, detail: str) -> None:
        """Note that a plugin failed: it is named in the rack and left out from now on."""
        self.faults[plugin] = f"{hook}: {detail}"
        self.refresh_rack()

    # --- switches -----------------------------------------------------------------------------------------------------

    def throw(self, name: str, on: bool) -> None:
        """Throw a switch. Raises FaderError."""
        board = self._board()
        if on and (why := self._reason(name)) is not None:
            raise BadValue(f"Plugin {name!r} cannot be used.", why)
        before = board.states[name].on if name in board.states else None
        board.switch(name, on)
        self.thrown(name, before, on)
        self._acted()

    def set_value(self, name: str, key: str, value: Any, live: bool = True) -> None:
        """Change a setting; not `live`: a running reply goes on without it. Raises FaderError."""
        board = self._board()
        before = board.states[name].settings.get(key) if name in board.states else None
        board.set(name, key, value)
        self.thrown(f"{name}.{key}", before, board.states[name].settings[key])
        self._acted()
        if live:
            self.adjusted(name, key)

    def _acted(self) -> None:
        self.comparison.switched()
        self.hooks = None
        self.refresh_rack()
        self.changed()

    def _reason(self, name: str) -> str | None:
        board = self._board()
        plugin = board.registry.plugins.get(name)
        return desk.reason(board, plugin, self.faults) if plugin else None

    def _board(self) -> Switchboard:
        if self.board is None:
            raise BadValue("Fader is still starting.", "", "Try again in a moment.")
        return self.board

    @contained
    def on_rack_switched(self, event: Rack.Switched) -> None:
        """Throw a switch in the rack."""
        self.throw(event.plugin, event.on)

    @contained
    def on_rack_changed(self, event: Rack.Changed) -> None:
        """Change a setting in the rack."""
        self.set_value(event.plugin, event.key, event.value)

    @contained
    def on_rack_folded(self, event: Rack.Folded) -> None:
        """Hide or show a strip's settings."""
        self.folded ^= {event.plugin}
        self.refresh_rack()

    @contained
    def on_rack_looked(self, event: Rack.Looked) -> None:
        """Explain the row under the cursor, and say what changing it costs before it is changed."""
        help_line = self.query_one("#rack-help", Static)
        if event.line is None or self.board is None:
            # Nothing is planned before somebody looks: planning imports what the plugins need.
            help_line.update(Content.styled(HINT, "dim"))
            return
        text, cost = desk.explain(self.board, event.line)
        parts = [Content(clean(text))]
        if cost:
            parts.append(Content.styled(f" → {cost}", "bold"))
        help_line.update(Content.assemble(*parts))

    # --- numbers ------------------------------------------------------------------------------------------------------

    def readings(self, numbers: Numbers) -> list[Reading]:
        """Return the rows of all plugins that are on."""
        if self.board is None:
            return []
        if self.hooks is None:
            from fader_plugins.calls import Hooks

            enabled = {name for name in self.board.enabled() if name not in self.faults}
            self.hooks = Hooks(self.board.registry, enabled, self.fault)
        return self.hooks.readings(numbers)

    def show_numbers(self, numbers: Numbers, extra: Sequence[Reading], whole: Stats | None) -> None:
        """Draw the numbers. `whole`: their turn if it came to its end, so that later ones are compared with it."""
        readings = [*self.readings(numbers), *difference(numbers), *extra]
        self.overlay.show(readings, self.comparison)
        if whole is not None:
            self.comparison.turned(readings, whole)


def difference(numbers: Numbers) -> list[Reading]:
    """Return what stopped the prompt from being an extension of what was held, in words; nothing when it was one."""
    if numbers.difference is None:
        return []
    found = numbers.difference
    value = f"{found.held.strip()[:16]!r} → {found.wanted.strip()[:16]!r}"
    return [
        Reading(
            key="difference",
            label="differs",
            value=value,
            help="Held text and new text at the first token that differs.",
        )
    ]
