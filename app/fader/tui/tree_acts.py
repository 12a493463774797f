"""`TreeActs`: what can be done with one message of the conversation: edit, ask again, go on, branch, fork, delete.

Knows the app's parts by name; the verbs themselves are `fader.branches`'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fader_backends.errors import FaderError

from .contain import contained_callback
from .switches import Switches

if TYPE_CHECKING:
    from ..odds import Chosen
    from ..store import Node


class TreeActs(Switches):
    """Acts on messages. `act` is called with the names in `messages.ASKS`."""

    def act(self, what: str, node: Node | None = None) -> None:
        """Do it with `node`, or with the marked or last message. Raises FaderError."""
        node = node or self.transcript.marked()
        if node is None:
            raise FaderError("There is no message yet.", "", "Send one first.")
        branches = self.ready().branches
        match what:
            case "edit":
                self.edit(node)
            case "again":
                branches.again(node)
            case "go_on":
                branches.go_on(node)
            case "fork":
                branches.fork(node)
                self.notify("This is a chat of its own now; Ctrl+R has the other one.", markup=False, timeout=4)
            case "delete":
                self.delete(node)
            case "tree":
                self.show_tree(node)
            case "odds":
                self.show_odds(node)
            case _:
                self.pick(node)

    def edit(self, node: Node) -> None:
        """Put a message into the prompt; sending makes a branch beside it. Raises FaderError while a reply runs."""
        if self.editing is not None:
            return
        if self.ready().turn is not None:
            raise FaderError("A reply is running.", "", "Press Esc to stop it, then edit.")
        self.editing, self.edited = self.prompt.draft, node
        self.prompt.put(node.content)
        self.prompt.focus()
        self.show_state()

    def finish_editing(self, text: str) -> None:
        """Make the branch. Raises FaderError, and the text stays in the prompt."""
        assert self.edited is not None
        self.ready().branches.edit(self.edited, text)
        self.leave_editing()

    def leave_editing(self) -> None:
        """Bring the draft back that was there before."""
        if self.editing is not None:
            draft, self.editing, self.edited = self.editing, None, None
            self.prompt.put(draft)
            self.show_state()

    def delete(self, node: Node) -> None:
        """Ask, then delete a message with all that follows it."""
        from .screens import Confirm

        branches = self.ready().branches
        below = branches.below(node.id)

        def answered(yes: bool | None) -> None:
            if yes:
                branches.delete(node)

        more = f" and {below} that follow it, on all branches" if below else ""
        self.push_screen(Confirm(f"Delete this message{more}, for good?", "Delete"), contained_callback(self, answered))

    def show_tree(self, node: Node) -> None:
        """Show the outline of the conversation; Enter there goes to a message."""
        from .tree import TreeScreen

        branches = self.ready().branches

        def chosen(found: int | None) -> None:
            if found is not None:
                branches.go_to(found)

        path = [one.id for one in self.ready().nodes()]
        self.push_screen(TreeScreen(branches.twigs(), path, node.id), contained_callback(self, chosen))

    def show_odds(self, node: Node) -> None:
        """Show what a reply's tokens were chosen from."""
        from .odds_screen import Forced, OddsScreen

        if node.role == "user":
            raise FaderError("Your own words were not chosen by a model.", "", "Mark a reply (j and k), then p.")
        branches = self.ready().branches
        chosen = branches.chosen(node)
        if chosen is None:
            raise FaderError(
                "What this reply was chosen from was not noted.",
                "",
                "Switch logprobs on (F2, or /on logprobs), then ask again (r): new replies are noted.",
            )

        def forced(at: Forced | None) -> None:
            if at is not None and at.token is None:
                self.pick(node, chosen.until(at.place))
            elif at is not None and at.token is not None:
                branches.force(node, at.place, at.token)

        self.push_screen(OddsScreen(chosen), contained_callback(self, forced))

    def pick(self, node: Node, given: Chosen | None = None) -> None:
        """Let a person pick the tokens of a reply, after `given`."""
        from ..odds import NOTHING
        from .pick_screen import PickScreen

        chat = self.ready()
        if chat.turn is not None:
            raise FaderError("A reply is running.", "", "Press Esc to stop it first.")

        def closed(_: None) -> None:
            chat.branches.picked()

        question = chat.branches.question_of(node)
        self.push_screen(PickScreen(chat, question, given or NOTHING), contained_callback(self, closed))

    def count_versions(self) -> None:
        """Show beside each message which version it is."""
        if self.chat is not None:
            self.transcript.count(self.chat.branches.counts())
