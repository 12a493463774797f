"""`Tokens` and `Candidates`: a reply token by token in shades, and what one of them was chosen from as bars.

Know `Chosen` and rows of cells, not where a choice leads. Every shade is also an attribute (underline, bold, both), and
every meaning also a word or a sign, so that nothing hangs on colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from fader_backends.odds import Candidate, Odds, bits
from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from ..odds import Chosen
from .flow import clean

NATS = 1 / math.log(2)
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "↵"}
EIGHTHS = " ▏▎▍▌▋▊▉█"


class Shading(NamedTuple):
    """What shades stand for."""

    name: str
    of: Callable[[Odds, int], float]
    """(a token's odds, the token) -> its value."""
    steps: tuple[float, float, float]
    """Where the second, third and fourth shade begin."""
    labels: tuple[str, str, str, str]


def _share(odds: Odds, token: int) -> float:
    """Return one minus the token's probability among what the chain left."""
    after = next((one.chain_logprob for one in odds.candidates() if one.token == token), None)
    return 1 - math.exp(after) if after is not None else 1.0


SHADINGS = (
    Shading("probability after the chain", _share, (0.5, 0.9, 0.99), ("50 % and more", "10 %", "1 %", "less")),
    Shading(
        "surprise before the chain",
        lambda odds, _: bits(odds.logprob),
        (1.0, 3.0, 6.0),
        ("below 1 bit", "1", "3", "6 bit and more"),
    ),
    Shading(
        "entropy before the chain",
        lambda odds, _: odds.entropy * NATS,
        (0.5, 2.0, 4.0),
        ("below 0.5 bit", "0.5", "2", "4 bit and more"),
    ),
)


def shade(shading: Shading, odds: Odds | None, token: int) -> str:
    """Return the name of a token's style."""
    if odds is None:
        return "odds--unknown"
    value = shading.of(odds, token)
    return f"odds--{sum(value > step for step in shading.steps)}"


def visible(text: str) -> str:
    """Return a token's text with its white space visible, safe to draw."""
    inner = text.strip()
    lead = text[: len(text) - len(text.lstrip())] if inner else text
    tail = text[len(text.rstrip()) :] if inner else ""
    return (
        "".join(VISIBLE.get(one, one) for one in lead) + clean(inner) + "".join(VISIBLE.get(one, one) for one in tail)
    )


def wrapped(texts: Sequence[str], width: int) -> list[list[tuple[int, str]]]:
    """Return rows of (token's place, part of its text), none wider than `width` cells."""
    rows: list[list[tuple[int, str]]] = [[]]
    used = 0
    for place, text in enumerate(texts):
        for number, line in enumerate(clean(text).split("\n")):
            if number:
                rows[-1].append((place, "↵"))
                rows.append([])
                used = 0
            size = cell_len(line)
            if used + size > width - 1 and used and size < width:
                rows.append([])
                used, line = 0, line.removeprefix(" ") or line
                size = cell_len(line)
            for part in chop_cells(line, width - 1) if size >= width else [line]:
                if used + cell_len(part) > width - 1 and used:
                    rows.append([])
                    used = 0
                rows[-1].append((place, part or ("" if number or "\n" in text else "·")))
                used += max(cell_len(part), 1)
    return rows


def bar(share: float, cells: int) -> str:
    """Return a bar of `share` times `cells`; the smallest share is still seen."""
    eighths = round(min(max(share, 0.0), 1.0) * cells * 8)
    eighths = max(eighths, 1) if share > 0 else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(cells)[:cells]


def percent(logprob: float) -> str:
    """Return a probability for people, in seven cells."""
    share = 100 * math.exp(logprob)
    return f"{share:5.1f} %" if share >= 0.1 or not share else " <0.1 %"


STYLES = {
    *(f"odds--{number}" for number in range(4)),
    *(f"odds--{name}" for name in ("unknown", "cursor", "muted", "strong", "bar", "gone")),
}


class Tokens(Widget):
    """The tokens of a reply with a mark on one."""

    COMPONENT_CLASSES: ClassVar[set[str]] = STYLES

    def __init__(self, chosen: Chosen) -> None:
        super().__init__(id="odds-tokens")
        self.chosen = chosen
        self.shading = SHADINGS[0]
        self.place = 0
        self.top = 0
        self.rows: list[list[tuple[int, str]]] = []

    def show(self, chosen: Chosen) -> None:
        """Show other tokens."""
        self.chosen = chosen
        self._lay_out()

    def on_resize(self) -> None:
        """Wrap anew."""
        self._lay_out()

    def _lay_out(self) -> None:
        if self.size.width:
            self.rows = wrapped(self.chosen.texts(), self.size.width)
            self.move_to(self.place)

    def move_to(self, place: int) -> None:
        """Put the mark on a token and bring it into view."""
        self.place = min(max(place, 0), max(len(self.chosen.ids) - 1, 0))
        row = self.row_of(self.place)
        height = max(self.size.height, 1)
        self.top = min(max(self.top, row - height + 1), row)
        self.refresh()

    def row_of(self, place: int) -> int:
        """Return the row on which a token begins."""
        return next((number for number, row in enumerate(self.rows) if any(at == place for at, _ in row)), 0)

    def beside(self, rows: int) -> int:
        """Return the token that stands `rows` further down in about the same column."""
        row = self.row_of(self.place)
        column = 0
        for at, text in self.rows[row] if self.rows else ():
            if at == self.place:
                break
            column += cell_len(text)
        target = self.rows[min(max(row + rows, 0), len(self.rows) - 1)] if self.rows else []
        used, found = 0, self.place
        for at, text in target:
            if used > column:
                break
            found, used = at, used + cell_len(text)
        return found

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        number, base = self.top + y, self.rich_style
        segments = []
        for place, text in self.rows[number] if number < len(self.rows) else ():
            token = self.chosen.ids[place]
            style = self.get_component_rich_style(shade(self.shading, self.chosen.odds[place], token))
            if place == self.place:
                style = self.get_component_rich_style("odds--cursor")
            segments.append(Segment(text, style))
        return Strip(segments).adjust_cell_length(self.size.width, base)


class Candidates(Widget):
    """What one token was chosen from: bars before and after the chain, and who removed which."""

    COMPONENT_CLASSES: ClassVar[set[str]] = STYLES

    def __init__(self) -> None:
        super().__init__(id="odds-candidates")
        self.entries: list[tuple[Candidate, str]] = []
        self.token = -1
        self.cursor = 0
        self.title: tuple[str, str] = ("", "")

    def show(self, chosen: Chosen, odds: Odds | None, token: int, title: tuple[str, str]) -> None:
        """Show what `token` was chosen from, with the mark on it."""
        self.entries = [(one, visible(chosen.label(one.token))) for one in odds.candidates()] if odds else []
        self.token, self.title = token, title
        self.cursor = next((at for at, (one, _) in enumerate(self.entries) if one.token == token), 0)
        self.refresh()

    def move(self, step: int) -> None:
        """Move the mark over the candidates."""
        self.cursor = min(max(self.cursor + step, 0), max(len(self.entries) - 1, 0))
        self.refresh()

    @property
    def marked(self) -> Candidate | None:
        """The candidate under the mark."""
        return self.entries[self.cursor][0] if self.entries else None

    def render_line(self, y: int) -> Strip:
        """Draw one row: two of title, one of headings, then a candidate each."""
        width, base = self.size.width, self.rich_style
        muted, strong = (self.get_component_rich_style(f"odds--{name}") for name in ("muted", "strong"))
        room = max(self.size.height - 3, 1)
        top = max(min(self.cursor - room + 1, len(self.entries) - room), 0)
        at = y - 3 + top
        cells = max((width - 36) // 2, 4)
        if y < 2:
            parts = [Segment(self.title[y], strong if y == 0 else muted)]
        elif y == 2 and self.entries:
            parts = [Segment(f"  {'candidate':15}{'before':{cells + 9}}after the chain", muted)]
        elif y == 2:
            parts = [Segment("Nothing was noted for this token.", muted)]
        elif at < len(self.entries):
            parts = self._entry(at, cells, base)
        else:
            parts = []
        return Strip(parts).adjust_cell_length(width, base)

    def _entry(self, at: int, cells: int, base: Style) -> list[Segment]:
        one, label = self.entries[at]
        style = {name: self.get_component_rich_style(f"odds--{name}") for name in ("bar", "gone", "strong", "cursor")}
        head = base if at != self.cursor else style["cursor"]
        short = chop_cells(label, 13)[0] + ("…" if cell_len(label) > 13 else "") if label else ""
        name = f"{'●' if one.token == self.token else ' '} {short}"
        parts = [
            Segment(name + " " * max(17 - cell_len(name), 0), head),
            Segment(bar(math.exp(one.logprob), cells), style["bar"]),
            Segment(f" {percent(one.logprob)} ", base),
        ]
        if one.chain_logprob is None:
            return [*parts, Segment(f"✕ {one.removed_by}", style["gone"])]
        share = math.exp(one.chain_logprob)
        return [*parts, Segment(bar(share, cells), style["bar"]), Segment(f" {percent(one.chain_logprob)}", base)]
