"""`Lines`: title, empty screen, waiting line, context bar and keys: where things stand, in words.

Knows the app's parts by name; `app.py` puts them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fader_backends.errors import FaderError, Failure
from textual.widgets import Static

from .. import models
from . import bars
from .bars import Bar
from .contain import Contained
from .flow import clean
from .prompt import Prompt
from .transcript import Transcript

if TYPE_CHECKING:
    from fader_plugins.turn import Numbers

    from ..chat import Chat
    from ..profiles import Profile
    from ..store import Node
    from ..switchboard import Switchboard
    from .frames import Frames
    from .house import RunningEngine
    from .side import Side


class Lines(Contained):
    """What the parts of the app share, and the lines around the transcript."""

    profile: Profile
    chat: Chat | None
    side: Side
    transcript: Transcript
    prompt: Prompt
    edited: Node | None
    """The message that is edited."""
    editing: str | None
    """The draft put aside while a message is edited; None when none is."""
    read: int
    early: list[str] | None
    """What was sent before everything was open; None since then."""
    problem: Failure | None
    """Why the profile's model cannot be loaded, as far as can be told without loading it."""
    interrupted_at: float
    frames: Frames
    engine: RunningEngine | None
    numbers: Numbers | None
    """The numbers of the turn that runs or ran last in view."""

    def open_chat(self) -> None:
        """Open the conversations."""
        raise NotImplementedError

    @property
    def board(self) -> Switchboard | None:
        """The switches, once they are there."""
        return self.chat.board if self.chat is not None else None

    def ready(self) -> Chat:
        """Return the controller. Raises FaderError before everything is open."""
        if self.chat is None:
            raise FaderError("The conversations are not open.", "", "Send a message: it opens them, or says why not.")
        return self.chat

    # --- where things stand -------------------------------------------------------------------------------------------

    def show_title(self) -> None:
        """Name model, profile and conversation."""
        model = self.profile.model.rpartition("/")[2] or "embedded model"
        if self.profile.backend not in models.BACKENDS and not self.profile.model:
            model = self.profile.backend
        title = self.chat.conversation.title if self.chat and self.chat.conversation else ""
        self.query_one("#title", Bar).show(
            [(" Fader ", "accent"), (f" {model}", "strong"), (f"  profile {self.profile.name or 'default'}", "muted")],
            [(f"{title[:40] or 'new chat'} ", "muted")],
        )

    def show_empty(self) -> None:
        """Say what to do in an empty conversation."""
        self.query_one("#empty", Static).update(clean(bars.welcome(self.profile, self.problem)))

    def show_state(self) -> None:
        """Draw the lines that depend on what is going on."""
        if not self.query("#waiting"):
            return
        queue = [*(self.early or ()), *(self.chat.queue if self.chat else ())]
        left = bars.waiting(queue, self.edited.role if self.edited else None, self.prompt.pastes())
        waiting = self.query_one("#waiting", Bar)
        waiting.set_class(bool(left), "-shown")
        waiting.show(left)
        busy = self.chat is not None and (self.chat.turn is not None)
        wide = self.size.width >= 100
        self.query_one("#keys", Bar).show(bars.keys(busy, self.editing is not None, wide))
        self.show_context()

    def show_context(self) -> None:
        """Draw the context bar with the main numbers."""
        numbers = self.numbers
        cells = 20 if self.size.width >= 100 else 10
        reserve = self.profile.max_tokens
        used, length = (numbers.context_used, numbers.context_length) if numbers else (None, None)
        self.query_one("#context", Bar).show(bars.context_parts(used, length, reserve, cells), bars.ticker(numbers))

    def on_resize(self) -> None:
        """Fit the lines to the new width, once there is one."""
        self.call_after_refresh(self.show_state)
