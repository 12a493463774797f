"""`Prompt`: where a person types. Enter sends; large pastes are kept beside the text, so that they never slow it.

Knows keys and text, not what becomes of a message.
"""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from .flow import clean
from .messages import size_of

LARGE = 8_000
"""Characters from which a paste is kept beside the text."""
NEW_LINE_KEYS = frozenset({"shift+enter", "ctrl+j", "alt+enter", "newline"})


class Prompt(TextArea):
    """A text area that grows to ten lines."""

    class Sent(Message):
        """Enter was pressed on `text`."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class EditLast(Message):
        """Up was pressed in an empty prompt."""

    class Leave(Message):
        """Ctrl+D was pressed in an empty prompt."""

    class Move(Message):
        """The transcript should move, by rows or pages; neither means to its end."""

        def __init__(self, rows: int = 0, pages: int = 0) -> None:
            super().__init__()
            self.rows = rows
            self.pages = pages

    class Attached(Message):
        """The list of large pastes changed."""

    def __init__(self, text: str = "") -> None:
        super().__init__(
            text,
            id="prompt",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Ask something. Enter sends, Ctrl+J makes a new line.",
        )
        self.cursor_blink = False
        self.before: list[str] = []
        """Large pastes that come before the text, because it was empty then."""
        self.after: list[str] = []

    @property
    def empty(self) -> bool:
        """Whether there is nothing to send."""
        return not self.text and not self.before and not self.after

    @property
    def draft(self) -> str:
        """Everything that would be sent."""
        typed = [self.text] if self.text.strip() else []
        return "\n\n".join([*self.before, *typed, *self.after])

    def put(self, text: str) -> None:
        """Replace everything by `text`."""
        large = len(text) > LARGE
        self.before, self.after = ([text] if large else []), []
        self.text = "" if large else text
        self.move_cursor(self.document.end)
        self.post_message(self.Attached())

    def give_back(self, text: str) -> None:
        """Put text that was not sent before what has been typed since."""
        self.put(f"{text}\n\n{self.draft}" if not self.empty else text)

    def pastes(self) -> str:
        """Return one line on what is kept beside the text; empty when nothing is."""
        parts = [f"▤ {size_of(text)}, before your text" for text in self.before]
        parts += [f"▤ {size_of(text)}, after your text" for text in self.after]
        return "   ".join(parts) + "   Backspace in the empty prompt removes it" if parts else ""

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.take(event.text)

    def take(self, pasted: str) -> None:
        """Put pasted text where the cursor is, or beside the text when it is large."""
        lines = pasted.replace("\r\n", "\n").replace("\r", "\n")
        if len(lines) > LARGE:
            (self.after if self.text.strip() else self.before).append(lines)
            self.post_message(self.Attached())
        else:
            self.insert(clean(lines))

    async def _on_key(self, event: events.Key) -> None:
        if self._handled(event.key):
            event.stop()
            event.prevent_default()

    def _handled(self, key: str) -> bool:
        empty = self.empty
        if key == "enter":
            self.post_message(self.Sent(self.draft))
        elif key in NEW_LINE_KEYS:
            self.insert("\n")
        elif key == "up" and empty:
            self.post_message(self.EditLast())
        elif key == "ctrl+d" and empty:
            self.post_message(self.Leave())
        elif key == "backspace" and not self.text and not empty:
            (self.after or self.before).pop()
            self.post_message(self.Attached())
        elif key in ("pageup", "pagedown"):
            self.post_message(self.Move(pages=-1 if key == "pageup" else 1))
        elif key in ("shift+up", "shift+down"):
            self.post_message(self.Move(rows=-1 if key == "shift+up" else 1))
        elif key == "ctrl+end" or (key == "end" and not self.text):
            self.post_message(self.Move())
        else:
            return False
        return True
