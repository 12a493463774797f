"""The screen as text, compared with stored files. `FADER_UPDATE_SNAPSHOTS=1` writes them anew."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from fader.tui.screen_cost import ScreenCost
from fader_plugins.turn import Reading

from .house import Scene, stage

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parent / "snapshots"
REPLY = (
    "## Two phases\n\nA **prefill** reads the prompt; *decode* writes one token at a time.\n\n"
    "1. Prefill is bound by compute.\n2. Decode is bound by memory.\n\n"
    "```python\ndef tpot(first, last, n):\n    return (last - first) / (n - 1)\n```\n\n"
    "| phase | bound by |\n|---|---|\n| prefill | compute |\n"
)


async def empty(_: Scene) -> None: ...


async def chat(scene: Scene) -> None:
    await scene.turn("What are the phases?", REPLY.replace(" ", " |"), prompt=40, prefill_ms=80)
    await scene.send("/off sampler")
    await scene.turn("And TPOT?", "The time |per |output |token.", prompt=120, reused=90, prefill_ms=40)
    scene.app.clear_notifications()


async def running(scene: Scene) -> None:
    await scene.turn("What are the phases?", REPLY)
    await scene.send("Tell me more")
    await scene.until(lambda: scene.app.transcript.running, "a window")
    scene.engine.begin()
    scene.engine.say("**Streaming** with `code`\n\n```py\nx = 1\n```\nand 日本語 🎉")
    await scene.until(lambda: "🎉" in scene.text(), "the text")
    await scene.send("a waiting one")
    scene.app.drawn_numbers = float("-inf")  # numbers are drawn twice a second; draw them for all tokens now
    scene.app.feed(scene.app.viewed, [])  # type: ignore[arg-type]


async def rack(scene: Scene) -> None:
    if scene.app.size.width < 120:
        await scene.pilot.press("f2")
    else:
        scene.app.side.rack.focus()
    await scene.pilot.press("home", "down")


async def help_sheet(scene: Scene) -> None:
    await scene.pilot.press("f1")


async def chats(scene: Scene) -> None:
    await chat(scene)
    await scene.pilot.press("ctrl+r")


async def tripped(scene: Scene) -> None:
    await scene.send("/watch itl_p95 <= 60 ms over 20 tokens")
    await scene.turn("What are the phases?", "|".join("word " for _ in range(30)), prompt=40, prefill_ms=80)
    await scene.send("/on prompt_lookup")
    await scene.send("/regen")
    await scene.until(lambda: scene.app.transcript.running, "a window")
    scene.engine.begin(prompt=40, reused=30, prefill_ms=20)
    scene.engine.say("|".join("word " for _ in range(30)), gap_ms=90)
    scene.engine.finish()
    await scene.until(lambda: scene.app.transcript.running is None, "the end of the turn")
    scene.app.clear_notifications()


async def breakdown(scene: Scene) -> None:
    await tripped(scene)
    await scene.settled()
    await scene.pilot.press("f5")


@pytest.mark.parametrize("size", [(80, 24), (140, 45)], ids=["80x24", "140x45"])
@pytest.mark.parametrize(
    "act", [empty, chat, running, rack, help_sheet, chats, tripped, breakdown], ids=lambda act: act.__name__
)
async def test_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Scene], Awaitable[None]], size: tuple[int, int]
) -> None:
    still = [Reading(key="ui_cpu", label="screen CPU", value=4.0, unit="%", digits=1, better="lower")]
    monkeypatch.setattr(ScreenCost, "readings", lambda _: still)
    async with stage(tmp_path, size, summary="Repeats what you say") as scene:
        await act(scene)
        await scene.settled()
        shown = scene.text() + "\n"
    path = FOLDER / f"{act.__name__}-{size[0]}x{size[1]}.txt"
    if os.environ.get("FADER_UPDATE_SNAPSHOTS"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")
