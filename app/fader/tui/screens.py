"""The sheets over the chat: list of conversations with search, help, a question for a name, a yes or no.

Knows the store's values and how to show them; what is chosen goes back to whoever opened the sheet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from fader_backends.errors import FaderError
from fader_plugins.turn import Reading
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ..store import Conversation, Store
from .flow import clean

LISTED = 200
CLOSE: list[BindingType] = [("escape", "dismiss(None)", "Close")]


class ChatList(ModalScreen[str | None]):
    """Stored conversations, latest first; typing searches all their messages. Gives the chosen one's id."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        ("down", "cursor(1)", "Down"),
        ("up", "cursor(-1)", "Up"),
        Binding("delete", "delete", "Delete", priority=True),
    ]

    def __init__(self, store: Store, now: Callable[[], datetime], busy: str | None) -> None:
        super().__init__()
        self.store = store
        self.now = now
        self.busy = busy
        """The conversation a reply is being written in; it cannot be deleted."""

    def compose(self) -> ComposeResult:
        """Build the sheet."""
        with Vertical(classes="sheet"):
            yield Static("Conversations", classes="heading", markup=False)
            yield Input(placeholder="Search all messages", select_on_focus=False)
            yield OptionList(markup=False)
            yield Static("", classes="hint", markup=False)

    def on_mount(self) -> None:
        """List everything."""
        self.fill("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search for what is typed."""
        self.fill(event.value)

    def fill(self, text: str) -> None:
        """List what matches."""
        options, hint = self.query_one(OptionList), self.query_one(".hint", Static)
        options.clear_options()
        try:
            options.add_options(self._found(text.strip()))
        except FaderError as error:
            hint.update(clean(str(error)))
            return
        if options.option_count:
            options.highlighted = 0
            hint.update("Enter opens · Delete deletes · Esc closes")
        else:
            hint.update("Nothing found." if text.strip() else "No conversations yet. Esc closes.")

    def _found(self, text: str) -> list[Option]:
        if not text:
            return [Option(self._line(found, ""), found.id) for found in self.store.conversations(LISTED)]
        seen: dict[str, Option] = {}
        for hit in self.store.search(text, LISTED):
            found = hit.conversation
            seen.setdefault(found.id, Option(self._line(found, hit.snippet), found.id))
        return list(seen.values())

    def _line(self, found: Conversation, snippet: str) -> Content:
        title = Content.styled(clean(found.title) or "(no title)", "bold")
        about = f"  {age(found.updated, self.now())} · {found.messages} messages · {clean(found.profile)}"
        parts = [title, Content.styled(about, "dim")]
        if snippet:
            parts += [Content("\n  "), Content(clean(snippet))]
        return Content.assemble(*parts)

    def on_input_submitted(self) -> None:
        """Open the marked conversation."""
        self.query_one(OptionList).action_select()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Give back the chosen one."""
        self.dismiss(event.option_id)

    def action_cursor(self, step: int) -> None:
        """Move the mark while the search keeps the keys."""
        options = self.query_one(OptionList)
        if step > 0:
            options.action_cursor_down()
        else:
            options.action_cursor_up()

    def action_delete(self) -> None:
        """Delete the marked conversation, after asking."""
        options = self.query_one(OptionList)
        option = options.highlighted_option
        if option is None or option.id is None:
            return
        chosen = option.id
        if chosen == self.busy:
            self.query_one(".hint", Static).update("A reply is being written there: press Esc in the chat first.")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                try:
                    self.store.delete(chosen)
                except FaderError as error:
                    self.query_one(".hint", Static).update(clean(str(error)))
                    return
                self.fill(self.query_one(Input).value)

        self.app.push_screen(Confirm("Delete this conversation for good?", "Delete"), answered)


class Confirm(ModalScreen[bool | None]):
    """A yes or no; anything but Enter is a no."""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE, ("enter,y", "dismiss(True)", "Yes"), ("n", "dismiss(None)", "No")]

    def __init__(self, question: str, yes: str) -> None:
        super().__init__()
        self.question = question
        self.yes = yes

    def compose(self) -> ComposeResult:
        """Build the sheet."""
        with Vertical(classes="sheet -small"):
            yield Static(clean(self.question), markup=False, classes="text")
            yield Static(f"\nEnter: {self.yes}    Esc: leave it", markup=False, classes="hint")


class Ask(ModalScreen[str | None]):
    """A question for one line of text."""

    BINDINGS: ClassVar[list[BindingType]] = CLOSE

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        """Build the sheet."""
        with Vertical(classes="sheet -small"):
            yield Static(clean(self.question), markup=False, classes="heading")
            yield Input()
            yield Static("Enter: go on    Esc: leave it", markup=False, classes="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the text back."""
        self.dismiss(event.value.strip() or None)


class HelpScreen(ModalScreen[None]):
    """Keys, commands, and the definition of every number."""

    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE, ("f1,q", "dismiss(None)", "Close")]

    def __init__(self, sections: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
        super().__init__()
        self.sections = sections

    def compose(self) -> ComposeResult:
        """Build the sheet."""
        with Vertical(classes="sheet"):
            with VerticalScroll():
                yield Static(self._text(), classes="text")
            yield Static("Esc closes", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self.query_one(VerticalScroll).focus()

    def _text(self) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, max_width=28)
        table.add_column(ratio=1)
        for title, rows in self.sections:
            table.add_row(Text(title, "bold"))
            for left, right in rows:
                table.add_row(Text(left), Text(right, "dim"))
            table.add_row()
        return table


def numbers_help(readings: Sequence[Reading]) -> list[tuple[str, str]]:
    """Return each number's label and definition."""
    return [(clean(reading.label.strip()), clean(reading.help)) for reading in readings if reading.help]


def age(then: datetime, now: datetime) -> str:
    """Return how long ago something was."""
    seconds = max((now - then).total_seconds(), 0)
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {name} ago"
    return "just now"
