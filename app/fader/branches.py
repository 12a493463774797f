"""`Branches`: going about in a conversation's tree, and growing it. Every change is a new branch; only `delete` takes away.

Knows the controller it belongs to, no screen and no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fader_backends.base import Message
from fader_backends.errors import EmptyPrompt, FaderError

from . import odds
from .odds import Chosen
from .store import Node, Twig

if TYPE_CHECKING:
    from .chat import Chat


class Branches:
    """The verbs of the tree. All raise FaderError with nothing changed."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    # --- looking ------------------------------------------------------------------------------------------------------

    def twigs(self) -> list[Twig]:
        """Return every message of the conversation in view, oldest first."""
        conversation = self.chat.conversation
        return self.chat.store.twigs(conversation.id) if conversation is not None else []

    def counts(self) -> dict[int, tuple[int, int]]:
        """Return message -> (its place among its versions, from 1; how many there are), where there are several."""
        versions: dict[int | None, list[int]] = {}
        for twig in self.twigs():
            versions.setdefault(twig.parent, []).append(twig.id)
        several = (ids for ids in versions.values() if len(ids) > 1)
        return {node: (place + 1, len(ids)) for ids in several for place, node in enumerate(ids)}

    def below(self, node: int) -> int:
        """Return how many messages follow a message, on all branches."""
        found = {node}
        for twig in self.twigs():
            if twig.parent in found:
                found.add(twig.id)
        return len(found) - 1

    def chosen(self, reply: Node) -> Chosen | None:
        """Return what a reply's tokens were chosen from, where that was noted."""
        return odds.unpacked(self.chat.store.odds(reply.id))

    # --- going --------------------------------------------------------------------------------------------------------

    def show_version(self, node: Node, step: int) -> Node | None:
        """Go to an earlier or later version of a message, and on to its latest words; None when there is none."""
        siblings = self.chat.store.children(node.conversation, node.parent)
        place = [one.id for one in siblings].index(node.id) + step
        if self.chat.turn is not None or not 0 <= place < len(siblings):
            return None
        self.go_to(siblings[place].id)
        return siblings[place]

    def go_to(self, node: int) -> None:
        """Bring a message into view, with the latest of what follows it."""
        self._idle()
        self._stand_at(latest(self.twigs(), node))

    # --- growing ------------------------------------------------------------------------------------------------------

    def edit(self, node: Node, text: str) -> None:
        """Say a message in other words, on a branch beside it. A question is asked; a reply stands as it is."""
        self._idle()
        if not text.strip():
            raise EmptyPrompt("There is nothing to send.", "", "Type a message, or press Esc to leave it as it was.")
        if node.role == "user":
            self.chat.ask(text, node.parent)
            return
        if text == node.content:
            raise FaderError("Nothing was changed.", "", "Change the reply, or press Esc to leave it as it was.")
        made = self.chat.store.add(node.conversation, node.parent, node.role, text, state="edited")
        self._stand_at(made.id)

    def again(self, node: Node) -> None:
        """Ask a question, or the question of a reply, once more."""
        self._idle()
        self.chat.run(self.question_of(node))

    def go_on(self, reply: Node) -> None:
        """Let the model go on from where a reply ends, on a branch beside it."""
        self._from(reply, Message("assistant", reply.content, reply.ids), self.chosen(reply))

    def force(self, reply: Node, place: int, token: int) -> None:
        """Put another token at a place of a reply and let the model go on from it, on a branch beside it."""
        chosen = self.chosen(reply)
        if chosen is None or place >= len(chosen.ids):
            raise FaderError("What this reply was chosen from is not known.", "", "Switch logprobs on and ask again.")
        given = chosen.until(place).then(token, chosen.odds[place], forced=True)
        self._from(reply, Message("assistant", "", given.ids), given)

    def _from(self, reply: Node, begin: Message, given: Chosen | None) -> None:
        self._idle()
        if reply.role != "assistant":
            raise FaderError("Only a reply can be gone on with.", "", "Mark a reply, or send the message again.")
        question = self._parent(reply)
        self.chat.run(question, begin, given)

    # --- cutting and copying ------------------------------------------------------------------------------------------

    def delete(self, node: Node) -> None:
        """Delete a message with everything below it; the view goes to its nearest version, else to what came before."""
        self._idle()
        twigs = self.twigs()
        path = {one.id for one in self.chat.nodes()}
        others = [twig.id for twig in twigs if twig.parent == node.parent and twig.id != node.id]
        self.chat.store.cut(node.id)
        if node.id not in path:
            self.chat.viewer.path_changed()
            return
        near = min(others, key=lambda other: (abs(other - node.id), other), default=None)
        self._stand_at(node.parent if near is None else latest(twigs, near))

    def drop(self, reply: Node) -> None:
        """Take a reply without a word away again; the conversation stands at its question."""
        self.chat.store.cut(reply.id)
        self._stand_at(reply.parent)

    def fork(self, node: Node) -> None:
        """Go on in a conversation of its own that holds what was said up to a message."""
        self._idle()
        made = self.chat.store.fork(node.id)
        self.chat.resume(made.id)

    # --- inside -------------------------------------------------------------------------------------------------------

    def picked(self) -> None:
        """Show the reply that was picked by hand."""
        conversation = self.chat.conversation
        assert conversation is not None
        self.chat.leaf = self.chat.store.conversation(conversation.id).leaf
        self.chat.viewer.path_changed()

    def question_of(self, node: Node) -> Node:
        """Return the question that a message is or answers."""
        return node if node.role == "user" else self._parent(node)

    def _idle(self) -> None:
        if self.chat.turn is not None:
            raise FaderError("A reply is running.", "", "Press Esc to stop it first.")

    def _parent(self, node: Node) -> Node:
        if node.parent is None:
            raise FaderError("Nothing was asked before this reply.", "", "Send a message first.")
        return self.chat.store.path(node.parent)[-1]

    def _stand_at(self, leaf: int | None) -> None:
        conversation = self.chat.conversation
        assert conversation is not None
        self.chat.store.set_leaf(conversation.id, leaf)
        self.chat.leaf = leaf
        self.chat.viewer.path_changed()


def latest(twigs: list[Twig], node: int) -> int:
    """Return the last message of the branch that goes on from `node` by the newest child each time."""
    newest = {twig.parent: twig.id for twig in twigs}
    while node in newest:
        node = newest[node]
    return node
