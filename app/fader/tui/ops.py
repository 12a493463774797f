"""`/ops`: a sheet on what one token costs in operators, asked of the engine when it is opened.

Knows the app's engine and frames by name, and how to show tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fader_backends.base import Message
from fader_backends.errors import FaderError
from fader_plugins.turn import AnyEvent, Failed, GenerationRequest, Looked
from textual.widgets import Static

from ..operators import rows_of
from .flow import clean
from .screens import HelpScreen

if TYPE_CHECKING:
    from .frames import Frames
    from .talk import Talk

WAITING = "Looking into the model's steps; with graphs that are not compiled yet this takes as long as compiling them."


def show(app: Talk) -> None:
    """Open the sheet and ask. Raises FaderError while a reply runs, and when the turn cannot be planned."""
    chat = app.ready()
    if chat.turn is not None or app.engine is None:
        raise FaderError("A reply is being written.", "", "Ask again when it has ended.")
    request = chat.planned([Message("user", "")])
    app.push_screen(OpsScreen(app.frames, request))
    app.engine.look(request)


class OpsScreen(HelpScreen):
    """Operators and kernels per token, by class; what an engine does not tell is not there."""

    def __init__(self, frames: Frames, request: GenerationRequest) -> None:
        super().__init__([("What one token costs", [("", WAITING)])])
        self.frames = frames
        self.request = request

    def on_mount(self) -> None:
        """Wait for the engine's answer."""
        super().on_mount()
        self.frames.others.append(self.take)

    def on_unmount(self) -> None:
        """Wait no more."""
        self.frames.others.remove(self.take)

    def take(self, events: list[AnyEvent]) -> bool:
        """Show the answer when it is among the events; nothing else is waited for."""
        for event in events:
            if event.request_id == self.request.id and isinstance(event, Looked | Failed):
                self.sections = sections(event)
                self.query_one(".text", Static).update(self._text())
        return False


def sections(event: Looked | Failed) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the answer as the sheet shows it."""
    if isinstance(event, Failed):
        failure = event.failure
        return [(clean(failure.title), [("", clean(f"{failure.detail} {failure.next_step}".strip()))])]
    found = [("What one token costs", [("", clean(f"{event.facts.model}, {event.facts.device}"))])]
    for one in event.tables:
        (title, *_), *rows = rows_of(one)
        shown = [(name.strip(), f"{calls:>8}{ms and ms + ' ms':>12}") for name, calls, ms in rows]
        found.append((clean(title.capitalize()), [*shown, *((name, clean(text)) for name, text in one.facts.items())]))
    return found
