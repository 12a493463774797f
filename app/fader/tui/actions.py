"""`Actions`: what keys, palette and slash commands do.

Knows the app's parts by name; `app.py` puts them together.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from . import terminal, theme
from .contain import contained_callback
from .tree_acts import TreeActs

if TYPE_CHECKING:
    from ..compare.comparer import Comparer

TWICE_S = 1.0


class Actions(TreeActs):
    """Everything a key can do."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f4", "compare", "Side by side")]
    comparer: Comparer | None = None
    """The comparison shown last; it is there again when the screen is opened again."""

    def watch_terminal(self) -> None:
        """Quit when the terminal is closed without a hangup signal, as in a session that has no controlling terminal."""
        if not self.is_headless:
            self.set_interval(terminal.ASKED_S, lambda: self.exit(1) if terminal.gone() else None)

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
        stop = getattr(self.screen, "stop_all", self.chat.cancel if self.chat is not None else lambda: False)
        if not stop():
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
        question = self.ready().last_question()
        if question is not None:
            self.edit(question)

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
        """Give the keys to the rack, showing it when it is hidden; hide it when it has them."""
        self._part("rack")

    def action_numbers(self) -> None:
        """Show or hide the numbers."""
        self._part("numbers")

    def _part(self, name: str) -> None:
        rack = self.side.rack
        if name == "rack" and self._shown(name) and not rack.has_focus:
            rack.focus()
            return
        wide = self.screen.has_class("-wide")
        self.screen.toggle_class(f"{name}-off" if wide else f"{name}-on")
        shown = self._shown(name)
        if shown and not wide:
            self.screen.remove_class("numbers-on" if name == "rack" else "rack-on")
        if shown and name == "rack":
            rack.focus()
        else:
            self.prompt.focus()

    def _shown(self, name: str) -> bool:
        if self.screen.has_class("-wide"):
            return not self.screen.has_class(f"{name}-off")
        return self.screen.has_class(f"{name}-on")

    def action_help(self) -> None:
        """Show keys, commands, and the definition of every number."""
        from . import help_text
        from .screens import HelpScreen

        self.push_screen(HelpScreen(help_text.sections(self.side)))

    def action_compare(self) -> None:
        """Set columns side by side, with what stands in the prompt as the question."""
        from . import beside

        beside.opened(self, self.prompt.draft)

    def action_redraw(self) -> None:
        """Draw everything anew."""
        self.refresh(layout=True)
        self.screen.refresh()

    def action_light_or_dark(self) -> None:
        """Change between the light and the dark theme."""
        self.theme = theme.DARK.name if not self.current_theme.dark else theme.LIGHT.name

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
