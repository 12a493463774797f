"""`Picking`: a reply whose tokens a person picks, one by one or until one is too surprising.

Knows the controller it belongs to, no screen. Each step is a turn of its own that begins with what was picked so far; the
prefix is in the session, so a step evaluates one token. All steps share the first one's settings and seed: who takes
whatever is offered gets the reply that the model would have written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
from fader_backends.base import Message
from fader_backends.errors import Failure
from fader_backends.odds import Odds
from fader_plugins.turn import AnyEvent, Failed, Finished, Numbers

from .metrics import Stats
from .odds import END, NOTHING, Chosen, packed
from .store import Node
from .turns import bare, odds_budget

if TYPE_CHECKING:
    from .chat import Chat

FEWEST = 10
"""Candidates to pick from, also where fewer are noted."""
EVERY = -1.0
"""A bound that every token exceeds."""


class Picking:
    """One reply in the making. `changed` is called whenever something is new. Raises FaderError with nothing stored."""

    def __init__(self, chat: Chat, question: Node, begin: Chosen, changed: Callable[[], None]) -> None:
        self.chat = chat
        self.question = question
        self.chosen = begin
        self.changed = changed
        self.offered: tuple[int, Odds] | None = None
        """The token that the model would take next, and what it was chosen from."""
        self.proposed: dict[int, tuple[int, Odds]] = {}
        """Place -> what was offered where a person then picked."""
        self.ended = False
        self.failure: Failure | None = None
        first = chat.request(question)
        self.first = msgspec.structs.replace(first, logprobs=max(first.logprobs, FEWEST))
        self.stats: Stats | None = None
        """Of the step that runs."""
        self.last = Stats(request=self.first)
        self.reply = chat.store.add(question.conversation, question.id, "assistant", "", state="streaming")
        self.ask(EVERY)

    # --- what a person does -------------------------------------------------------------------------------------------

    def take(self, token: int) -> None:
        """Take one of the candidates; the next ones follow. Does nothing while a step runs."""
        if self.offered is None or self.stats is not None:
            return
        proposed, odds = self.offered
        if self.chosen.label(token) == END:
            self.ended, self.offered = True, None
            self.changed()
            return
        self.proposed[len(self.chosen.ids)] = self.offered
        self.chosen = self.chosen.then(token, odds, forced=token != proposed)
        self.ask(EVERY)

    def undo(self) -> None:
        """Give the last token back; what it was chosen from is offered again."""
        if self.stats is not None or not self.chosen.ids or (self.chosen.odds[-1] is None and not self.ended):
            return
        self.failure = None
        if self.ended:
            self.ended = False
            self.ask(EVERY)
            return
        token, odds = self.chosen.ids[-1], self.chosen.odds[-1]
        assert odds is not None
        self.chosen = self.chosen.until(len(self.chosen.ids) - 1)
        self.offered = self.proposed.get(len(self.chosen.ids), (token, odds))
        self._write("streaming")
        self.changed()

    def run(self, bound: float) -> None:
        """Let the model go on by itself until a token's surprise is above `bound` bits, or the reply ends."""
        if self.stats is not None or self.ended:
            return
        if self.offered is not None:
            token, odds = self.offered
            if self.chosen.label(token) == END:
                self.take(token)
                return
            self.chosen = self.chosen.then(token, odds, forced=False)
        self.ask(bound)

    def stop(self) -> None:
        """Stop the step that runs; what came stays."""
        if self.stats is not None:
            self.chat.engine.cancel(self.stats.request.id)

    def close(self) -> None:
        """Keep what there is; a reply without a token is taken away again."""
        self.stop()
        self.chat.picking = None
        if not self.chosen.ids:
            self.chat.branches.drop(self.reply)
            return
        self._write("complete" if self.ended else "cancelled", self._record())
        self.chat.store.keep_odds(self.reply.id, packed(self.chosen), odds_budget(self.first))

    # --- what comes back ----------------------------------------------------------------------------------------------

    def ask(self, bound: float) -> None:
        """Run one step."""
        self.offered = None
        begin = Message("assistant", "", self.chosen.ids) if self.chosen.ids else None
        request = msgspec.structs.replace(
            self.first,
            id=self.chat.new_id(),
            submitted_ns=self.chat.nanoseconds(),
            begin=begin,
            until_bits=bound,
        )
        self.stats = Stats(request=request)
        self.chat.engine.submit(request)
        self.changed()

    def fold(self, event: AnyEvent) -> bool:
        """Take an event in; return whether it was of the step that runs."""
        stats = self.stats
        if stats is None or event.request_id != stats.request.id:
            return False
        stats.fold(event)
        if isinstance(event, Finished | Failed):
            self._end(stats, event)
        self.changed()
        return True

    def so_far(self) -> Chosen:
        """Return the tokens with those of the step that runs."""
        if self.stats is None or not self.stats.odds:
            return self.chosen
        return self._with(self.stats)

    def _with(self, stats: Stats) -> Chosen:
        ids = tuple(stats.ids[stats.begun :])
        return msgspec.structs.replace(
            self.chosen,
            ids=(*self.chosen.ids, *ids),
            odds=(*self.chosen.odds, *stats.odds),
            pieces={**self.chosen.pieces, **stats.pieces},
        )

    def _end(self, stats: Stats, event: Finished | Failed) -> None:
        self.stats, self.last = None, stats
        self.chosen = self._with(stats)
        if stats.offered is not None:
            self.offered = stats.offered.token, stats.offered.odds
        if isinstance(event, Failed):
            self.failure = event.failure
        elif event.reason in ("end", "stop", "length", "context"):
            self.ended = True
        elif event.reason == "cancelled" and self.chat.picking is self:
            self.ask(EVERY)
        self._write("streaming")

    @property
    def text(self) -> str:
        """The reply so far."""
        return "".join(self.chosen.texts())

    def _write(self, state: str, record: bytes | None = None) -> None:
        if self.chat.picking is not self and state == "streaming":
            return
        self.chat.store.update(self.reply.id, content=self.text, ids=self.chosen.ids, state=state, record=record)

    def _record(self) -> bytes:
        """Return the record: settings and outcome; times would be those of a person thinking."""
        reason = "end" if self.ended else "cancelled"
        summary = self.chosen.summary()
        record = self.last.record()
        numbers = Numbers(
            output_tokens=len(self.chosen.ids),
            surprise_bits=summary.bits,
            finish_reason=reason,
            context_used=record.numbers.context_used,
            context_length=record.numbers.context_length,
        )
        return bare(msgspec.structs.replace(record, numbers=numbers, text=self.text, ids=self.chosen.ids, failure=None))


def begin(chat: Chat, question: Node, changed: Callable[[], None], given: Chosen = NOTHING) -> Picking:
    """Begin to pick a reply to a question, on a branch of its own, after `given`. Raises FaderError."""
    chat.picking = Picking(chat, question, given, changed)
    return chat.picking
