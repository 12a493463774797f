"""The tree on the screen: versions, editing either side, outline, deleting, forking."""

from __future__ import annotations

from pathlib import Path

import pytest
from fader.store import Twig
from fader.tui.tree import outline

from .house import Scene, stage

pytestmark = pytest.mark.slow


async def focus(scene: Scene, *keys: str) -> None:
    scene.app.transcript.focus()
    await scene.pilot.pause()
    await scene.pilot.press(*keys)
    await scene.settled()


def seen(scene: Scene) -> list[str]:
    assert scene.app.chat is not None
    return [node.content for node in scene.app.chat.nodes()]


async def test_versions_are_counted_and_reached_on_both_sides(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "first")
        await focus(scene, "r")
        await scene.until(lambda: scene.app.transcript.running is not None, "a window")
        scene.engine.begin()
        scene.engine.say("other")
        scene.engine.finish()
        await scene.until(lambda: "‹ 2 of 2 ›" in scene.text(), "a count beside the reply")
        await focus(scene, "left")
        await scene.until(lambda: seen(scene) == ["one", "first"], "the first version")
        assert "‹ 1 of 2 ›" in scene.text()
        await scene.pilot.press("left")
        await scene.until(lambda: "no other version" in scene.toasts(), "a word on it")
        await scene.pilot.press("right")
        await scene.until(lambda: seen(scene) == ["one", "other"], "the second version")


async def test_a_reply_is_edited_in_the_prompt_and_the_model_sees_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "first")
        await scene.type("a draft")
        await focus(scene, "e")
        assert scene.app.prompt.text == "first"
        assert "editing a reply" in scene.text()
        scene.app.prompt.text = "FIRST"
        await scene.pilot.press("enter")
        await scene.until(lambda: seen(scene) == ["one", "FIRST"], "the edited reply")
        assert "✎ your words" in scene.text()
        assert scene.app.prompt.text == "a draft"
        await focus(scene, "o")
        await scene.until(lambda: len(scene.engine.requests) == 2, "the model goes on")
        begin = scene.engine.request.begin
        assert begin is not None
        assert (begin.content, begin.ids) == ("FIRST", None)


async def test_an_earlier_question_is_edited_on_its_branch(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "first")
        await scene.turn("two", "second")
        await focus(scene, "k", "k", "k", "k", "e")
        assert scene.app.prompt.text == "one"
        await scene.pilot.press("escape")
        assert scene.app.prompt.text == ""
        assert seen(scene) == ["one", "first", "two", "second"]


async def test_the_outline_goes_to_any_branch(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "first")
        await scene.pilot.press("up")
        scene.app.prompt.text = "eins"
        await scene.turn("", "erste")
        await focus(scene, "t")
        await scene.until(lambda: "Tree: 4 messages, 2 branches" in scene.text(), "the outline")
        await scene.pilot.press("home", "enter")
        await scene.until(lambda: seen(scene) == ["one", "first"], "the other branch")


async def test_deleting_asks_first(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "first")
        await scene.turn("two", "second")
        await focus(scene, "k", "k", "d")
        await scene.until(lambda: "Delete this message and 1 that follow it" in scene.text(), "a question")
        await scene.pilot.press("escape")
        assert len(seen(scene)) == 4
        await scene.pilot.press("d")
        await scene.until(lambda: "Delete this message" in scene.text(), "a question")
        await scene.pilot.press("enter")
        await scene.until(lambda: seen(scene) == ["one", "first"], "two messages less")


async def test_a_fork_is_another_chat(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "first")
        await scene.turn("two", "second")
        await focus(scene, "k", "k", "k", "f")
        await scene.until(lambda: seen(scene) == ["one", "first"], "the beginning only")
        assert scene.app.chat is not None
        assert len(scene.app.chat.store.conversations()) == 2


async def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("/probs")
        await scene.until(lambda: "There is no message yet" in scene.toasts(), "nothing there")
        scene.app.prompt.put("")
        await scene.turn("one", "first")
        await focus(scene, "p")
        await scene.until(lambda: "was not noted" in scene.toasts(), "what to switch on")
        assert "/on logprobs" in scene.toasts()
        await focus(scene, "k", "k", "p")
        await scene.until(lambda: "not chosen by a model" in scene.toasts(), "own words")


def test_an_outline_is_indented_only_where_it_forks() -> None:
    shape = [(1, None), (2, 1), (3, 2), (4, 3), (5, 2), (6, 5), (7, 3)]
    twigs = [Twig(one, parent, "user", "complete", str(one)) for one, parent in shape]
    assert [f"{lead}{twig.sketch}" for twig, lead in outline(twigs)] == [
        "1",
        "2",
        "├ 3",
        "│ ├ 4",
        "│ └ 7",
        "└ 5",
        "  6",
    ]
    assert outline([]) == []
    long = [Twig(one, one - 1 or None, "user", "complete", "") for one in range(1, 5000)]
    assert len(outline(long)) == 4999
