"""`TreeScreen`: the outline of a conversation, every branch of it.

Knows the shape of the tree, not how to go about in it; what is chosen goes back to whoever opened it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ..store import Twig
from .flow import clean
from .screens import CLOSE

SIGNS = {"user": "›", "assistant": "·", "system": "#"}
STATES = {"cancelled": " ■", "interrupted": " ■", "failed": " ✕", "edited": " ✎", "streaming": " …"}


def outline(twigs: Sequence[Twig]) -> list[tuple[Twig, str]]:
    """Return every message in reading order with the lines that lead to it. Only where a branch forks is it indented."""
    below: dict[int | None, list[Twig]] = {}
    for twig in twigs:
        below.setdefault(twig.parent, []).append(twig)
    found: list[tuple[Twig, str]] = []
    stack = [(twig, "", "") for twig in reversed(below.get(None, []))]
    if len(stack) > 1:
        stack = [(twig, *_lead("", last=not place)) for place, (twig, _, _) in enumerate(stack)]
    while stack:
        twig, lead, rest = stack.pop()
        found.append((twig, lead))
        children = below.get(twig.id, [])
        if len(children) == 1:
            stack.append((children[0], rest, rest))
        else:
            leads = [_lead(rest, last=place == len(children) - 1) for place in range(len(children))]
            stack += [(child, *pair) for child, pair in reversed(list(zip(children, leads, strict=True)))]
    return found


def _lead(before: str, last: bool) -> tuple[str, str]:
    return f"{before}{'└ ' if last else '├ '}", f"{before}{'  ' if last else '│ '}"


class TreeScreen(ModalScreen[int | None]):
    """All messages; those in view are bold. Gives the chosen one's number."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("t,q", "dismiss(None)", "Close"),
        Binding("j", "cursor(1)", "Down"),
        Binding("k", "cursor(-1)", "Up"),
    ]

    def __init__(self, twigs: Sequence[Twig], path: Sequence[int], marked: int) -> None:
        super().__init__()
        self.twigs = twigs
        self.path = frozenset(path)
        self.marked = marked

    def compose(self) -> ComposeResult:
        """Build the sheet."""
        with Vertical(classes="sheet"):
            yield Static(self._heading(), classes="heading", markup=False)
            yield OptionList(markup=False)
            yield Static(
                "Enter goes there · bold is in view · › you · the model ✎ your words ■ stopped ✕ failed",
                classes="hint",
                markup=False,
            )

    def on_mount(self) -> None:
        """List the tree, with the mark on the message it was opened from."""
        options = self.query_one(OptionList)
        rows = outline(self.twigs)
        options.add_options([Option(self._line(twig, lead), str(twig.id)) for twig, lead in rows])
        options.highlighted = next((place for place, (twig, _) in enumerate(rows) if twig.id == self.marked), 0)
        options.focus()

    def _heading(self) -> str:
        leaves = {twig.id for twig in self.twigs} - {twig.parent for twig in self.twigs}
        return f"Tree: {len(self.twigs)} messages, {len(leaves)} branch{'es' if len(leaves) != 1 else ''}"

    def _line(self, twig: Twig, lead: str) -> Content:
        room = max(self.app.size.width * 9 // 10 - 8 - cell_len(lead), 8)
        text = clean(twig.sketch) or "(no words)"
        if cell_len(text) > min(room, 88):
            text = chop_cells(text, min(room, 88) - 1)[0] + "…"
        style = "bold" if twig.id in self.path else "dim"
        return Content.assemble(
            Content.styled(lead, "dim"),
            Content.styled(f"{SIGNS[twig.role]} {text}{STATES.get(twig.state, '')}", style),
        )

    def action_cursor(self, step: int) -> None:
        """Move the mark."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if step > 0 else options.action_cursor_up)()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Give the chosen message back."""
        self.dismiss(int(event.option_id or 0))
