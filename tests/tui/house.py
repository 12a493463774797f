"""A house with a hand-driven engine, so that a test decides when every token comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fader.paths import Paths
from fader.profiles import Profile
from fader.store import Store
from fader.tui.app import FaderApp
from fader_backends.base import ContextSpec, Memory, ModelFacts, SamplerSettings
from fader_backends.errors import Failure
from fader_plugins.registry import Registry, build
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
from textual.pilot import Pilot

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MS = 1_000_000


class HandEngine:
    """Does nothing by itself; `begin`, `say` and `finish` are what an engine would do."""

    def __init__(self, emit: Callable[[AnyEvent], None]) -> None:
        self.emit = emit
        self.requests: list[GenerationRequest] = []
        self.cancelled: list[str] = []
        self.prepared: list[GenerationRequest] = []
        self.looked: list[GenerationRequest] = []
        self.adjusted: list[tuple[str, SamplerSettings]] = []
        self.started = self.closed = False
        self.at_ns = 0
        self.ids: list[int] = []

    def start(self) -> None:
        self.started = True

    def close(self) -> None:
        self.closed = True

    def submit(self, request: GenerationRequest) -> None:
        self.requests.append(request)
        self.at_ns, self.ids = request.submitted_ns, []

    def prepare(self, request: GenerationRequest) -> None:
        self.prepared.append(request)

    def look(self, request: GenerationRequest) -> None:
        self.looked.append(request)

    def adjust(self, request_id: str, sampler: SamplerSettings) -> None:
        self.adjusted.append((request_id, sampler))

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    @property
    def request(self) -> GenerationRequest:
        return self.requests[-1]

    def event(self, kind: Callable[..., AnyEvent], after_ms: float = 1.0, **fields: Any) -> None:
        self.at_ns += round(after_ms * MS)
        self.emit(kind(request_id=self.request.id, at_ns=self.at_ns, **fields))

    def begin(self, prompt: int = 30, reused: int = 0, prefill_ms: float = 40.0, length: int = 2048) -> None:
        self.event(Started)
        facts = ModelFacts(backend="echo", model="hand")
        self.event(Loaded, 0, facts=facts, context=ContextSpec(length=length), load_ms=0.0)
        self.event(Rendered, 2, prompt_tokens=prompt)
        self.event(Restored, 1, reused=reused, new=prompt - reused)
        self.event(Prefilled, prefill_ms, done=prompt - reused, total=prompt - reused)

    def say(self, text: str, gap_ms: float = 20.0) -> None:
        """One token for each piece that `|` separates."""
        for piece in text.split("|"):
            index = len(self.ids)
            self.ids.append(1000 + index)
            self.event(Token, gap_ms, index=index, step=index, token=1000 + index, text=piece, logprob=-0.1)

    def finish(self, reason: FinishReason = "end", used: int = 60) -> None:
        memory = Memory(kv_bytes=46 * 2**20)
        ids = tuple(self.ids)
        self.event(
            Finished, reason=reason, text="", ids=ids, context_used=used, memory=memory, rss_peak_bytes=300 * 2**20
        )

    def fail(self, failure: Failure) -> None:
        self.event(Failed, failure=failure)


class HandHouse:
    """Real plugins and a real store in a folder of the test; the engine is the hand-driven one."""

    def __init__(self, folder: Path) -> None:
        self.paths = Paths(
            config=folder / "config", data=folder / "data", state=folder / "state", cache=folder / "cache"
        )
        self.hand: HandEngine | None = None
        self.clock = NOW
        self.trouble: Failure | None = None

    def registry(self) -> Registry:
        return build(self.paths.plugins)

    def store(self) -> Store:
        return Store.open(self.paths.database, self.now)

    def engine(self, emit: Callable[[AnyEvent], None]) -> HandEngine:
        self.hand = HandEngine(emit)
        return self.hand

    def problem(self, profile: Profile) -> Failure | None:
        return self.trouble

    def now(self) -> datetime:
        return self.clock


class Scene:
    """An app under test with what drives it."""

    def __init__(self, app: FaderApp, house: HandHouse, pilot: Pilot[int]) -> None:
        self.app = app
        self.house = house
        self.pilot = pilot

    @property
    def engine(self) -> HandEngine:
        assert self.house.hand is not None
        return self.house.hand

    async def until(self, done: Callable[[], object], what: str) -> None:
        """Wait for a condition, by letting the app work."""
        for _ in range(400):
            if done():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(f"never: {what}\n{self.text()}")

    async def opened(self) -> None:
        await self.until(lambda: self.engine_ready() and self.app.chat is not None, "opened")
        await self.settled()

    def engine_ready(self) -> bool:
        return self.house.hand is not None and self.house.hand.started

    async def settled(self) -> None:
        for _ in range(3):
            await self.pilot.pause()

    async def type(self, text: str) -> None:
        self.app.prompt.focus()
        self.app.prompt.insert(text)
        await self.pilot.pause()

    async def send(self, text: str) -> None:
        await self.type(text)
        await self.pilot.press("enter")
        await self.pilot.pause()

    async def turn(self, text: str, reply: str, reason: FinishReason = "end", **begin: Any) -> None:
        """A whole turn."""
        await self.send(text)
        await self.until(lambda: self.app.transcript.running is not None, "a window for the reply")
        self.engine.begin(**begin)
        self.engine.say(reply)
        self.engine.finish(reason)
        await self.until(lambda: self.app.transcript.running is None, "the end of the turn")
        await self.settled()

    async def paced(self, text: str, gap_ms: float = 20.0, tokens: int = 4, **begin: Any) -> None:
        """A whole turn whose tokens come that far apart; `text` may be a command that asks."""
        await self.send(text)
        await self.until(lambda: self.app.transcript.running is not None, "a window for the reply")
        self.engine.begin(**begin)
        self.engine.say("|".join(f"w{n} " for n in range(tokens)), gap_ms)
        self.engine.finish()
        await self.until(lambda: self.app.transcript.running is None, "the end of the turn")
        await self.settled()

    def text(self) -> str:
        """What the screen shows, as plain text."""
        height = self.app.size.height
        lines = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines[:height])

    def toasts(self) -> str:
        return "\n".join(f"{note.title}: {note.message}" for note in self.app._notifications)


def profile(**fields: Any) -> Profile:
    return Profile(**{"name": "echo", "backend": "echo", **fields})


@asynccontextmanager
async def stage(
    folder: Path, size: tuple[int, int] = (80, 24), resume: bool = False, **fields: Any
) -> AsyncIterator[Scene]:
    """Run the app in a terminal of that size; keyword arguments are profile keys."""
    house = HandHouse(folder)
    app = FaderApp(house, profile(**fields), resume)
    async with app.run_test(size=size) as pilot:
        scene = Scene(app, house, pilot)
        await scene.opened()
        yield scene
    app.shut()
