"""`OddsScreen`: a reply token by token, what each was chosen from, and a way to choose otherwise.

Knows what was noted, not how a reply is made; where to branch goes back to whoever opened it.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from fader_backends.odds import Odds, bits
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ..odds import Chosen
from .odds_view import NATS, SHADINGS, Candidates, Tokens, visible
from .screens import CLOSE


class Forced(NamedTuple):
    """Where to branch, and with which token."""

    place: int
    token: int | None
    """None: a person picks from there on."""


class OddsScreen(ModalScreen[Forced | None]):
    """Left and right go from token to token, up and down among candidates; Enter branches with the marked one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("p,q", "dismiss(None)", "Close"),
        Binding("left,h", "token(-1)", "Token before"),
        Binding("right,l", "token(1)", "Next token"),
        Binding("up,k", "candidate(-1)", "Likelier candidate"),
        Binding("down,j", "candidate(1)", "Next candidate"),
        Binding("shift+up,pageup", "row(-1)", "Row up"),
        Binding("shift+down,pagedown", "row(1)", "Row down"),
        Binding("home,g", "end(0)", "First token"),
        Binding("end,G", "end(1)", "Last token"),
        Binding("n", "surprise", "Next surprise"),
        Binding("c", "shading", "Other shades"),
        Binding("enter", "branch", "Branch here"),
        Binding("m", "pick", "Pick from here"),
    ]

    def __init__(self, chosen: Chosen) -> None:
        super().__init__()
        self.chosen = chosen
        self.tokens = Tokens(chosen)
        self.candidates = Candidates()

    def compose(self) -> ComposeResult:
        """Build the sheet."""
        with Container(classes="odds-sheet"):
            yield Static(summary(self.chosen), classes="heading", markup=False)
            with Container(id="odds-body"):
                yield self.tokens
                yield self.candidates
            yield Static("", id="odds-legend", markup=False)
            yield Static(
                "←→ token ↑↓ candidate ⏎ branch with it · m pick from here · n next surprise · c shades · Esc closes",
                classes="hint",
                markup=False,
            )

    def on_mount(self) -> None:
        """Begin at the first token that has notes."""
        first = next((place for place, odds in enumerate(self.chosen.odds) if odds is not None), 0)
        self.show_legend()
        self.call_after_refresh(self.go_to, first)

    def go_to(self, place: int) -> None:
        """Put the mark on a token and show what it was chosen from."""
        self.tokens.move_to(place)
        place = self.tokens.place
        token, odds = self.chosen.ids[place], self.chosen.odds[place]
        self.candidates.show(self.chosen, odds, token, title_of(self.chosen, place))

    def show_legend(self) -> None:
        """Say what the shades mean, each in its own."""
        self.query_one("#odds-legend", Static).update(legend(self.tokens))

    def action_token(self, step: int) -> None:
        """Go to the next or previous token."""
        self.go_to(self.tokens.place + step)

    def action_row(self, step: int) -> None:
        """Go a row down or up."""
        self.go_to(self.tokens.beside(step))

    def action_end(self, last: int) -> None:
        """Go to the first or last token."""
        self.go_to(len(self.chosen.ids) - 1 if last else 0)

    def action_surprise(self) -> None:
        """Go to the next token in the strongest two shades, round about."""
        count, here = len(self.chosen.ids), self.tokens.place
        for place in (*range(here + 1, count), *range(here)):
            odds = self.chosen.odds[place]
            if odds is not None and self.tokens.shading.of(odds, self.chosen.ids[place]) > self.tokens.shading.steps[1]:
                self.go_to(place)
                return

    def action_candidate(self, step: int) -> None:
        """Mark another candidate."""
        self.candidates.move(step)

    def action_shading(self) -> None:
        """Let the shades stand for something else."""
        at = SHADINGS.index(self.tokens.shading)
        self.tokens.shading = SHADINGS[(at + 1) % len(SHADINGS)]
        self.tokens.refresh()
        self.show_legend()

    def action_branch(self) -> None:
        """Give the marked candidate back, unless it is the token that stands there."""
        marked = self.candidates.marked
        if marked is None or marked.token == self.candidates.token:
            self.notify("This is the token that stands there: mark another with ↑↓.", markup=False, timeout=3)
            return
        self.dismiss(Forced(self.tokens.place, marked.token))

    def action_pick(self) -> None:
        """Let the person pick from the marked token on."""
        self.dismiss(Forced(self.tokens.place, None))


def summary(chosen: Chosen) -> str:
    """Return the heading: how surprising the whole reply was."""
    count, mean, perplexity = chosen.summary()
    told = f"{len(chosen.ids):,} tokens"
    if mean is not None:
        told += f" · mean surprise {mean:.2f} bit · perplexity {perplexity or float('inf'):,.2f}"
    if count < len(chosen.ids):
        told += f" (of {count:,} with notes)"
    return told


def title_of(chosen: Chosen, place: int) -> tuple[str, str]:
    """Return two lines on one token."""
    odds: Odds | None = chosen.odds[place]
    name = visible(chosen.label(chosen.ids[place]))
    by = " ✎ a person chose it" if place in chosen.forced else ""
    first = f"token {place + 1:,} of {len(chosen.ids):,}  {name}{by}"
    if odds is None:
        return first, "given, not chosen: a beginning in a person's words"
    told = (
        f"surprise {bits(odds.logprob):.2f} bit · entropy {odds.entropy * NATS:.2f} bit · the chain left {odds.left:,}"
    )
    return first, told


def legend(tokens: Tokens) -> Content:
    """Return what the shades of `tokens` mean."""
    parts = [Content(f"{tokens.shading.name}: ")]
    for number, label in enumerate(tokens.shading.labels):
        style = tokens.get_component_rich_style(f"odds--{number}", partial=True)
        parts += [Content.from_rich_text(Text(label, style)), Content("  ")]
    return Content.assemble(*parts)
