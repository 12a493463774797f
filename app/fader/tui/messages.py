"""Widgets for what has been said: a question, and a reply that becomes Markdown when there is time for it.

Knows one message each, not the conversation. Nothing said is ever parsed as markup of the screen.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from fader_plugins.turn import Numbers, RunRecord
from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from ..store import Node
from .flow import clean

SHOWN_CHARACTERS = 4_000
SHOWN_LINES = 40
MARKDOWN_CHARACTERS = 60_000
"""Longer replies stay plain text: a parse would freeze the screen."""
ASKS = (
    ("e", "edit", "Edit"),
    ("r", "again", "Ask again"),
    ("o", "go_on", "Go on"),
    ("p", "odds", "Probabilities"),
    ("m", "pick", "Pick tokens"),
    ("t", "tree", "Tree"),
    ("f", "fork", "Fork"),
    ("d", "delete", "Delete"),
)
"""Key, what is asked for, and its name: what the app does with the marked message."""


def size_of(text: str) -> str:
    """Return how long a text is, for people."""
    count = len(text.encode("utf-8", "replace"))
    size = (
        f"{count / 1e6:.1f} MB" if count >= 1_000_000 else f"{count / 1e3:.0f} kB" if count >= 1_000 else f"{count} B"
    )
    lines = text.count("\n") + 1
    return f"{size}, {lines:,} lines" if lines > 1 else size


def shortened(text: str) -> str:
    """Return the beginning of a long text, with a line on how much there is."""
    lines = text[:SHOWN_CHARACTERS].split("\n")[:SHOWN_LINES]
    shown = "\n".join(lines)
    return text if len(shown) == len(text) else f"{shown}\n… all of it: {size_of(text)} (c copies it)"


def rows_of(text: str, width: int) -> int:
    """Return about how many rows a shortened text takes."""
    return sum(max(1, -(-cell_len(line) // max(width, 1))) for line in clean(shortened(text)).split("\n"))


def record_of(node: Node) -> RunRecord | None:
    """Return a reply's record; None when there is none that can be read."""
    if node.record is None:
        return None
    try:
        return msgspec.json.decode(node.record, type=RunRecord)
    except msgspec.MsgspecError:
        return None


def numbers_of(nodes: Sequence[Node]) -> Numbers | None:
    """Return the numbers of the last reply that has any."""
    for node in reversed(nodes):
        record = record_of(node)
        if record and (record.numbers.finish_reason != "failed" or record.numbers.output_tokens):
            return record.numbers
    return None


def foot_of(node: Node) -> tuple[str, str]:
    """Return the line below a reply and its kind (muted or error); empty for one that came to its end."""
    match node.state:
        case "cancelled":
            return "■ stopped", "muted"
        case "interrupted":
            return "■ interrupted: Fader ended while this was written; what had come is kept", "muted"
        case "failed":
            record = record_of(node)
            failure = record.failure if record else None
            parts = (failure.title, failure.detail, failure.next_step) if failure else ("The turn failed.",)
            said = " ".join(" ".join(part.split()) for part in parts if part)
            left_out = (
                "" if node.content else "\n  Later messages leave this one out. Up edits it, /regen asks it again."
            )
            return f"✕ {said}{left_out}", "error"
        case "edited":
            return "✎ your words", "muted"
        case "streaming":
            return "… still being written by another Fader", "muted"
    return ("■ the context is full: the reply was cut there", "muted") if _cut_by_context(node) else ("", "muted")


def _cut_by_context(node: Node) -> bool:
    return node.record is not None and b'"finish_reason":"context"' in node.record


def version_of(count: tuple[int, int] | None) -> str:
    """Return which version a message is; empty where there is one."""
    return f"‹ {count[0]} of {count[1]} ›" if count is not None else ""


class Question(Static):
    """What a person said."""

    def __init__(self, node: Node) -> None:
        self.text = clean(shortened(node.content))
        super().__init__(Content(self.text), markup=False, classes="said question")
        self.node = node

    def count(self, count: tuple[int, int] | None) -> None:
        """Show which version this is."""
        version = version_of(count)
        parts = [Content(self.text)] + ([Content.styled(f"\n{version}", "dim")] if version else [])
        self.update(Content.assemble(*parts))


class Answer(Vertical):
    """A reply: plain at first, Markdown once settled."""

    def __init__(self, node: Node, remark: str = "") -> None:
        super().__init__(classes="said answer")
        self.node = node
        self.remark = remark
        """A line below it that is Fader's."""
        self.settled = False
        self.version = ""

    def compose(self) -> ComposeResult:
        """Show the plain text and the foot."""
        yield Static(Content(clean(self.node.content)), markup=False, classes="body")
        _, kind = foot_of(self.node)
        line = Static(self._foot(), markup=False, classes=f"foot -{kind or 'muted'}")
        line.display = bool(self._foot())
        yield line
        if self.remark:
            yield Static(Content(f"⚠ {clean(self.remark)}"), markup=False, classes="remark")

    def count(self, count: tuple[int, int] | None) -> None:
        """Show which version this is."""
        if (version := version_of(count)) != self.version:
            self.version = version
            for line in self.query(".foot").results(Static):
                line.update(self._foot())
                line.display = bool(self._foot())

    def _foot(self) -> Content:
        return Content("   ".join(part for part in (self.version, clean(foot_of(self.node)[0])) if part))

    async def settle(self) -> None:
        """Turn the plain text into Markdown."""
        if self.settled or not self.is_mounted:
            return
        self.settled = True
        if not self.node.content.strip() or len(self.node.content) > MARKDOWN_CHARACTERS:
            return
        from textual.widgets import Markdown  # late: the first frame does not need a Markdown parser

        plain = self.query_one(".body", Static)
        markdown = Markdown(classes="body", open_links=False)
        await self.mount(markdown, before=plain)
        await markdown.update(clean(self.node.content))
        await plain.remove()
