"""A chat with an engine driven by hand, for tests of the controller."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from fader.chat import Chat, Turn
from fader.store import Store
from fader.switchboard import Switchboard
from fader_backends.base import Memory, SamplerSettings
from fader_backends.errors import Failure
from fader_plugins.turn import AnyEvent, Failed, Finished, FinishReason, GenerationRequest, Token

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Desk:
    """A chat, its engine and its viewer in one."""

    def __init__(self, folder: Path, board: Switchboard) -> None:
        self.store = Store.open(folder / "fader.db", lambda: NOW)
        self.requests: list[GenerationRequest] = []
        self.cancelled: list[str] = []
        self.prepared: list[GenerationRequest] = []
        self.adjusted: list[tuple[str, SamplerSettings]] = []
        self.seconds = 0.0
        self.began: list[Turn] = []
        self.ended: list[Turn] = []
        self.back: list[str] = []
        self.told: list[Failure] = []
        self.stored_at_submit: list[str] = []
        ids = count(1)
        self.chat = Chat(
            self.store,
            board,
            self,
            self,
            now=lambda: NOW,
            seconds=lambda: self.seconds,
            nanoseconds=lambda: 0,
            new_id=lambda: f"turn-{next(ids)}",
        )

    def submit(self, request: GenerationRequest) -> None:
        self.requests.append(request)
        self.stored_at_submit = [f"{node.role}:{node.content}:{node.state}" for node in self.chat.nodes()]

    def prepare(self, request: GenerationRequest) -> None:
        self.prepared.append(request)

    def adjust(self, request_id: str, sampler: SamplerSettings) -> None:
        self.adjusted.append((request_id, sampler))

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    def turn_began(self, turn: Turn) -> None:
        self.began.append(turn)

    def turn_ended(self, turn: Turn) -> None:
        self.ended.append(turn)

    def path_changed(self) -> None: ...
    def queue_changed(self) -> None: ...

    def returned(self, text: str) -> None:
        self.back.append(text)

    def tell(self, failure: Failure) -> None:
        self.told.append(failure)

    def event(self, event: AnyEvent) -> None:
        self.chat.on_event(event)

    def token(self, text: str, token: int = 7) -> None:
        index = len(self.began[-1].stats.ids)
        self.event(
            Token(
                request_id=self.requests[-1].id,
                at_ns=index,
                index=index,
                step=index,
                token=token,
                text=text,
                logprob=0.0,
            )
        )

    def finish(self, reason: FinishReason = "end", ids: tuple[int, ...] | None = None) -> None:
        turn = self.chat.turn
        assert turn is not None
        ids = tuple(turn.stats.ids) if ids is None else ids
        self.event(
            Finished(
                request_id=turn.request.id,
                at_ns=9,
                reason=reason,
                text="",
                ids=ids,
                context_used=1,
                memory=Memory(),
                rss_peak_bytes=1,
            )
        )

    def fail(self) -> None:
        failure = Failure("The engine stopped.", "why", "Send again.", "EngineDied")
        self.event(Failed(request_id=self.requests[-1].id, at_ns=9, failure=failure))

    def reply(self, text: str) -> None:
        self.token(text)
        self.finish()

    def seen(self) -> list[str]:
        return [node.content for node in self.chat.nodes()]

    def asked(self) -> list[str]:
        return [message.content for message in self.requests[-1].messages]
