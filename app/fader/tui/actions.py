"""`Actions`: what keys, palette and slash commands do.

Knows the app's parts by name; `app.py` puts them together.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fader_backends.errors import BadValue, EmptyPrompt, FaderError, Failure
from textual.app import App
from textual.widgets import Static

from .. import profiles
from . import bars, theme
from .bars import Bar
from .contain import contained
from .flow import clean
from .prompt import Prompt
from .transcript import Transcript

if TYPE_CHECKING:
    from fader_plugins.turn import Numbers

    from ..chat import Chat
    from ..paths import Paths
    from ..profiles import Profile
    from ..switchboard import Switchboard
    from .house import House
    from .side import Side

TWICE_S = 1.0


class Actions(App[int]):
    """Everything a person can do, and the lines that say where things stand."""

    house: House
    paths: Paths
    profile: Profile
    chat: Chat | None
    side: Side | None
    transcript: Transcript
    prompt: Prompt
    editing: str | None
    """The draft put aside while the last message is edited; None when it is not."""
    interrupted_at: float
    numbers: Numbers | None
    """The numbers of the turn that runs or ran last in view."""

    def tell(self, failure: Failure) -> None:
        """Show what went wrong."""
        raise NotImplementedError

    @property
    def board(self) -> Switchboard | None:
        """The switches, once they are there."""
        return self.chat.board if self.chat is not None else None

    def ready(self) -> Chat:
        """Return the controller. Raises FaderError before everything is open."""
        if self.chat is None:
            raise FaderError("Fader is still starting, or could not open its files.", "", "Try again in a moment.")
        return self.chat

    # --- messages -----------------------------------------------------------------------------------------------------

    @contained
    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        """Send what was typed, or run it as a command. The prompt is emptied only when that worked."""
        from . import commands

        command = commands.parse(event.text)
        if command is not None:
            kept, editing = self.prompt.draft, self.editing
            self.prompt.put("")
            try:
                commands.run(self, *command)  # type: ignore[arg-type]
            except FaderError:
                self.prompt.put(kept)
                raise
            if editing is not None and command[0] != "edit":
                self.leave_editing()
            return
        chat = self.ready()
        if not event.text.strip():
            raise EmptyPrompt("There is nothing to send.", "", "Type a message first.")
        if self.editing is not None:
            chat.edit_last(event.text)
            self.leave_editing()
        else:
            chat.send(event.text)
            self.prompt.put("")
        self.transcript.follow()

    @contained
    def on_prompt_edit_last(self) -> None:
        """Up in an empty prompt."""
        self.action_edit_last()

    @contained
    def on_prompt_leave(self) -> None:
        """Ctrl+D in an empty prompt."""
        self.action_leave()

    @contained
    def on_prompt_attached(self) -> None:
        """Show what is kept beside the text."""
        self.show_state()

    @contained
    def on_prompt_move(self, event: Prompt.Move) -> None:
        """Move the transcript without leaving the prompt."""
        if event.pages:
            self.transcript.page(event.pages)
        elif event.rows:
            self.transcript.rows(event.rows)
        else:
            self.transcript.follow()

    @contained
    def on_transcript_copy(self, event: Transcript.Copy) -> None:
        """Copy a message, and say truly how."""
        self.copy_text(event.text)

    @contained
    def on_transcript_version(self, event: Transcript.Version) -> None:
        """Show another reply to the same question."""
        if self.ready().show_version(event.node, event.step) is None:
            self.notify("There is no other version there.", markup=False, timeout=2)

    @contained
    def on_markdown_link_clicked(self, event: Any) -> None:
        """Open web links only: what a model writes may name anything."""
        if event.href.startswith(("https://", "http://")):
            self.open_url(event.href)
        else:
            self.notify(f"Not a web address, so it was not opened: {event.href}", markup=False)

    def copy_text(self, text: str) -> None:
        """Ask the terminal to copy; it gives no answer, so none is claimed."""
        self.copy_to_clipboard(text)
        self.notify(
            f"{len(text):,} characters were sent to the terminal as OSC 52. "
            "Terminals that block it ignore this; tmux needs set-clipboard on.",
            title="Copy",
            markup=False,
            timeout=5,
        )

    # --- actions ------------------------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """Esc: stop the reply; else give up editing; else close a drawer; else go back to the prompt."""
        chat = self.chat
        if chat is not None and chat.cancel():
            self.show_state()
        elif self.editing is not None:
            self.leave_editing()
        else:
            if self.screen.has_class("-narrow"):
                self.screen.remove_class("rack-on", "numbers-on")
            self.prompt.focus()

    def action_interrupt(self) -> None:
        """Ctrl+C: copy what is selected, else stop; twice within a second quits."""
        selected = self.prompt.selected_text or self.screen.get_selected_text()
        if selected:
            self.copy_text(selected)
            return
        now = time.monotonic()
        if now - self.interrupted_at < TWICE_S:
            self.action_leave()
            return
        self.interrupted_at = now
        if self.chat is None or not self.chat.cancel():
            self.notify("Ctrl+C once more quits; the conversation is kept.", markup=False, timeout=2)
        self.show_state()

    def action_leave(self) -> None:
        """Quit; everything is on disk."""
        self.exit(0)

    async def action_quit(self) -> None:
        """Quit."""
        self.action_leave()

    def action_new(self) -> None:
        """Begin another conversation; a draft stays."""
        self.leave_editing()
        self.ready().new()
        self.prompt.focus()

    def action_regenerate(self) -> None:
        """Ask the last message once more."""
        self.ready().regenerate()

    def action_edit_last(self) -> None:
        """Put the last message into the prompt; sending makes a branch beside it."""
        chat = self.ready()
        question = chat.last_question()
        if question is None or self.editing is not None:
            return
        if chat.turn is not None:
            raise FaderError("A reply is running.", "", "Press Esc to stop it, then edit.")
        self.editing = self.prompt.draft
        self.prompt.put(question.content)
        self.show_state()

    def leave_editing(self) -> None:
        """Bring the draft back that was there before."""
        if self.editing is not None:
            draft, self.editing = self.editing, None
            self.prompt.put(draft)
            self.show_state()

    def action_chats(self) -> None:
        """Open the list of conversations."""
        from .screens import ChatList

        chat = self.ready()

        def chosen(conversation: str | None) -> None:
            if conversation is not None:
                self.leave_editing()
                chat.resume(conversation)
            elif chat.conversation is not None and chat.conversation.id not in listed():
                chat.new()

        def listed() -> set[str]:
            return {found.id for found in chat.store.conversations()}

        busy = chat.turn.conversation if chat.turn else None
        self.push_screen(ChatList(chat.store, self.house.now, busy), contained_callback(self, chosen))

    def action_rack(self) -> None:
        """Show or hide the rack, and give it the keys when it appears."""
        self._part("rack")

    def action_numbers(self) -> None:
        """Show or hide the numbers."""
        self._part("numbers")

    def _part(self, name: str) -> None:
        if self.side is None:
            return
        wide = self.screen.has_class("-wide")
        kind = f"{name}-off" if wide else f"{name}-on"
        self.screen.toggle_class(kind)
        shown = self.screen.has_class(kind) != wide
        if shown and not wide:
            self.screen.remove_class("numbers-on" if name == "rack" else "rack-on")
        if shown and name == "rack":
            self.side.rack.focus()
        else:
            self.prompt.focus()

    def action_help(self) -> None:
        """Show keys, commands, and the definition of every number."""
        from . import help_text
        from .screens import HelpScreen

        self.push_screen(HelpScreen(help_text.sections(self.side)))

    def action_redraw(self) -> None:
        """Draw everything anew."""
        self.refresh(layout=True)
        self.screen.refresh()

    def action_light_or_dark(self) -> None:
        """Change between the light and the dark theme."""
        self.theme = theme.DARK.name if not self.current_theme.dark else theme.LIGHT.name

    # --- switches and profiles ----------------------------------------------------------------------------------------

    def throw(self, name: str, on: bool) -> None:
        """Throw a plugin's switch. Raises FaderError."""
        if self.side is not None:
            self.side.throw(name, on)
            self.notify(f"{name} is {'on' if on else 'off'} from the next turn.", markup=False, timeout=2)

    def set_value(self, name: str, key: str, value: Any) -> None:
        """Change a setting. Raises FaderError."""
        if self.side is not None:
            self.side.set_value(name, key, value)

    def use_profile(self, name: str) -> None:
        """Take switches, settings and model from another profile, from the next turn on. Raises FaderError."""
        from ..switchboard import Switchboard

        chat, side = self.ready(), self.side
        assert side is not None
        profile = profiles.load(name, self.paths)
        chat.board = Switchboard(chat.board.registry, profile, side.fault)
        self.profile = profile
        side.comparison.switched()
        side.open(chat.board)
        self.show_title()
        self.show_empty()
        self.notify(f"Profile {profile.name} from the next turn.", markup=False, timeout=3)

    def action_save_profile(self) -> None:
        """Ask for a name and save the switches as they stand."""
        from .screens import Ask

        def named(name: str | None) -> None:
            if name:
                self.save_profile(name)

        self.push_screen(Ask("Save the switches as they stand under which name?"), contained_callback(self, named))

    def save_profile(self, name: str) -> None:
        """Write a profile to the user's folder, asking before one is replaced. Raises FaderError."""
        from .screens import Confirm

        if not name.replace("-", "").replace("_", "").isalnum():
            raise BadValue(f"{name!r} cannot be a profile's name.", "", "Use letters, digits, - and _.")
        path = self.paths.profiles / f"{name}.toml"

        def write(yes: bool | None) -> None:
            if yes:
                board = self.ready().board
                known = {key: plugin.info for key, plugin in board.registry.plugins.items()}
                profile_files.save(board.to_profile(name), path, known)
                self.notify(f"Saved as {path}. Use it with: fader -p {name}", title="Profile", markup=False)

        from .. import profile_files

        if path.exists():
            self.push_screen(
                Confirm(f"{path} is there already. Replace it?", "Replace"), contained_callback(self, write)
            )
        else:
            write(True)

    # --- where things stand -------------------------------------------------------------------------------------------

    def show_title(self) -> None:
        """Name model, profile and conversation."""
        model = self.profile.model.rpartition("/")[2] or "embedded model"
        if self.profile.backend != "llama.cpp" and not self.profile.model:
            model = self.profile.backend
        title = self.chat.conversation.title if self.chat and self.chat.conversation else "new chat"
        self.query_one("#title", Bar).show(
            [(" Fader ", "accent"), (f" {model}", "strong"), (f"  profile {self.profile.name or 'default'}", "muted")],
            [(f"{title[:40] or 'new chat'} ", "muted")],
        )

    def show_empty(self) -> None:
        """Say what to do in an empty conversation."""
        self.query_one("#empty", Static).update(clean(bars.welcome(self.profile)))

    def show_state(self) -> None:
        """Draw the lines that depend on what is going on."""
        if not self.query("#waiting"):
            return
        queue = self.chat.queue if self.chat else []
        left = bars.waiting(queue, self.editing is not None, self.prompt.pastes())
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
        """Fit the lines to the new width."""
        self.show_state()


def contained_callback(app: Actions, callback: Any) -> Any:
    """Return a callback whose faults are reported to the app."""

    class Caller:
        def __init__(self) -> None:
            self.app = app

        @contained
        def __call__(self, value: Any) -> None:
            callback(value)

    return Caller()
