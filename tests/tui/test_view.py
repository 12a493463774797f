"""What is in view: following, older messages, sizes, lists, rack and numbers, themes."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from fader.store import Store
from fader.tui.messages import Answer, Question
from fader.tui.transcript import PAGE
from fader_backends.errors import Failure

from .house import HandHouse, stage

pytestmark = pytest.mark.slow
LONG = "\n\n".join(f"paragraph {number}" for number in range(60))


def filled(folder: Path, turns: int) -> str:
    house = HandHouse(folder)
    store = Store.open(house.paths.database, house.now)
    conversation = store.create("echo")
    parent = None
    for number in range(turns):
        parent = store.add(conversation.id, parent, "user", f"question {number}").id
        parent = store.add(conversation.id, parent, "assistant", f"answer {number}", ids=(number,)).id
    store.close()
    return conversation.id


async def test_the_view_is_not_stolen_from_somebody_who_reads(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", LONG)
        await scene.send("two")
        await scene.until(lambda: scene.app.transcript.running, "a window")
        await scene.settled()
        await scene.pilot.press("pageup", "pageup")
        await scene.settled()
        place, before = scene.app.transcript.scroll_y, scene.text()
        assert not scene.app.transcript.following
        scene.engine.begin()
        scene.engine.say("|".join(["new words "] * 200))
        scene.engine.finish()
        await scene.until(lambda: scene.app.transcript.running is None, "the end")
        await scene.settled()
        assert scene.app.transcript.scroll_y == place
        assert scene.text().split("\n")[2:12] == before.split("\n")[2:12]
        await scene.pilot.press("end")
        await scene.settled()
        assert "new words" in scene.text()


async def test_a_running_reply_can_be_read_back(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("one")
        await scene.until(lambda: scene.app.transcript.running, "a window")
        scene.engine.begin()
        scene.engine.say(LONG)
        await scene.until(lambda: "paragraph 59" in scene.text(), "the end of the text")
        for _ in range(8):
            await scene.pilot.press("pageup")
        assert "paragraph 0" in scene.text()
        scene.engine.say("\n\nmore")
        await scene.pilot.pause(0.2)
        assert "paragraph 0" in scene.text()
        await scene.pilot.press("end")
        await scene.until(lambda: "more" in scene.text(), "the end again")


async def test_wide_glyphs_are_wrapped_by_their_width(tmp_path: Path) -> None:
    async with stage(tmp_path, (40, 24)) as scene:
        await scene.send("wide")
        await scene.until(lambda: scene.app.transcript.running, "a window")
        scene.engine.begin()
        scene.engine.say("日本語" * 20 + " 🎉🎉")
        await scene.until(lambda: "🎉🎉" in scene.text(), "all of it")
        rows = [line.strip() for line in scene.text().split("\n") if "日" in line or "語" in line]
        assert "".join(rows).replace("🎉", "").strip() == "日本語" * 20
        assert max(len(row) for row in rows) <= 19


async def test_only_messages_near_the_view_are_mounted(tmp_path: Path) -> None:
    filled(tmp_path, 100)
    async with stage(tmp_path, resume=True) as scene:
        await scene.until(lambda: "answer 99" in scene.text(), "the last reply")
        assert len(scene.app.query(Question)) + len(scene.app.query(Answer)) == PAGE
        scene.app.transcript.focus()
        await scene.pilot.press("g")
        await scene.until(lambda: len(scene.app.query(Question)) == PAGE, "older messages")
        await scene.settled()
        assert "question 80" not in scene.text()  # the place is kept: the view did not jump to the new top


async def test_resized_to_next_to_nothing_and_back(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("hello", "a reply")
        await scene.pilot.resize_terminal(20, 5)
        await scene.settled()
        assert "a reply" in scene.text()
        await scene.send("small")
        await scene.until(lambda: scene.app.transcript.running, "a window")
        scene.engine.begin()
        scene.engine.say(LONG)
        await scene.pilot.press("f2", "f3", "f1", "escape")
        await scene.pilot.resize_terminal(140, 45)
        await scene.settled()
        scene.engine.finish()
        await scene.until(lambda: scene.app.transcript.running is None, "the end")
        await scene.settled()
        assert "paragraph 59" in scene.text()
        assert "TTFT" in scene.text()
        assert "^Q quit" in scene.text()


async def test_the_list_finds_and_opens(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("about whales", "whales are large")
        await scene.pilot.press("ctrl+n")
        await scene.turn("about ants", "ants are small")
        await scene.pilot.press("ctrl+r")
        await scene.settled()
        assert "about whales" in scene.text()
        await scene.pilot.press(*"large")
        await scene.settled()
        listed = scene.text()
        assert "about whales" in listed
        assert "about ants  just now" not in listed
        await scene.pilot.press("enter")
        await scene.until(lambda: "whales are large" in scene.text(), "the conversation")
        assert scene.app.prompt.has_focus


async def test_a_conversation_is_deleted_only_after_asking(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    async with stage(tmp_path) as scene:
        await scene.pilot.press("ctrl+r", "delete")
        await scene.settled()
        assert "for good?" in scene.text()
        await scene.pilot.press("escape")
        await scene.settled()
        assert "question 0" in scene.text()
        await scene.pilot.press("delete", "enter")
        await scene.settled()
        assert "No conversations yet" in scene.text()


# --- rack and numbers -------------------------------------------------------------------------------------------------


async def test_no_color(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage(tmp_path, (140, 45)) as scene:
        os.environ.pop("NO_COLOR", None)
        assert scene.app.no_color
        await scene.turn("hello", "**reply**")
        await scene.send("/off sampler")
        assert "[ ] sampler" in scene.text()
        assert "[●] timing" in scene.text()
        for strip in scene.app.screen._compositor.render_strips():
            for segment in strip:
                color = segment.style.color if segment.style else None
                if color is not None and color.triplet is not None:
                    assert len(set(color.triplet)) == 1


async def test_themes(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        assert scene.app.current_theme.dark
        await scene.turn("hello", "```py\nx = 1\n```")
        scene.app.action_light_or_dark()
        await scene.settled()
        assert not scene.app.current_theme.dark
        assert "x = 1" in scene.text()
    async with stage(tmp_path) as scene:
        assert not scene.app.current_theme.dark


async def test_python_looks_for_circles_again_when_the_screen_stands(tmp_path: Path) -> None:
    gc.disable()  # as `fader.tui.start` does
    try:
        async with stage(tmp_path):
            assert gc.isenabled()
            assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()


async def test_a_missing_model_is_said_in_the_empty_chat(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        scene.house.trouble = Failure("There is no model.", "", "Install one [now].")
        scene.app.problem = scene.house.trouble
        scene.app.show_empty()
        await scene.settled()
        assert "There is no model." in scene.text()
        assert "Install one [now]." in scene.text()


async def test_a_store_that_cannot_be_opened_keeps_the_text(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    house = HandHouse(tmp_path)
    from fader.tui.app import FaderApp

    from .house import Scene, profile

    app = FaderApp(house, profile())
    async with app.run_test() as pilot:
        scene = Scene(app, house, pilot)
        await scene.until(lambda: scene.toasts(), "the notice")
        await scene.until(lambda: app.early is None, "opened")
        await scene.send("hello")
        assert app.prompt.text == "hello"
        (tmp_path / "data").unlink()
        await pilot.press("enter")
        await scene.until(lambda: house.hand is not None and house.hand.requests, "sent after all")
    app.shut()
