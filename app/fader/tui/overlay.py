"""`Overlay`: the numbers of the turn as a table of label, value and change. Only cells whose text changed are repainted.

Knows readings, not where they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fader_plugins.turn import Reading
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from .compare import Comparison, shown
from .flow import clean

CHANGE = 9
"""Cells of the last column."""

Cells = tuple[str, str, str, str]
"""Label, value, change, and the style of value and change."""


class Overlay(Widget):
    """The table of numbers."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"overlay--{name}" for name in ("muted", "value", "doubtful", "good", "bad")
    }

    class Asked(Message):
        """Somebody wants to know where a change comes from."""

    def __init__(self) -> None:
        super().__init__(id="overlay")
        self.cells: list[Cells] = [("no turn yet", "", "", "muted")]

    def show(self, readings: Sequence[Reading], comparison: Comparison) -> None:
        """Draw these readings."""
        rows: list[Cells] = []
        for reading in readings:
            change, sense = comparison.change(reading)
            value = shown(reading)
            style = "doubtful" if reading.doubtful or reading.value is None else f"value {sense}"
            rows += self._rows(clean(reading.label), clean(value), change, style)
        old, self.cells = self.cells, rows or [("nothing to show: switch timing on", "", "", "muted")]
        if len(old) != len(self.cells):
            self.refresh(layout=True)
            return
        for y, (before, after) in enumerate(zip(old, self.cells, strict=True)):
            if before != after:
                self.refresh(self._changed(y, before, after))

    def on_click(self) -> None:
        """Ask for what is behind the numbers."""
        self.post_message(self.Asked())

    def _rows(self, label: str, value: str, change: str, style: str) -> list[Cells]:
        """Return one row, or two where a long value needs one of its own."""
        room = (self.size.width or 42) - CHANGE - 4
        if cell_len(label) + cell_len(value) <= room:
            return [(label, value, change, style)]
        return [(label, "", change, style), ("", value, "", style + " wide")]

    def _changed(self, y: int, before: Cells, after: Cells) -> Region:
        width = self.size.width
        if before[0] != after[0] or "wide" in after[3]:
            return Region(0, y, width, 1)
        begin = width - CHANGE - 1 - max(cell_len(before[1]), cell_len(after[1]))
        if before[1] == after[1] and before[3] == after[3]:
            begin = width - CHANGE
        return Region(max(begin, 0), y, width - max(begin, 0), 1)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's
        """Return one row for each number."""
        return len(self.cells)

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        width, base = self.size.width, self.rich_style
        if y >= len(self.cells):
            return Strip.blank(width, base)
        label, value, change, style = self.cells[y]
        muted = self.get_component_rich_style("overlay--muted")
        words = style.split()
        main = self.get_component_rich_style(f"overlay--{words[0]}")
        if "wide" in words:
            return Strip([Segment(" " + value.rjust(width - 2), main)]).adjust_cell_length(width, base)
        sense = self.get_component_rich_style(f"overlay--{words[1]}") if words[-1] in ("good", "bad") else muted
        room = max(width - CHANGE - 2 - cell_len(value), 0)
        return Strip(
            [
                Segment(" " + set_cell_size(label, room), muted),
                Segment(value, main),
                Segment(change.rjust(CHANGE), sense),
            ]
        ).adjust_cell_length(width, base)
