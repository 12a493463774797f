"""`Chat`: one conversation at a time; what is typed goes to the store, then to the engine, and replies come back.

Knows no screen toolkit and no model; belongs to one thread. Clocks and ids are passed in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec
from fader_backends.base import Message
from fader_backends.errors import EmptyPrompt, FaderError
from fader_plugins.turn import AnyEvent, Failed, Finished, GenerationRequest, RequestDraft, Token

from . import kept
from .branches import Branches
from .metrics import Stats
from .notices import compiled, notice_of
from .odds import Chosen, packed
from .picking import Picking
from .store import Conversation, Node, Store
from .switchboard import Switchboard, declared_cost
from .turns import Engine as Engine
from .turns import Turn as Turn
from .turns import Viewer as Viewer
from .turns import joined, odds_budget, said

FLUSH_S = 1.0
"""How much of a reply may be lost when the app is killed."""


class Chat:
    """Ties store, switchboard and engine together."""

    def __init__(
        self,
        store: Store,
        board: Switchboard,
        engine: Engine,
        viewer: Viewer,
        *,
        now: Callable[[], datetime],
        seconds: Callable[[], float],
        nanoseconds: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        self.store = store
        self.board = board
        self.engine = engine
        self.viewer = viewer
        self.now = now
        self.seconds = seconds
        self.nanoseconds = nanoseconds
        self.new_id = new_id
        self.branches = Branches(self)
        self.picking: Picking | None = None
        self.conversation: Conversation | None = None
        self.leaf: int | None = None
        self.turn: Turn | None = None
        self.queue: list[str] = []
        self.ahead: tuple[int | None, str] | None = None
        """Where, and for which text, the engine was last asked to evaluate ahead."""

    # --- what a person does -------------------------------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Ask, or queue while a reply runs. Raises EmptyPrompt, and FaderError with nothing stored."""
        if not text.strip():
            raise EmptyPrompt("There is nothing to send.", "", "Type a message first.")
        if self.turn is not None:
            self.queue.append(text)
            self.viewer.queue_changed()
        else:
            self.ask(text, self.leaf)

    def last_question(self) -> Node | None:
        """Return the last user message in view."""
        return next((node for node in reversed(self.nodes()) if node.role == "user"), None)

    def edit_last(self, text: str) -> None:
        """Ask again in other words, on a branch beside the last question; what was there stays. Raises FaderError."""
        self.branches.edit(self._question("edited"), text)

    def regenerate(self) -> None:
        """Ask the last question once more; the earlier reply stays beside the new one. Raises FaderError."""
        self.branches.again(self._question("asked again"))

    def cancel(self) -> bool:
        """Stop the running reply and give waiting prompts back. Returns whether there was anything to stop."""
        waiting, self.queue = self.queue, []
        if waiting:
            self.viewer.queue_changed()
            self.viewer.returned("\n\n".join(waiting))
        if self.turn is None:
            return bool(waiting)
        if not self.turn.stopping:
            self.turn.stopping = True
            self.engine.cancel(self.turn.request.id)
        return True

    def new(self) -> None:
        """Begin another conversation; it is stored with its first message."""
        self.cancel()
        self._leave()
        self.conversation, self.leaf = None, None
        self.viewer.path_changed()

    def resume(self, conversation: str) -> None:
        """Go on with a stored conversation. Raises FaderError."""
        found = self.store.conversation(conversation)
        self.cancel()
        if self.conversation is not None and self.conversation.id != conversation:
            self._leave()
        self.conversation, self.leaf = found, found.leaf
        self.viewer.path_changed()

    def nodes(self) -> list[Node]:
        """Return the messages in view, first to last. Raises StoreError."""
        return self.store.path(self.leaf)

    # --- what comes back ----------------------------------------------------------------------------------------------

    def on_event(self, event: AnyEvent) -> None:
        """Fold one event of the engine into the running turn; events of other turns are dropped."""
        if (notice := notice_of(event)) is not None:
            self.viewer.tell(notice)
        turn = self.turn
        if self.picking is not None and self.picking.fold(event):
            return
        if turn is None or event.request_id != turn.request.id:
            return
        turn.take(event)
        match event:
            case Token():
                self.flush()
            case Finished():
                if (notice := compiled(turn.stats)) is not None:
                    self.viewer.tell(notice)
                self._end(turn, "cancelled" if event.reason == "cancelled" else "complete", event.ids)
            case Failed():
                self._end(turn, "failed", event.ids or tuple(turn.stats.ids))

    def look_ahead(self, typed: str, edited: Node | None = None) -> None:
        """Let the idle engine evaluate what is certain of the next prompt; `typed` is what stands where it is typed."""
        if self.turn is not None:
            return
        if edited is not None and edited.role == "assistant":
            return
        parent = edited.parent if edited is not None else self.leaf
        try:
            before = self._messages(parent)
            draft = self._plan([*before, Message("user", typed)])
            certain = self.board.look_ahead(draft, typed)
            if certain is None or (parent, certain) == self.ahead:
                return
            self.ahead = parent, certain
            self.opened()
            request = self.planned([*before, Message("user", certain)])
        except FaderError:
            return  # sending will meet and show it; until then nobody asked
        self.engine.prepare(request)

    def adjust(self, plugin: str, key: str) -> None:
        """Pass a changed setting on to the running reply, if it is one that acts live there."""
        turn = self.turn
        if turn is None or declared_cost(type(self.board.settings(plugin)), key) != "live":
            return
        state = turn.request.plugins.get(plugin)
        if state is None or state.on != self.board.states[plugin].on:
            return  # the switch itself acts next turn, so its settings do
        kept = {"seed": turn.request.sampler.seed, "row": turn.request.sampler.row}
        sampler = msgspec.structs.replace(self._plan([]).sampler, **kept)
        if sampler != turn.sampler:
            turn.sampler = sampler
            self.engine.adjust(turn.request.id, sampler)

    def flush(self) -> None:
        """Write the running reply when a second has passed since it was written last."""
        turn = self.turn
        if turn is None or self.seconds() - turn.flushed < FLUSH_S:
            return
        turn.flushed = self.seconds()
        self._write(turn, "streaming", tuple(turn.stats.ids), None)

    def close(self) -> None:
        """Stop what runs and write what there is of it."""
        if self.picking is not None:
            self.picking.close()
        if self.turn is not None:
            self.engine.cancel(self.turn.request.id)
            self._write(self.turn, "cancelled", tuple(self.turn.stats.ids), self.turn.record())
            self.turn = None
        self._leave()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _question(self, what: str) -> Node:
        question = self.last_question()
        if question is None:
            raise FaderError(f"There is no message yet that could be {what}.", "", "Send one first.")
        return question

    def ask(self, text: str, parent: int | None) -> None:
        """Put a question below `parent` and run it. Raises FaderError with nothing stored."""
        asked = Message("user", text)
        request = self.planned([*self._messages(parent), asked])
        conversation = self.opened()
        request = msgspec.structs.replace(request, owner=conversation.id, now=conversation.clock)
        question = self.store.add(conversation.id, parent, "user", text)
        if self.leaf is None:
            self.conversation = self.store.conversation(conversation.id)  # it has its title now
        self._submit(question, request)

    def _leave(self) -> None:
        """Take a conversation that was opened only to evaluate ahead out of the store again."""
        if self.conversation is not None and self.leaf is None:
            with contextlib.suppress(FaderError):
                self.store.delete(self.conversation.id)

    def opened(self) -> Conversation:
        """Return the conversation in view, making it in the store if it has only been thought of."""
        if self.conversation is None:
            self.conversation = self.store.create(self.board.profile.name)
        return self.conversation

    def run(self, question: Node, begin: Message | None = None, given: Chosen | None = None) -> None:
        """Answer a question, with a reply that begins with `begin`; `given` has what that was chosen from."""
        self._submit(question, msgspec.structs.replace(self.request(question), begin=begin), given)

    def request(self, question: Node) -> GenerationRequest:
        """Return the turn that answers a question, with the switches as they stand. Raises FaderError."""
        return self.planned(self._messages(question.id))

    def _submit(self, question: Node, request: GenerationRequest, given: Chosen | None = None) -> None:
        self.leaf = question.id
        reply = self.store.add(question.conversation, question.id, "assistant", "", state="streaming")
        self.leaf, self.ahead = reply.id, None
        profile = self.board.to_profile(self.board.profile.name)
        self.turn = Turn(Stats(request=request), question, reply, self.seconds(), profile, given)
        self.viewer.turn_began(self.turn)
        self.engine.submit(request)

    def planned(self, messages: Sequence[Message]) -> GenerationRequest:
        """Return a turn of these messages, with the switches as they stand. Raises FaderError."""
        return self._plan(messages).freeze(self.new_id(), self.nanoseconds())

    def _plan(self, messages: Sequence[Message]) -> RequestDraft:
        owner = self.conversation.id if self.conversation else ""
        clock = self.conversation.clock if self.conversation else self.now()
        system = self.board.profile.system
        told = [Message("system", system)] if system else []
        return self.board.plan(owner, [*told, *joined(messages)], clock)

    def _messages(self, leaf: int | None) -> list[Message]:
        """Return what was said up to `leaf`."""
        return said(self.store.path(leaf))

    def _end(self, turn: Turn, state: str, ids: tuple[int, ...]) -> None:
        self.turn = None
        self._write(turn, state, ids, turn.record())
        self.viewer.turn_ended(turn)
        if not self.queue:
            return
        if state == "failed":
            self._give_back()
            return
        # After a stop, what waits was typed since then: `cancel` gave the rest back.
        text = self.queue.pop(0)
        self.viewer.queue_changed()
        try:
            self.ask(text, self.leaf)
        except FaderError as error:
            self.queue.insert(0, text)
            self._give_back()
            self.viewer.tell(error.failure)

    def _give_back(self) -> None:
        waiting, self.queue = self.queue, []
        self.viewer.queue_changed()
        self.viewer.returned("\n\n".join(waiting))

    def _write(self, turn: Turn, state: str, ids: tuple[int, ...], record: bytes | None) -> None:
        try:
            self.store.update(turn.reply.id, content=turn.text, ids=ids, state=state, record=record)
            turn.reply = msgspec.structs.replace(turn.reply, content=turn.text, ids=ids, state=state, record=record)
            if record is not None:
                self._keep(turn)
        except FaderError as error:
            if not turn.trouble or state != "streaming":
                self.viewer.tell(error.failure)
            turn.trouble = True

    def _keep(self, turn: Turn) -> None:
        """Keep beside a reply that has ended what it was chosen from, and its events."""
        if (chosen := turn.chosen()) is not None:
            self.store.keep_odds(turn.reply.id, packed(chosen), odds_budget(turn.request))
        if mib := self.board.profile.record_mib:
            self.store.keep_events(turn.reply.id, kept.packed(kept.kept(turn)), mib * 2**20)
