"""The one-line parts of the screen: title, waiting prompts, context bar with the main numbers, keys.

Knows how to draw one line each and repaints only when that line changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from fader_plugins.turn import Numbers
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from .. import models
from .flow import clean

if TYPE_CHECKING:
    from fader_backends.errors import Failure

    from ..metrics import Stats
    from ..profiles import Profile

Part = tuple[str, str]
"""Text, and the name of its style in the style sheet (`bar--NAME`)."""


class Bar(Widget):
    """One line of styled parts."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"bar--{name}" for name in ("strong", "accent", "muted", "used", "reserve", "warning")
    }

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.left: list[Part] = []
        self.right: list[Part] = []

    def show(self, left: Sequence[Part], right: Sequence[Part] = ()) -> None:
        """Draw these parts; nothing happens when they are the same as before."""
        if (list(left), list(right)) != (self.left, self.right):
            self.left, self.right = list(left), list(right)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw left parts, a gap, right parts; the right ones give way when there is no room."""
        width, base = self.size.width, self.rich_style
        if y:
            return Strip.blank(width, base)
        left, right = Strip(self._segments(self.left, base)), Strip(self._segments(self.right, base))
        gap = width - left.cell_length - right.cell_length
        if gap < 1:
            return left.adjust_cell_length(width, base)
        return Strip.join([left, Strip([Segment(" " * gap, base)]), right])

    def _segments(self, parts: Sequence[Part], base: Style) -> list[Segment]:
        return [
            Segment(clean(text), base if name == "" else self.get_component_rich_style(f"bar--{name}"))
            for text, name in parts
        ]


def context_parts(used: int | None, length: int | None, reserve: int | None, cells: int) -> list[Part]:
    """Return the context bar: used, room for a reply, free; with advice before it is full."""
    if not length:
        return [("context: its size is known once the model is loaded", "muted")]
    used = min(used or 0, length)
    room = min(reserve if reserve is not None else length // 8, length - used)
    free = length - used - room
    full = round(cells * used / length)
    held = min(round(cells * room / length), cells - full)
    drawn: list[Part] = [("█" * full, "used"), ("▒" * held, "reserve"), ("░" * (cells - full - held), "muted")]
    counts: list[Part] = [(f" {used:,} used", "strong"), (f" · {room:,} reply · {free:,} free", "muted")]
    if used >= length - 1:
        return [*drawn, (" context full: Ctrl+N new chat, Up edits the last message", "warning")]
    if not free:
        return [*drawn, counts[0], (f" of {length:,}, nearly full: Ctrl+N starts anew", "warning")]
    return [*drawn, *counts]


def ticker(numbers: Numbers | None) -> list[Part]:
    """Return the numbers that are always in view."""
    if numbers is None:
        return []
    parts: list[str] = []
    if numbers.ttft_ms is not None:
        parts.append(f"TTFT {numbers.ttft_ms:,.0f}")
    if numbers.tpot_ms is not None:
        parts.append(f"TPOT {numbers.tpot_ms:.1f}")
    return [(" ".join(parts) + " ms", "muted")] if parts else []


def keys(busy: bool, editing: bool, wide: bool) -> list[Part]:
    """Return the keys of the moment."""
    pairs = [("Esc", "stop")] if busy else [("Esc", "give up editing")] if editing else [("Enter", "send")]
    pairs += [("F1", "help"), ("F2", "rack"), ("F3", "numbers"), ("^P", "commands")]
    pairs += [("^N", "new"), ("^R", "chats"), ("^Q", "quit")] if wide else [("^R", "chats")]
    parts: list[Part] = [(" ", "")]
    for key, what in pairs:
        parts += [(key, "accent"), (f" {what}   ", "muted")]
    return parts


def waiting_for(stats: Stats, stopping: bool) -> str:
    """Return what a reply without text waits for."""
    loading = stats.loading if stats.facts is None else None
    if loading is not None and loading.compiling:
        return f"compiling the model's steps{', then stopping' if stopping else ''} …"
    if stopping:
        return "stopping …"
    if loading is not None and loading.fraction < 1:
        return f"loading the model … {loading.fraction:.0%}"
    if stats.started_ns is None:
        return "waiting for the engine …"
    if stats.reused is not None and stats.prompt_tokens is not None:
        return f"reading the prompt … {stats.processed:,} of {stats.prompt_tokens - stats.reused:,} new tokens"
    return "working …" if stats.facts or stats.prompt_tokens else "loading the model …"


EDITING = {
    "user": "✎ editing a message: Enter asks it on a branch of its own, Esc gives up   ",
    "assistant": "✎ editing a reply: Enter keeps your words on a branch of their own, Esc gives up   ",
}


def waiting(queue: Sequence[str], edited: str | None, pastes: str) -> list[Part]:
    """Return the line above the prompt: what is edited, pasted or queued."""
    parts: list[Part] = []
    if edited is not None:
        parts.append((EDITING.get(edited, EDITING["user"]), "accent"))
    if queue:
        parts.append((f"⧗ {len(queue)} waiting: ", "accent"))
        parts.append((" · ".join(" ".join(text[:60].split()) for text in queue) + "   ", "muted"))
    if pastes:
        parts.append((pastes, "muted"))
    return parts


def welcome(profile: Profile, problem: Failure | None) -> str:
    """Return what an empty conversation shows: what to do, or what is missing and how to get it."""
    model = profile.model or ("the embedded model" if profile.backend in models.BACKENDS else "no file needed")
    about = f": {profile.summary}" if profile.summary else ""
    first = "Ask something below. The reply appears here, and its numbers beside it."
    if problem is not None:
        first = "\n".join(part for part in (problem.title, problem.detail, problem.next_step) if part)
    return f"""{first}

model     {model} ({profile.backend})
profile   {profile.name or "default"}{about}

F2  switches and settings: what they did shows in the next turn's numbers
^R  earlier conversations        ^P  everything else        F1  help"""
