"""From question to restart with a real engine: temperatures compared, one kept, a branch at a token, the app started anew."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fader.engine.engine import Engine
from fader.tui.app import FaderApp
from fader.tui.beside.screen import BesideScreen
from fader.tui.odds_screen import OddsScreen
from fader_backends.base import SamplerSettings
from fader_plugins.registry import build
from fader_plugins.turn import AnyEvent, GenerationRequest

from .house import HandHouse, Scene, profile

pytestmark = pytest.mark.slow


class ThreadEngine:
    """A real engine on a thread of this process."""

    def __init__(self, emit: Callable[[AnyEvent], None]) -> None:
        self.engine = Engine(build(None), emit)
        self.thread = threading.Thread(target=self.engine.run)
        self.started = False

    def start(self) -> None:
        self.started = True
        self.thread.start()

    def submit(self, request: GenerationRequest) -> None:
        self.engine.submit(request)

    def prepare(self, request: GenerationRequest) -> None:
        self.engine.prepare(request)

    def adjust(self, request_id: str, sampler: SamplerSettings) -> None:
        self.engine.adjust(request_id, sampler)

    def cancel(self, request_id: str) -> None:
        self.engine.cancel(request_id)

    def close(self) -> None:
        self.engine.close()
        self.thread.join(10)


class ThreadHouse(HandHouse):
    """The house of the tests with that engine."""

    real: ThreadEngine | None = None

    def engine(self, emit: Callable[[AnyEvent], None]) -> ThreadEngine:  # type: ignore[override]
        self.real = ThreadEngine(emit)
        return self.real


def app_of(house: HandHouse, resume: bool) -> FaderApp:
    plugins = {"sampler": {"on": True, "base": "neutral", "temperature": 1.0, "seed": 7}, "logprobs": {"on": True}}
    return FaderApp(house, profile(load={"noise": 1.5}, max_tokens=30, plugins=plugins), resume)


async def test_compare_keep_branch_regenerate_restart(tmp_path: Path) -> None:
    house = ThreadHouse(tmp_path)
    app = app_of(house, False)
    async with app.run_test(size=(120, 40)) as pilot:
        scene = Scene(app, house, pilot)
        await scene.until(lambda: app.chat is not None and house.real is not None and house.real.started, "opened")
        await scene.settled()
        await scene.type("say something")
        await pilot.press("f4")
        await scene.until(lambda: isinstance(app.screen, BesideScreen), "the screen with columns")
        screen = app.screen
        assert isinstance(screen, BesideScreen)
        await scene.settled()
        assert screen.prompt.draft == "say something"
        screen.prompt.put("/sweep temperature 0.5..1.5 x3")
        await pilot.press("enter")
        await scene.until(lambda: len(screen.comparer.columns) == 3, "three columns")
        screen.prompt.put("say something")
        await pilot.press("enter")
        await scene.until(lambda: [one.state for one in screen.comparer.columns] == ["done"] * 3, "three replies")
        texts = [column.text for column in screen.comparer.columns]
        assert len(set(texts)) == 3
        await scene.settled()
        await pilot.press("tab", "tab", "right", "k")
        await scene.until(lambda: not isinstance(app.screen, BesideScreen), "the chat")
        await scene.settled()
        chat = app.chat
        assert chat is not None
        assert [node.content for node in chat.nodes()] == ["say something", texts[1]]
        app.transcript.focus()
        await scene.settled()
        await pilot.press("p")
        await scene.until(lambda: isinstance(app.screen, OddsScreen), "the probabilities")
        await scene.settled()
        await pilot.press("right", "right", "down", "enter")
        await scene.until(
            lambda: chat.turn is None and chat.nodes()[-1].content not in texts, "a reply that parts there"
        )
        branched = chat.nodes()[-1]
        kept = chat.store.children(branched.conversation, branched.parent)[1]
        assert branched.ids is not None
        assert kept.ids is not None
        assert branched.ids[:2] == kept.ids[:2]
        assert branched.ids[2] != kept.ids[2]
        await scene.until(lambda: not isinstance(app.screen, OddsScreen), "the chat again")
        await scene.settled()
        await scene.send("/regen")
        await scene.until(lambda: chat.turn is None and chat.nodes()[-1].id > branched.id, "another reply")
        regenerated = chat.nodes()[-1].content
    app.shut()

    again = app_of(house, True)
    async with again.run_test(size=(120, 40)) as pilot:
        scene = Scene(again, house, pilot)
        await scene.until(lambda: again.chat is not None and again.chat.leaf is not None, "the conversation")
        later = again.chat
        assert later is not None
        question, reply = later.nodes()
        assert (question.content, reply.content) == ("say something", regenerated)
        siblings = later.store.children(question.conversation, question.id)
        assert [node.content for node in siblings] == [*texts, branched.content, regenerated]
        assert all(node.record for node in siblings), "each remembers its settings and its numbers"
        await scene.settled()
        await scene.send("/compare #1")
        await scene.until(lambda: isinstance(again.screen, BesideScreen), "the comparison")
        await scene.until(lambda: "temperature=1.0" in scene.text() or "temperature=1" in scene.text(), "its columns")
        shown = again.screen
        assert isinstance(shown, BesideScreen)
        assert [column.text for column in shown.comparer.columns] == texts
    again.shut()
