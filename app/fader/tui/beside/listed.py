"""`Listed`: the sheet with stored comparisons.

Knows the store's list; what is chosen goes back to whoever opened it.
"""

from __future__ import annotations

from fader_backends.errors import FaderError
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...store import Store
from ..flow import clean
from ..screens import CLOSE


class Listed(ModalScreen[int | None]):
    """Stored comparisons, the latest first. Gives the chosen one's number."""

    BINDINGS = CLOSE

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    def compose(self) -> ComposeResult:
        """Build the sheet."""
        with Vertical(classes="sheet"):
            yield Static("Comparisons", classes="heading", markup=False)
            yield OptionList(markup=False)
            yield Static("", classes="hint", markup=False)

    def on_mount(self) -> None:
        """List them."""
        options, hint = self.query_one(OptionList), self.query_one(".hint", Static)
        try:
            found = self.store.comparisons()
        except FaderError as error:
            hint.update(clean(str(error)))
            return
        for one in found:
            line = f"{one.id:>4}  {one.created:%Y-%m-%d %H:%M}  {one.columns} columns  {one.title}"
            options.add_option(Option(Content(clean(line)), str(one.id)))
        hint.update("Enter opens · Esc closes" if found else "No comparisons yet. Esc closes.")
        if found:
            options.highlighted = 0
        options.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Give the chosen one back."""
        self.dismiss(int(event.option.id or 0))
