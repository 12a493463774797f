"""The screen with columns on the hand-driven engine: a test decides when each column gets which token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fader.tui.beside.screen import BesideScreen
from fader.tui.beside.view import ColumnView
from fader_backends.base import ContextSpec, Memory, ModelFacts
from fader_backends.errors import Failure
from fader_plugins.turn import (
    AnyEvent,
    Failed,
    Finished,
    FinishReason,
    GenerationRequest,
    Loaded,
    Prefilled,
    Rendered,
    Restored,
    Started,
    Token,
)

from .house import MS, Scene


class Beside:
    """The screen in a scene; columns are named by the number of their request."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.at_ns: dict[str, int] = {}
        self.ids: dict[str, list[int]] = {}

    @property
    def screen(self) -> BesideScreen:
        screen = self.scene.app.screen
        assert isinstance(screen, BesideScreen), screen
        return screen

    @property
    def requests(self) -> list[GenerationRequest]:
        return self.scene.engine.requests

    async def open(self, command: str = "/compare Name a river") -> None:
        await self.scene.send(command)
        await self.scene.until(lambda: isinstance(self.scene.app.screen, BesideScreen), "the screen with columns")
        await self.scene.settled()

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.scene.pilot.press(key)
            await self.scene.settled()

    async def type(self, text: str) -> None:
        self.screen.prompt.focus()
        self.screen.prompt.put(text)
        await self.scene.pilot.pause()
        await self.press("enter")

    async def columns(self, *texts: str) -> None:
        await self.type("/columns " + " | ".join(texts))

    def event(self, number: int, kind: Callable[..., AnyEvent], after_ms: float, **fields: Any) -> None:
        request = self.requests[number]
        at_ns = self.at_ns.get(request.id, request.submitted_ns) + round(after_ms * MS)
        self.at_ns[request.id] = at_ns
        self.scene.engine.emit(kind(request_id=request.id, at_ns=at_ns, **fields))

    async def begin(self, number: int, reused: int = 0, prompt: int = 30, length: int = 4096) -> None:
        await self.scene.until(lambda: len(self.requests) > number, f"request {number}")
        self.event(number, Started, 1)
        facts = ModelFacts(backend="echo", model="hand")
        self.event(number, Loaded, 0, facts=facts, context=ContextSpec(length=length), load_ms=0.0)
        self.event(number, Rendered, 2, prompt_tokens=prompt)
        self.event(number, Restored, 1, reused=reused, new=prompt - reused)
        self.event(number, Prefilled, 40, done=prompt - reused, total=prompt - reused)
        await self.scene.settled()

    def say(self, number: int, text: str, gap_ms: float = 20.0, logprob: float = -0.5) -> None:
        ids = self.ids.setdefault(self.requests[number].id, [])
        for piece in text.split("|"):
            ids.append(sum(piece.encode()))
            index = len(ids) - 1
            self.event(number, Token, gap_ms, index=index, step=index, token=ids[-1], text=piece, logprob=logprob)

    def end(self, number: int, reason: FinishReason = "end") -> None:
        ids = tuple(self.ids.get(self.requests[number].id, ()))
        self.event(
            number, Finished, 1, reason=reason, text="", ids=ids, context_used=60,
            memory=Memory(kv_bytes=46 * 2**20), rss_peak_bytes=1,
        )  # fmt: skip

    def fail(self, number: int) -> None:
        self.event(number, Failed, 1, failure=Failure("It broke.", "Why it did.", "Try again."))

    async def whole(self, *replies: str) -> None:
        """Every column gets a whole reply."""
        first = len(self.requests) - 1
        for number, reply in enumerate(replies, first):
            await self.begin(number, reused=29 if number > first else 0)
            self.say(number, reply, logprob=-0.3 - number / 10)
        for number in range(first, first + len(replies)):
            self.end(number)
        await self.scene.until(lambda: not self.screen.comparer.busy, "the end of all columns")
        await self.scene.settled()

    def shown(self) -> list[ColumnView]:
        return [view for view in self.screen.views if view.display]

    def heads(self) -> list[str]:
        return [str(view.head.content) for view in self.shown()]
