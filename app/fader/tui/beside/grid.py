"""`Grid`: the settings in which columns differ, one row each, edited in place.

Knows texts in cells; what they mean is the comparison's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ..flow import clean

NAME = 16
"""Cells of the names."""
MORE = "＋"
"""Name of the row in which a setting is added."""
MOST = 8
"""Rows shown; more scroll."""

Row = tuple[str, list[str]]
"""A setting's name, and its value in each column."""


class Grid(Widget, can_focus=True):
    """Rows and columns of short texts. Typing changes the marked cell, Enter sets it, Esc leaves it as it was."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"grid--name", "grid--value", "grid--cursor", "grid--typing"}

    class Set(Message):
        """A cell was given a value; `name` is empty in the last row, where the text is name=value."""

        def __init__(self, name: str, column: int, value: str) -> None:
            super().__init__()
            self.name = name
            self.column = column
            self.value = value

    def __init__(self) -> None:
        super().__init__(id="grid")
        self.rows: list[Row] = []
        self.heads: list[str] = []
        self.line = self.cell = 0
        self.typed: str | None = None
        """What stands in the marked cell while it is changed."""
        self.hidden = False
        """Whether values are hidden, because a choice is to be made blindly."""

    def show(self, heads: Sequence[str], rows: Sequence[Row], hidden: bool) -> None:
        """Show these."""
        self.heads, self.rows, self.hidden = list(heads), [*rows, (MORE, [""] * len(heads))], hidden
        self.line, self.cell = min(self.line, len(self.rows) - 1), min(self.cell, max(len(heads) - 1, 0))
        self.styles.height = min(len(self.rows), MOST)
        self.refresh(layout=True)

    async def _on_key(self, event: events.Key) -> None:
        if self._handled(event):
            event.stop()
            event.prevent_default()
            self.refresh()

    def _handled(self, event: events.Key) -> bool:
        moves = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
        if event.key == "enter":
            if self.typed is None:
                self.typed = self.rows[self.line][1][self.cell]
            else:
                self._set(self.typed)
        elif event.key == "escape" and self.typed is not None:
            self.typed = None
        elif event.key in ("delete", "backspace") and self.typed is None:
            self._set("")
        elif event.key == "backspace":
            self.typed = (self.typed or "")[:-1]
        elif event.is_printable and event.character:
            self.typed = (self.typed or "") + event.character
        elif event.key in moves:
            down, right = moves[event.key]
            self.typed = None
            self.line = min(max(self.line + down, 0), len(self.rows) - 1)
            self.cell = min(max(self.cell + right, 0), max(len(self.heads) - 1, 0))
        else:
            return False
        return True

    def _set(self, value: str) -> None:
        name, self.typed = self.rows[self.line][0], None
        if name != MORE or value:
            self.post_message(self.Set("" if name == MORE else name, self.cell, value.strip()))

    def on_focus(self) -> None:
        """Mark a cell."""
        self.refresh()

    def on_blur(self) -> None:
        """Leave a cell that was being changed as it was."""
        self.typed = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        width, base = self.size.width, self.rich_style
        place = y + max(0, self.line - self.size.height + 1)
        if place >= len(self.rows) or not self.heads:
            return Strip.blank(width, base)
        name, values = self.rows[place]
        cells = max((width - NAME - 1) // len(self.heads), 4)
        parts = [self._part(f" {name}", NAME, "grid--name")]
        for number, value in enumerate(values):
            here = self.has_focus and (place, number) == (self.line, self.cell)
            text = "·" if self.hidden and value else value
            if here and self.typed is not None:
                parts.append(self._part(f"{self.typed}▏"[1 - cells :], cells, "grid--typing"))
            elif here and name == MORE:
                parts.append(self._part("name=value", cells, "grid--cursor"))
            else:
                parts.append(self._part(text, cells, "grid--cursor" if here else "grid--value"))
        return Strip([segment for part in parts for segment in part]).adjust_cell_length(width, base)

    def _part(self, text: str, cells: int, name: str) -> list[Segment]:
        style: Style = self.get_component_rich_style(name)
        strip = Strip([Segment(clean(text).replace("\n", " "), style)]).adjust_cell_length(cells - 1, style)
        return [*strip, Segment(" ", self.rich_style)]
