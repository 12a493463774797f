"""`Acts`: what the keys of the screen with columns do.

Knows the comparison and the screen's parts by name; `screen.py` puts them together.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from fader_backends.errors import FaderError, UsageError
from textual.screen import Screen

from ..contain import contained_callback

if TYPE_CHECKING:
    from ...compare.column import Column
    from ...compare.comparer import Comparer
    from ..app import FaderApp
    from ..prompt import Prompt
    from .grid import Grid
    from .view import ColumnView

ROOMY = 34
"""Rows of a terminal in which all numbers are shown."""


class Acts(Screen[str]):
    """Everything a key can do."""

    comparer: Comparer
    prompt: Prompt
    grid: Grid
    views: Sequence[ColumnView]
    order: list[int]
    """Which column each view shows."""
    current: int
    """The view that has, or last had, the keys."""
    blind: bool
    zoomed: bool
    locked: bool
    """Whether all columns scroll together."""
    differing: bool
    """Whether words are shown against the first column's."""
    full: bool | None
    """Whether all numbers are shown; None: as there is room."""

    @property
    def host(self) -> FaderApp:
        """The app."""
        return cast("FaderApp", self.app)

    @property
    def roomy(self) -> bool:
        """Whether all numbers are shown."""
        return self.full if self.full is not None else self.size.height >= ROOMY

    def show(self) -> None:
        """Draw everything that is not a reply's text."""
        raise NotImplementedError

    def shown(self) -> list[tuple[ColumnView, Column]]:
        """Return the views in use, each with its column."""
        raise NotImplementedError

    @property
    def here(self) -> Column:
        """The column that keys act on."""
        return self.shown()[self.current][1]

    # --- actions ------------------------------------------------------------------------------------------------------

    def stop_all(self) -> bool:
        """Stop every column; False when nothing ran."""
        return self.comparer.side is not None and self.comparer.side.stop_all()

    def action_leave(self) -> None:
        """Esc: stop the columns; else go back to the chat."""
        if not self.stop_all():
            self.dismiss(self.prompt.draft)

    def action_prompt(self) -> None:
        """Give the keys to the prompt."""
        self.prompt.focus()

    def action_grid(self) -> None:
        """Give the keys to the settings, or back to the prompt."""
        (self.prompt if self.grid.has_focus else self.grid).focus()

    def action_numbers(self) -> None:
        """Show all numbers, or few."""
        self.full = not self.roomy
        self.show()

    def action_fair(self) -> None:
        """Run columns one at a time from the next question on, or together."""
        self.comparer.fair = not self.comparer.fair
        said = "one at a time, ABAB" if self.comparer.fair else "together"
        self.notify(f"The next run is {said}.", markup=False, timeout=3)
        self.show()

    def action_blind(self) -> None:
        """Shuffle the columns and hide which is which, or show it again."""
        self.blind = not self.blind
        self.order = list(range(len(self.comparer.columns)))
        if self.blind:
            random.SystemRandom().shuffle(self.order)
        for view in self.views:
            view.drawn = None
        self.differing = False
        self.show()

    def action_go(self, step: int) -> None:
        """Give the keys to the next or previous column."""
        self.current = (self.current + step) % len(self.comparer.columns)
        self.show()
        self.views[self.current].focus()

    def action_scroll(self, step: int) -> None:
        """Move the column's text, or all of them where they are locked together."""
        for place, (view, _) in enumerate(self.shown()):
            if self.locked or place == self.current:
                view.scroll_rows(step)

    def action_column(self, verb: str) -> None:
        """Do something to the column that has the keys."""
        comparer, column = self.comparer, self.here
        match verb:
            case "stop":
                comparer.running().stop(column)
            case "restart":
                comparer.restart(column)
            case "alone":
                comparer.running().check_alone(column)
            case "lock":
                self.locked = not self.locked
            case "zoom":
                self.zoomed = not self.zoomed
            case "diff":
                self.differing = not self.differing
            case "copy":
                self.host.copy_text(column.text)
            case "pick" if self.blind:
                self.pick(column)
            case "pick":
                raise UsageError(
                    "Picking is for blind choices.", "", "F9 hides which column is which; k keeps a reply."
                )
            case "drop":
                comparer.drop(column)
            case _:
                self.keep(column)
                return
        self.show()
        self.host.frames.wake()

    def pick(self, column: Column) -> None:
        """Note a blind choice and show which is which. Raises FaderError."""
        self.comparer.choose(column)
        self.action_blind()
        self.notify(
            f"You picked {column.letter}: {column.title}. fader compare results counts.", markup=False, timeout=8
        )

    def keep(self, column: Column) -> None:
        """Put the reply into the conversation and go back there. In blind mode it counts as picked. Raises FaderError."""
        notice = self.comparer.keep(column)
        if self.blind:
            self.pick(column)
        beside = sum(one is not column and bool(one.text) for one in self.comparer.columns)
        said = notice or f"Kept {column.letter}; {beside} more beside it (Left and Right in the transcript)."
        self.dismiss(self.prompt.draft)
        self.app.call_later(self.app.notify, said, markup=False, timeout=8)

    def action_listed(self) -> None:
        """Open the list of stored comparisons."""
        from .listed import Listed

        if self.comparer.busy:
            raise FaderError("Columns are running.", "", "Press Esc to stop them first.")

        def chosen(number: int | None) -> None:
            if number is not None:
                self.open(number)

        self.app.push_screen(Listed(self.comparer.chat.store), contained_callback(self.host, chosen))

    def open(self, number: int) -> None:
        """Show a stored comparison. Raises FaderError."""
        self.comparer.open(number)
        self.blind = self.differing = False

    def bundle(self, argument: str) -> None:
        """Make a bundle of the first two columns. Raises FaderError."""
        from .. import bundling

        words = bundling.with_text(argument, "/bundle")
        bundling.of_columns(self.host, self.comparer, self.comparer.columns[:2], words)

    def export(self, name: str) -> None:
        """Write the comparison to a file. Raises FaderError."""
        path = Path(name).expanduser().absolute()
        self.comparer.export(path)
        self.notify(f"Written to {path}", markup=False)
