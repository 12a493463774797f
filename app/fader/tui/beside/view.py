"""`ColumnView`: one column on the screen: its title, its running reply, its numbers, or its words against the first column's.

Knows one column; what keys do is the screen's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ...compare.differ import Divergence, words
from ...compare.figures import Figures, lines
from .. import bars
from ..flow import clean
from ..reply import ReplyView

if TYPE_CHECKING:
    from ...compare.column import Column

SIGNS = {"waiting": "⧗", "running": "▶", "done": "✓", "stopped": "■", "failed": "✕"}
KEYS = {
    "k": "keep", "p": "pick", "s": "stop", "r": "restart", "a": "alone", "l": "lock", "z": "zoom", "d": "diff", "c": "copy",
    "x": "drop",
}  # fmt: skip
MARKS = {"same": "", "gone": "strike dim", "new": "bold underline"}
SHORT = ("TTFT", "TPOT", "tokens", "finish")
"""Numbers shown where there is little room."""


class ColumnView(Vertical, can_focus=True):
    """One column. `draw` appends what came of its text; the other methods show what stands around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("left", "screen.go(-1)", "Column before"),
        ("right", "screen.go(1)", "Column after"),
        ("up", "screen.scroll(-1)", "Up"),
        ("down", "screen.scroll(1)", "Down"),
        ("pageup", "screen.scroll(-10)", "Up"),
        ("pagedown", "screen.scroll(10)", "Down"),
        *((key, f"screen.column('{verb}')", verb.title()) for key, verb in KEYS.items()),
    ]

    def __init__(self) -> None:
        super().__init__(classes="column")
        self.head = Static("", classes="head", markup=False)
        self.reply = ReplyView(1)
        self.diff = VerticalScroll(Static("", markup=False), classes="diff", can_focus=False)
        self.foot = Static("", classes="foot", markup=False)
        self.drawn: object = None
        """Of which run the reply shows text."""
        self.seen = 0

    def compose(self) -> ComposeResult:
        """Build the parts."""
        yield self.head
        yield self.reply
        yield self.diff
        yield self.foot

    def on_mount(self) -> None:
        """Let the reply take the room between title and numbers."""
        self.reply.styles.height = "1fr"
        self.diff.display = False

    # --- text ---------------------------------------------------------------------------------------------------------

    def draw(self, column: Column, waiting: bool) -> None:
        """Draw what came of the column's text since the last time; `waiting`: it was asked, and has not begun."""
        run = column.run if column.run is not None else column.stored
        if run is not self.drawn:
            self.drawn, self.seen = run, 0
            self.reply.clear()
        texts = column.run.stats.texts if column.run is not None else [column.text]
        if len(texts) > self.seen:
            whole = self.seen == 0 and column.state != "running"
            self.reply.feed("".join(texts[self.seen :]))
            self.seen = len(texts)
            if whole:
                self.reply.scroll_rows(-len(self.reply.flow.rows))  # it is read from its beginning
        if self.reply.empty:
            self.reply.say(_status(column, waiting))

    def compare(self, column: Column, first: Column | None) -> None:
        """Show the words against the first column's; None shows the reply itself again."""
        self.diff.display, self.reply.display = first is not None, first is None
        if first is None:
            return
        text = Text()
        for piece in words(first.text, column.text):
            text.append(clean(piece.text), MARKS[piece.kind])
        self.diff.query_one(Static).update(text)

    def scroll_rows(self, step: int) -> None:
        """Move the text by rows."""
        if self.diff.display:
            self.diff.scroll_relative(y=step, animate=False)
        else:
            self.reply.scroll_rows(step)

    # --- what stands around it ----------------------------------------------------------------------------------------

    def title(self, text: str, state: str) -> None:
        """Show the column's title and state."""
        shown = Content(clean(f"{SIGNS[state]} {text}").replace("\n", " "))
        if self.head.content != shown:
            self.head.update(shown)

    def numbers(self, column: Column, parted: Divergence | None, short: bool, hidden: bool) -> None:
        """Show the numbers, what must be said, and where it parts from the first column."""
        said = [] if hidden else [told for told in (column.note, _failure(column), column.alone) if told]
        if parted is not None and not hidden:
            check = "; a: check it alone" if parted.cause == "near-tie" and not column.alone else ""
            said.append(f"≠A {parted}{check}")
        empty = hidden or (column.run is None and column.stored is None)
        rows = [] if empty else _rows(column.figures(), short, self.size.width - 2)
        text = "\n".join([*rows, *said])
        shown = Content(clean(text))
        if self.foot.content != shown:
            self.foot.update(shown)


def _rows(found: Figures, short: bool, width: int) -> list[str]:
    """Return the numbers as lines of at most `width` cells, none of them broken."""
    rows: list[str] = []
    for label, value in lines(found):
        if short and label not in SHORT:
            continue
        cell = value if short and label == "finish" else f"{label} {value}"
        if rows and len(rows[-1]) + len(cell) + 3 <= width:
            rows[-1] += f" · {cell}"
        else:
            rows.append(cell)
    return rows


def _failure(column: Column) -> str:
    failure = column.failure
    return " ".join(part for part in (failure.title, failure.detail, failure.next_step) if part) if failure else ""


def _status(column: Column, waiting: bool) -> str:
    """Return what a column without text waits for."""
    if column.state == "failed":
        return "failed; the reason is below"
    if column.run is None:
        return "waits for its turn" if waiting else "not asked yet"
    if column.state == "stopped":
        return "stopped before its first word"
    return bars.waiting_for(column.run.stats, False)
