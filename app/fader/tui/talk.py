"""`Talk`: what happens when something is sent, and what the transcript asks for.

Knows the app's parts by name; `app.py` puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fader_backends.errors import EmptyPrompt, FaderError
from textual import events
from textual.app import SystemCommand
from textual.screen import Screen

from .contain import contained
from .evidence import Evidence
from .prompt import Prompt
from .transcript import Transcript


class Talk(Evidence):
    """Handlers of prompt and transcript."""

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
                commands.run(self, *command)
            except FaderError:
                self.prompt.put(kept)
                raise
            if editing is not None and command[0] != "edit":
                self.leave_editing()
            return
        if not event.text.strip():
            raise EmptyPrompt("There is nothing to send.", "", "Type a message first.")
        if self.early is not None:
            self.early.append(event.text)
            self.prompt.put("")
        elif self.editing is not None:
            self.finish_editing(event.text)
        else:
            if self.chat is None:
                self.open_chat()
                if self.chat is None:
                    return  # it has said why
            self.ready().send(event.text)
            self.prompt.put("")
        self.transcript.follow()
        self.show_state()

    @contained
    def submit(self, text: str) -> None:
        """Send text that is not in the prompt any more; it goes back there when that fails."""
        try:
            self.ready().send(text)
        except FaderError:
            self.prompt.give_back(text)
            raise

    @contained
    def on_paste(self, event: events.Paste) -> None:
        """Give what is pasted anywhere in the chat to the prompt."""
        if not self.screen.is_modal:
            self.prompt.focus()
            self.prompt.take(event.text)

    @contained
    def on_text_area_changed(self) -> None:
        """Let the idle engine read along, at word borders and after a paste."""
        typed = self.prompt.text
        if typed[-1:].isspace() or abs(len(typed) - self.read) > 1:
            self.look_ahead()
        self.read = len(typed)

    def look_ahead(self) -> None:
        """Let the idle engine evaluate what is certain of the next prompt."""
        if self.chat is not None and not self.prompt.draft.startswith("/"):
            self.chat.look_ahead(self.prompt.draft, self.edited)

    def adjust(self, plugin: str, key: str) -> None:
        """Pass a changed setting on to the running reply."""
        if self.chat is not None:
            self.chat.adjust(plugin, key)

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
        self.look_ahead()

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
        """Show another version of a message."""
        found = self.ready().branches.show_version(event.node, event.step)
        if found is None:
            self.notify("There is no other version there.", markup=False, timeout=2)
        else:
            self.call_later(self.transcript.mark, found.id)

    @contained
    def on_transcript_asked(self, event: Transcript.Asked) -> None:
        """Do something with a message."""
        self.act(event.what, event.node)

    @contained
    def on_markdown_link_clicked(self, event: Any) -> None:
        """Open web links only: what a model writes may name anything."""
        if event.href.startswith(("https://", "http://")):
            self.open_url(event.href)
        else:
            self.notify(f"Not a web address, so it was not opened: {event.href}", markup=False)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:  # noqa: ARG002 - Textual's signature
        """Offer everything there is in the palette."""
        from . import commands

        yield from commands.palette(self)
