"""The sheet on operators: asked when it opens, filled when the engine answers."""

from __future__ import annotations

from pathlib import Path

from fader.tui.ops import OpsScreen
from fader_backends.base import ModelFacts
from fader_backends.errors import Failure
from fader_backends.operators import OperatorClass, Operators
from fader_plugins.turn import Failed, Looked

from .house import stage

TABLE = Operators(
    label="graph off", tokens=16, step_ms=12.5, calls=254.0, classes=(OperatorClass(name="matmul", calls=15.0, ms=3.5),)
)


async def test_ops_shows_what_the_engine_tells(tmp_path: Path) -> None:
    async with stage(tmp_path, (100, 40)) as scene:
        await scene.settled()
        await scene.send("/ops")
        await scene.settled()
        assert isinstance(scene.app.screen, OpsScreen)
        assert "Looking into" in scene.text()
        (asked,) = scene.engine.looked
        facts = ModelFacts(backend="torch", model="tiny", device="cpu, float32 (why not)")
        scene.engine.emit(Looked(request_id=asked.id, at_ns=1, facts=facts, tables=(TABLE,)))
        await scene.until(lambda: "matmul" in scene.text(), "the table")
        shown = scene.text()
        assert "254" in shown
        assert "3.50 ms" in shown
        await scene.pilot.press("escape")
        await scene.settled()
        assert not scene.app.frames.others


async def test_ops_shows_why_there_is_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path, (100, 40)) as scene:
        await scene.settled()
        await scene.send("/ops")
        await scene.settled()
        (asked,) = scene.engine.looked
        scene.engine.emit(Failed(request_id=asked.id, at_ns=1, failure=Failure("It tells nothing.", "", "Try torch.")))
        await scene.until(lambda: "It tells nothing." in scene.text(), "the reason")


async def test_ops_waits_for_a_reply(tmp_path: Path) -> None:
    async with stage(tmp_path, (100, 40)) as scene:
        await scene.send("hello")
        scene.engine.begin()
        await scene.settled()
        await scene.send("/ops")
        assert "A reply is being written" in scene.toasts()
        assert scene.engine.looked == []
