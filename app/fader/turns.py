"""What a chat deals with: who runs requests, who is told what happens, and a turn while it runs.

Knows no store and no screen toolkit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
from fader_backends.base import Message, SamplerSettings
from fader_backends.errors import Failure
from fader_plugins.logprobs import Logprobs
from fader_plugins.turn import AnyEvent, GenerationRequest, RunRecord

from .metrics import Stats
from .odds import NOTHING, Chosen
from .profiles import Profile
from .store import Node


class Engine(Protocol):
    """What runs requests; `Chat.on_event` is given its events."""

    def submit(self, request: GenerationRequest) -> None:
        """Take a request up; its events follow."""
        ...

    def prepare(self, request: GenerationRequest) -> None:
        """Evaluate what this turn is certain to begin with, while nothing else is to do."""
        ...

    def adjust(self, request_id: str, sampler: SamplerSettings) -> None:
        """Use other sampler settings for a running reply from its next token on."""
        ...

    def cancel(self, request_id: str) -> None:
        """Stop a request soon; it still ends with Finished or Failed."""
        ...


class Viewer(Protocol):
    """Who is told what happens."""

    def turn_began(self, turn: Turn) -> None:
        """Tell that a question is stored and its reply is on its way."""
        ...

    def turn_ended(self, turn: Turn) -> None:
        """Tell that the reply has its end; nothing more comes."""
        ...

    def path_changed(self) -> None:
        """Tell that other messages than before are in view: another conversation or branch."""
        ...

    def queue_changed(self) -> None:
        """Tell that waiting prompts came or went."""
        ...

    def returned(self, text: str) -> None:
        """Give back text that was not sent, so that it is not lost."""
        ...

    def tell(self, failure: Failure) -> None:
        """Show what went wrong."""
        ...


class Turn:
    """One question and its running reply."""

    def __init__(
        self, stats: Stats, question: Node, reply: Node, begun: float, profile: Profile, given: Chosen | None = None
    ) -> None:
        self.stats = stats
        self.events: list[AnyEvent] = []
        """All of them, as they came."""
        self.profile = profile
        """All switches and settings as they stood when it was sent."""
        self.question = question
        self.reply = reply
        self.given = given
        """What the reply's given beginning was chosen from, where that is known."""
        self.stopping = False
        self.flushed = begun
        self.sampler = stats.request.sampler
        """The sampler settings as they act now."""
        self.trouble = False
        """Whether the store has refused a flush of this reply already."""

    def take(self, event: AnyEvent) -> None:
        """Take in one of its events."""
        self.events.append(event)
        self.stats.fold(event)

    @property
    def request(self) -> GenerationRequest:
        """What was asked for."""
        return self.stats.request

    @property
    def conversation(self) -> str:
        """The conversation it belongs to, which need not be the one in view."""
        return self.question.conversation

    def record(self) -> bytes:
        """Return the turn's record. Its messages are in the tree already, and would grow with every turn."""
        return bare(self.stats.record())

    def chosen(self) -> Chosen | None:
        """Return what the reply's tokens were chosen from so far; None when nobody asked for that."""
        return noted(self.stats, self.given)

    @property
    def text(self) -> str:
        """The reply so far."""
        return self.stats.text


def noted(stats: Stats, given: Chosen | None = None) -> Chosen | None:
    """Return what a reply's tokens were chosen from, those of its beginning as `given` says; None when nobody asked."""
    given = given or NOTHING
    if not stats.request.logprobs or not stats.ids:
        return None
    ids = tuple(stats.ids)
    known = given.odds if given.ids == ids[: stats.begun] else (None,) * stats.begun
    return Chosen(
        ids=ids,
        odds=(*known, *stats.odds),
        pieces={**given.pieces, **stats.pieces},
        forced=given.forced if known is given.odds else (),
    )


def said(nodes: Sequence[Node]) -> list[Message]:
    """Return what the messages of a path say to a model.

    Replies without a word are left out, and so are questions that failed without one: a prompt that was too long for
    the context must not make every later one too long.
    """
    failed = {node.parent for node in nodes if node.state == "failed" and not node.content}
    kept = [node for node in nodes if (node.content or node.role == "user") and node.id not in failed]
    return [Message(node.role, node.content, node.ids) for node in kept]


def bare(record: RunRecord) -> bytes:
    """Return a record for the store, without the messages, which the tree holds."""
    request = msgspec.structs.replace(record.request, messages=(), begin=None)
    return msgspec.json.encode(msgspec.structs.replace(record, request=request))


def odds_budget(request: GenerationRequest) -> int:
    """Return how many bytes the notes of all replies may take in the store."""
    return request.settings("logprobs", Logprobs).store_mib * 2**20


def joined(messages: Sequence[Message]) -> list[Message]:
    """Return messages with neighbours of the user's joined: many templates refuse two of one role in a row."""
    out: list[Message] = []
    for message in messages:
        if out and message.role == "user" == out[-1].role:
            out[-1] = Message("user", f"{out[-1].content}\n\n{message.content}")
        else:
            out.append(message)
    return out
