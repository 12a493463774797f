"""`PickScreen`: a person picks a reply token by token.

Knows keys and bars; `fader.picking` does the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fader_backends.errors import FaderError
from fader_backends.odds import bits
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import ModalScreen
from textual.widgets import Static

from ..odds import Chosen
from ..picking import Picking, begin
from .contain import contained
from .odds_screen import legend, summary
from .odds_view import NATS, Candidates, Tokens
from .screens import CLOSE

if TYPE_CHECKING:
    from ..chat import Chat
    from ..store import Node

BOUND, STEP, MOST = 4.0, 0.5, 30.0
"""Bits of surprise at which a run stops at first, how far a key moves that, and its upper end."""


class PickScreen(ModalScreen[None]):
    """Up and down mark a candidate, Enter takes it, Backspace gives the last one back, r lets the model run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Keep and close"),
        Binding("up,k", "candidate(-1)", "Likelier candidate"),
        Binding("down,j", "candidate(1)", "Next candidate"),
        Binding("enter,space,right", "take", "Take it"),
        Binding("backspace,left,u", "undo", "Undo"),
        Binding("r", "run", "Run until surprised"),
        Binding("plus,equals_sign", f"bound({STEP})", "Raise the bound"),
        Binding("minus", f"bound({-STEP})", "Lower the bound"),
        *CLOSE[1:],
    ]

    def __init__(self, chat: Chat, question: Node, given: Chosen) -> None:
        super().__init__()
        self.chat = chat
        self.question = question
        self.given = given
        self.bound = BOUND
        self.picking: Picking | None = None
        self.tokens = Tokens(given)
        self.candidates = Candidates()

    def compose(self) -> ComposeResult:
        """Build the sheet."""
        with Container(classes="odds-sheet"):
            yield Static("", id="pick-heading", classes="heading", markup=False)
            with Container(id="odds-body"):
                yield self.tokens
                yield self.candidates
            yield Static("", id="odds-legend", markup=False)
            yield Static("", id="pick-hint", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Ask for the first candidates."""
        try:
            self.picking = begin(self.chat, self.question, self.show, self.given)
        except FaderError as error:
            self.app.broke(error)  # type: ignore[attr-defined]
            self.dismiss(None)
            return
        self.query_one("#odds-legend", Static).update(legend(self.tokens))
        self.show()

    @contained
    def show(self) -> None:
        """Draw what is new."""
        picking = self.picking
        if picking is None or not self.is_mounted:
            return
        chosen = picking.so_far()
        self.tokens.show(chosen)
        self.tokens.move_to(len(chosen.ids) - 1)
        self.query_one("#pick-heading", Static).update(f"Picking · {summary(chosen)}")
        self.query_one("#pick-hint", Static).update(
            f"↑↓ candidate ⏎ take · Backspace undo · r run until a surprise above {self.bound:g} bit (+ −) · Esc keeps it"
        )
        if picking.offered is not None:
            token, odds = picking.offered
            told = f"the model would take ● · surprise {bits(odds.logprob):.2f} bit · entropy {odds.entropy * NATS:.2f} bit"
            self.candidates.show(chosen, odds, token, (f"token {len(chosen.ids) + 1:,}", told))
        else:
            self.candidates.show(chosen, None, -1, self._waiting(picking))

    def _waiting(self, picking: Picking) -> tuple[str, str]:
        if picking.failure is not None:
            return picking.failure.title, "Backspace undoes; Esc keeps what there is."
        if picking.ended:
            return "The reply is at its end.", "Esc keeps it; Backspace goes on before the end."
        return "working …", "Esc stops and keeps what there is"

    def action_candidate(self, step: int) -> None:
        """Mark another candidate."""
        self.candidates.move(step)

    @contained
    def action_take(self) -> None:
        """Take the marked candidate."""
        marked = self.candidates.marked
        if self.picking is not None and marked is not None:
            self.picking.take(marked.token)

    @contained
    def action_undo(self) -> None:
        """Give the last token back."""
        if self.picking is not None:
            self.picking.undo()

    @contained
    def action_run(self) -> None:
        """Let the model go on until it is surprised."""
        if self.picking is not None:
            self.picking.run(self.bound)

    def action_bound(self, step: float) -> None:
        """Change the surprise at which a run stops."""
        self.bound = min(max(self.bound + step, 0.0), MOST)
        self.show()

    @contained
    def action_leave(self) -> None:
        """Keep what there is and close."""
        if self.picking is not None:
            self.picking.close()
            self.picking = None
        self.dismiss(None)
