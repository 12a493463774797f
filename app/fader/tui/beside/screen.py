"""`BesideScreen`: columns side by side, the settings in which they differ, and what becomes of their replies.

Knows the comparison and its views, not how columns are run or stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from fader_backends.errors import FaderError
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from ...compare import make, spec
from ...compare.comparer import SHOWN, Comparer
from ...compare.differ import divergence
from ..bars import Bar
from ..contain import contained
from ..prompt import Prompt
from . import words
from .acts import Acts
from .grid import Grid
from .view import ColumnView

if TYPE_CHECKING:
    from fader_plugins.turn import AnyEvent
    from textual import events

    from ...compare.column import Column

NUMBERS_S = 1.0
"""How often numbers are drawn while columns stream."""
LEAST = 26
"""Cells a column needs; where there are fewer, columns become tabs."""


class BesideScreen(Acts):
    """The screen. `question` stands in the prompt when it opens."""

    CSS_PATH = "beside.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Stop, then back"),
        Binding("f2", "grid", "Settings"),
        Binding("f3", "numbers", "Numbers"),
        Binding("f8", "fair", "Fair timing"),
        Binding("f9", "blind", "Blind"),
        Binding("ctrl+n", "prompt", "Question"),
        Binding("ctrl+r", "listed", "Comparisons"),
    ]

    def __init__(self, comparer: Comparer, question: str = "") -> None:
        super().__init__()
        self.comparer = comparer
        self.prompt = Prompt(question)
        self.prompt.placeholder = "Ask all columns. Enter alone asks again; /help lists commands."
        self.grid = Grid()
        self.views = [ColumnView() for _ in range(SHOWN)]
        self.order = []
        self.current = 0
        self.blind = self.zoomed = self.locked = self.differing = False
        self.full = None
        self.drawn = 0.0

    def compose(self) -> ComposeResult:
        """Build the parts."""
        yield Bar("beside-title")
        yield self.grid
        with Horizontal(id="sides"):
            yield from self.views
        yield self.prompt
        yield Bar("beside-keys")

    def on_mount(self) -> None:
        """Show the comparison; the keys go to the prompt."""
        self.comparer.changed = self.changed
        self.host.frames.others.append(self.take)
        self.prompt.focus()
        self.show()

    def on_unmount(self) -> None:
        """Take no more events."""
        self.comparer.changed = lambda: None
        self.host.frames.others.remove(self.take)

    def changed(self) -> None:
        """Draw soon what has changed."""
        self.call_later(self.show)

    # --- drawing ------------------------------------------------------------------------------------------------------

    def take(self, taken: list[AnyEvent]) -> bool:
        """Take the engine's events since the last frame; return whether more are to come."""
        self._take(taken)
        return self.comparer.busy

    @contained
    def _take(self, taken: list[AnyEvent]) -> None:
        for event in taken:
            self.comparer.on_event(event)
        for view, column in self.shown():
            view.draw(column, self.comparer.busy)
        if self.comparer.busy and time.monotonic() - self.drawn >= NUMBERS_S:
            self.show_numbers()
            self.comparer.flush(self.aside)

    def aside(self, write: Callable[[], None]) -> None:
        """Write to the disk on another thread, so that no key waits for it."""

        def writing() -> None:
            try:
                write()
            except FaderError as error:
                self.app.call_from_thread(self.host.tell, error.failure)

        self.run_worker(writing, thread=True, exit_on_error=False)

    def shown(self) -> list[tuple[ColumnView, Column]]:
        """Return the views in use, each with its column."""
        columns = self.comparer.columns
        if sorted(self.order) != list(range(len(columns))):
            self.order = list(range(len(columns)))
            self.current = min(self.current, len(columns) - 1)
        return [(view, columns[place]) for view, place in zip(self.views, self.order, strict=False)]

    @property
    def tabbed(self) -> bool:
        """Whether only one column is in view at a time."""
        return self.zoomed or self.size.width < LEAST * len(self.comparer.columns)

    @contained
    def show(self) -> None:
        """Draw everything that is not a reply's text."""
        if not self.is_mounted:
            return
        used = self.shown()
        for place, view in enumerate(self.views):
            view.display = place < len(used) and (not self.tabbed or place == self.current)
            view.set_class(place == self.current, "-current")
        for place, (view, column) in enumerate(used):
            view.title(words.head(place, column, self.blind), column.state)
            view.draw(column, self.comparer.busy)
            first = used[0][1]
            view.compare(column, first if self.differing and column is not first and column.text else None)
        found = make.grid(self.comparer.columns, self.comparer.chat.board)  # the rows' order must not tell who is who
        rows = [(name, [cells[place] for place in self.order]) for name, cells in found]
        self.grid.show([column.letter for _, column in used], rows, self.blind)
        self.show_numbers()
        self.show_lines()

    def show_numbers(self) -> None:
        """Draw the numbers under the columns."""
        self.drawn = time.monotonic()
        used = self.shown()
        first = None if self.comparer.busy else next((one.answer() for _, one in used if one.letter == "A"), None)
        for view, column in used:
            answer = None if column.letter == "A" or first is None else column.answer()
            parted = divergence(first, answer) if first is not None and answer is not None else None
            view.numbers(column, parted, not self.roomy, self.blind)

    def show_lines(self) -> None:
        """Draw title and keys."""
        used = self.shown()
        left, right = words.title(self.comparer, self.blind, self.locked)
        if self.tabbed:
            left = words.tabs(
                [words.head(place, column, self.blind) for place, (_, column) in enumerate(used)], self.current
            )
        self.query_one("#beside-title", Bar).show(left, right)
        place = "grid" if self.grid.has_focus else "prompt" if self.prompt.has_focus else "column"
        self.query_one("#beside-keys", Bar).show(words.keys(place, self.comparer.busy, self.blind, self.size.width))

    def on_resize(self) -> None:
        """Fit to the new size, once there is one."""
        self.call_after_refresh(self.show)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Note which column has the keys."""
        if event.widget in self.views:
            self.current = self.views.index(event.widget)
        self.call_later(self.show)

    # --- the prompt ---------------------------------------------------------------------------------------------------

    @contained
    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        """Ask all columns, or run a command. The prompt is emptied only when that worked."""
        event.stop()
        text = event.text.strip()
        if text.startswith("/"):
            words.run(self, text)
        elif not text and self.comparer.side is not None:
            self.comparer.again()
        else:
            self.comparer.ask(text)
            for one, other in self.comparer.running().same():
                self.notify(f"{one.letter} and {other.letter} differ in nothing.", severity="warning", markup=False)
        self.prompt.put("")
        self.host.frames.wake()

    def on_prompt_edit_last(self, event: Prompt.EditLast) -> None:
        """Bring the question back."""
        event.stop()
        if self.comparer.side is not None:
            self.prompt.put(self.comparer.side.asked.messages[-1].content)

    def on_prompt_attached(self, event: Prompt.Attached) -> None:
        """A large paste is kept beside the text; nothing is to do."""
        event.stop()

    def on_text_area_changed(self, event: Prompt.Changed) -> None:
        """Nobody reads along here."""
        event.stop()

    def on_prompt_move(self, event: Prompt.Move) -> None:
        """Move all columns."""
        event.stop()
        step = event.rows or event.pages * max(self.size.height // 2, 1)
        for view, _ in self.shown():
            if step:
                view.scroll_rows(step)
            else:
                view.reply.follow()

    def on_paste(self, event: events.Paste) -> None:
        """Give what is pasted anywhere to the prompt."""
        event.stop()
        self.prompt.focus()
        self.prompt.take(event.text)

    @contained
    def on_grid_set(self, event: Grid.Set) -> None:
        """Change a setting of a column; in the last row, add one."""
        event.stop()
        column = self.shown()[event.column][1]
        if event.name:
            name = next((one for one in self._names() if one.removeprefix("sampler.") == event.name), event.name)
            self.comparer.edit(column, {name: event.value})
        else:
            self.comparer.edit(column, spec.parse(event.value))

    def _names(self) -> list[str]:
        return [name for column in self.comparer.columns for name in column.changes]
