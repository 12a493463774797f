"""`ReplyView`: the running reply, drawn row by row in a window whose size does not change.

Knows text and rows, not turns. Growing or scrolling by a line would repaint the whole window for every line of text; so
the view jumps a quarter of its height when it is full, and between jumps only changed rows are refreshed.
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from .flow import Flow, Row, spans

GUTTER = 2
"""Empty cells left of the text, as in a settled reply."""


class ReplyView(Widget):
    """Text that grows at its end. `say` shows a line instead while there is no text yet."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "reply--bold",
        "reply--code",
        "reply--mark",
        "reply--head",
        "reply--status",
    }

    def __init__(self, height: int) -> None:
        super().__init__(classes="running")
        self.styles.height = max(height, 1)
        self.flow = Flow(80)
        self.top = 0
        self.following = True
        self.pieces: list[str] = []
        self.status = ""

    @property
    def empty(self) -> bool:
        """Whether no text has come yet."""
        return not self.pieces

    def say(self, status: str) -> None:
        """Show what is being waited for, until there is text."""
        if status != self.status:
            self.status = status
            if self.empty:
                self.refresh(Region(0, 0, self.size.width, 1))

    def clear(self) -> None:
        """Begin anew, empty."""
        self.flow, self.pieces, self.top, self.following, self.status = Flow(self.flow.width), [], 0, True, ""
        self.refresh()

    def feed(self, text: str) -> None:
        """Append text; repaint what changed."""
        if not text:
            return
        if self.empty:
            self.refresh(Region(0, 0, self.size.width, 1))
        self.pieces.append(text)
        first = self.flow.feed(text)
        if not self._jumped():
            begin, end = max(first - self.top, 0), min(len(self.flow.rows) - self.top, self.size.height)
            if begin < end:
                self.refresh(Region(0, begin, self.size.width, end - begin))

    def _jumped(self) -> bool:
        height = self.size.height
        if not self.following or not height or len(self.flow.rows) - self.top <= height:
            return False
        self.top = len(self.flow.rows) - height + height // 4
        self.refresh()
        return True

    def scroll_rows(self, step: int) -> bool:
        """Move the view inside the reply; return whether there was anywhere to go."""
        last = max(len(self.flow.rows) - self.size.height, 0)
        top = min(max(self.top + step, 0), max(last, self.top))
        if top == self.top:
            self.following = self.following or step > 0
            return False
        self.top = top
        self.following = top >= last
        self.refresh()
        return True

    def follow(self) -> None:
        """Go back to the end and stay there."""
        self.following = True
        self._jumped()

    def _on_resize(self, event: events.Resize) -> None:
        width = max(event.size.width - GUTTER - 1, 2)
        if width != self.flow.width:
            self.flow = Flow(width)
            for piece in self.pieces:
                self.flow.feed(piece)
            self.pieces = ["".join(self.pieces)] if self.pieces else []
            self.top = min(self.top, len(self.flow.rows) - 1)
            self.refresh()  # it may have been painted before this was known
        self._jumped()

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        if self.scroll_rows(-3):
            event.stop()
            event.prevent_default()

    def _on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        if self.scroll_rows(3):
            event.stop()
            event.prevent_default()

    def render_line(self, y: int) -> Strip:
        """Draw one row of the window."""
        width, base = self.size.width, self.rich_style
        if self.empty:
            pieces = [Segment(self.status, self.get_component_rich_style("reply--status"))] if y == 0 else []
        else:
            place = self.top + y
            pieces = self._segments(self.flow.rows[place], base) if place < len(self.flow.rows) else []
        return Strip([Segment(" " * GUTTER, base), *pieces]).adjust_cell_length(width, base).simplify()

    def _segments(self, row: Row, base: Style) -> list[Segment]:
        return [
            Segment(text, base if style == "text" else self.get_component_rich_style(f"reply--{style}"))
            for text, style in spans(row)[0]
        ]
