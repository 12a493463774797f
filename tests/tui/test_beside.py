"""The screen with columns: what a person does there, key by key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fader.tui.beside.screen import BesideScreen

from .beside_house import Beside
from .house import stage

RIVERS = ("The |Nile |flows |north.", "The |Rhine |flows |north, |too.", "A |river")


@asynccontextmanager
async def beside(
    folder: Path, size: tuple[int, int] = (120, 40), command: str = "/compare Name a river"
) -> AsyncIterator[Beside]:
    async with stage(folder, size) as scene:
        sides = Beside(scene)
        await sides.open(command)
        yield sides


async def test_columns_stream_together_with_numbers(tmp_path: Path) -> None:
    """The first reads the prompt, then the others are sent; text and numbers stand in their own columns."""
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.scene.until(lambda: sides.requests, "the first column's request")
        assert len(sides.requests) == 1, "the others wait until the prompt's length is known"
        await sides.begin(0)
        await sides.begin(1, reused=29)
        sides.say(0, "left |words")
        sides.say(1, "right |words", gap_ms=40)
        await sides.scene.until(lambda: "right words" in sides.scene.text(), "both texts")
        assert any("left words" in line and "right words" in line for line in sides.scene.text().splitlines())
        sides.end(0)
        sides.end(1, "length")
        await sides.scene.until(lambda: not sides.screen.comparer.busy, "the end")
        await sides.scene.settled()
        text = sides.scene.text()
        assert "TTFT 64 ms · TPOT 20.0 ms" in text
        assert "TPOT 40.0 ms" in text
        assert "reused 29 of 30" in text
        assert sides.heads() == ["✓ A as it is", "✓ B temperature=1.2"]
        assert [request.sampler.temperature for request in sides.requests] == [0.8, 1.2]
        assert len({request.sampler.seed for request in sides.requests}) == 1
        foot = str(sides.screen.views[1].foot.content)
        assert "≠A parts at token 0: 'left ' 60.7% against 'right ' 60.7%; cause: settings" in foot


@pytest.mark.slow
async def test_keep_goes_back_with_the_others_beside(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.whole(*RIVERS[:2])
        await sides.press("tab", "tab", "right", "k")
        app = sides.scene.app
        await sides.scene.until(lambda: not isinstance(app.screen, BesideScreen), "the chat")
        await sides.scene.until(lambda: "The Rhine flows" in sides.scene.text(), "the kept reply")
        assert app.chat is not None
        assert [node.content for node in app.chat.nodes()] == ["Name a river", "The Rhine flows north, too."]
        assert len(app.chat.store.children(app.chat.nodes()[0].conversation, app.chat.nodes()[0].id)) == 2
        await sides.scene.until(lambda: "Kept B; 1 more beside it" in sides.scene.toasts(), "what was done")


@pytest.mark.slow
async def test_settings_are_edited_in_place(tmp_path: Path) -> None:
    """Typing over a cell changes that column from its next run on; a wrong value is refused and changes nothing."""
    async with beside(tmp_path) as sides:
        await sides.press("f2", "right", "0", ".", "4", "enter")
        assert sides.heads()[1] == "⧗ B temperature=0.4"
        await sides.press("9", "9", "enter")
        assert "temperature = '99' cannot be used" in sides.scene.toasts()
        assert sides.heads()[1] == "⧗ B temperature=0.4"
        await sides.press("down", *"min_p=0.2", "enter")
        assert sides.heads()[1] == "⧗ B temperature=0.4 min_p=0.2"
        await sides.press("up", "up", "delete")
        assert sides.heads()[1] == "⧗ B min_p=0.2"
        await sides.press("escape")
        assert not isinstance(sides.scene.app.screen, BesideScreen)


@pytest.mark.slow
async def test_commands_fill_the_columns(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.type("/sweep temperature 0.2..1.4 x4")
        assert sides.heads() == [
            f"⧗ {one} temperature={value}" for one, value in zip("ABCD", ("0.2", "0.6", "1", "1.4"), strict=True)
        ]
        await sides.type("/columns max_tokens=5 | prompt_lookup=on")
        await sides.type("/add kv_cache=off")
        assert sides.heads() == ["⧗ A max_tokens=5", "⧗ B prompt_lookup=on", "⧗ C kv_cache=off"]
        await sides.type("/sweep seed x5")
        assert "room for 2 to 4 columns, not 5" in sides.scene.toasts()
        await sides.type("/swep seed x3")
        assert "Did you mean /sweep?" in sides.scene.toasts()
        assert sides.screen.prompt.draft == "/swep seed x3", "what did not work stays in the prompt"
        await sides.press("escape")
        assert sides.scene.app.prompt.draft == "/swep seed x3", "and goes back with the person"


@pytest.mark.slow
async def test_stop_and_restart_one_column(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.begin(0)
        await sides.begin(1)
        sides.say(0, "one |two")
        await sides.press("tab", "tab", "s")
        assert sides.scene.engine.cancelled == [sides.requests[0].id]
        sides.end(0, "cancelled")
        await sides.scene.until(lambda: sides.heads()[0].startswith("■"), "the stop")
        assert sides.heads()[1].startswith("▶")
        await sides.press("r")
        await sides.begin(2)
        assert sides.requests[2].sampler == sides.requests[0].sampler
        sides.say(2, "again")
        await sides.scene.until(lambda: "again" in sides.scene.text() and "one two" not in sides.scene.text(), "anew")


@pytest.mark.slow
async def test_a_failed_column_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.begin(0)
        await sides.begin(1)
        sides.fail(0)
        sides.say(1, "fine")
        sides.end(1)
        await sides.scene.until(lambda: not sides.screen.comparer.busy, "the end")
        await sides.scene.settled()
        assert [head[0] for head in sides.heads()] == ["✕", "✓"]
        assert "It broke. Why it did. Try again." in sides.scene.text()


@pytest.mark.slow
async def test_blind_choice(tmp_path: Path) -> None:
    """Nothing shows which is which until one is picked; the tally has it."""
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.whole(*RIVERS[:2])
        await sides.press("f9")
        text = sides.scene.text()
        assert sides.heads() == ["✓ column 1", "✓ column 2"]
        assert not [word for word in ("temperature=", "1.2", "as it is", "TPOT", "≠A") if word in text]
        sides.screen.order = [1, 0]
        sides.screen.show()
        await sides.press("tab", "tab", "p")
        assert sides.heads() == ["✓ A as it is", "✓ B temperature=1.2"]
        (choice,) = sides.screen.comparer.chat.store.choices()
        assert (choice.winner, set(choice.shown)) == ("temperature=1.2", {"as it is", "temperature=1.2"})
        await sides.press("p")
        await sides.scene.settled()
        assert "Picking is for blind choices" in sides.scene.toasts()


@pytest.mark.slow
async def test_words_against_the_first_column(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.whole(*RIVERS[:2])
        await sides.press("tab", "tab", "d")
        assert "The Nile Rhine flows north. north, too." in sides.scene.text()
        await sides.press("d")
        assert "The Rhine flows north, too." in sides.scene.text()


@pytest.mark.slow
async def test_a_narrow_terminal_has_tabs(tmp_path: Path) -> None:
    """One column at a time, over the whole width; left and right go through them."""
    async with beside(tmp_path, (80, 24)) as sides:
        await sides.type("/sweep temperature 0.2..1.4 x4")
        await sides.type("Name a river")
        await sides.whole(*RIVERS, "Four |" * 30)
        assert len(sides.shown()) == 1
        assert "[A temperature=0.2]  B  C  D" in sides.scene.text().splitlines()[0]
        await sides.press("tab", "tab", "right", "right", "right")
        assert sides.heads() == ["✓ D temperature=1.4"]
        assert "Four " * 14 in sides.scene.text(), "wrapped at the width that there is"
        await sides.scene.pilot.resize_terminal(150, 24)
        await sides.scene.until(lambda: len(sides.shown()) == 4, "all columns")
        await sides.press("z")
        assert sides.heads() == ["✓ D temperature=1.4"]


@pytest.mark.slow
async def test_locked_columns_scroll_together(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.whole("x\n" * 90, "y\n" * 90)
        for view in sides.shown():
            view.scroll_rows(-200)
        await sides.press("tab", "tab", "down")
        assert [view.reply.top for view in sides.shown()] == [1, 0]
        await sides.press("l", "pagedown")
        assert [view.reply.top for view in sides.shown()] == [11, 10]


@pytest.mark.slow
async def test_copy_export_and_opening_again(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.whole(*RIVERS[:2])
        await sides.press("tab", "tab", "c")
        assert sides.scene.app.clipboard == "The Nile flows north."
        await sides.type(f"/export {tmp_path / 'x.md'}")
        assert "The Rhine flows" in (tmp_path / "x.md").read_text(encoding="utf-8")
        await sides.columns("temperature=0", "temperature=1")
        assert sides.screen.comparer.number is None
        await sides.press("ctrl+r", "enter")
        await sides.scene.until(lambda: isinstance(sides.scene.app.screen, BesideScreen), "the columns again")
        await sides.scene.settled()
        assert sides.heads() == ["✓ A as it is", "✓ B temperature=1.2"]
        assert "The Rhine flows north, too." in sides.scene.text()
        before = len(sides.requests)
        await sides.type("")
        await sides.scene.until(lambda: len(sides.requests) > before, "the run again")
        assert sides.requests[before].messages[-1].content == "Name a river"


@pytest.mark.slow
async def test_fair_timing(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.press("f8", "enter")
        for number in range(4):
            await sides.begin(number)
            assert len(sides.requests) == number + 1, "one at a time"
            sides.say(number, "a |b")
            sides.end(number)
            await sides.scene.settled()
        assert "one at a time, ABAB" in sides.scene.text().splitlines()[0]
        assert [request.sampler.temperature for request in sides.requests] == [0.8, 1.2, 0.8, 1.2]
        assert not any(request.plugins["prefix_cache"].on for request in sides.requests)


@pytest.mark.slow
async def test_a_kept_column_whose_conversation_is_gone(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.whole(*RIVERS[:2])
        chat = sides.screen.comparer.chat
        assert chat.conversation is not None
        chat.store.delete(chat.conversation.id)
        await sides.press("tab", "tab", "k")
        await sides.scene.until(lambda: "kept in a new one" in sides.scene.toasts(), "what was done")
        assert [node.content for node in chat.nodes()] == ["Name a river", "The Nile flows north."]


@pytest.mark.slow
async def test_escape_stops_then_leaves(tmp_path: Path) -> None:
    async with beside(tmp_path) as sides:
        await sides.press("enter")
        await sides.begin(0)
        await sides.begin(1)
        await sides.press("escape")
        assert set(sides.scene.engine.cancelled) == {request.id for request in sides.requests}
        for number in (0, 1):
            sides.end(number, "cancelled")
        await sides.scene.until(lambda: not sides.screen.comparer.busy, "the stop")
        await sides.press("escape")
        assert not isinstance(sides.scene.app.screen, BesideScreen)
        await sides.scene.send("/compare")
        await sides.scene.until(lambda: isinstance(sides.scene.app.screen, BesideScreen), "the same comparison")
        assert sides.heads()[0].startswith("■")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/compare #7", "unknown comparison '7'"),
        ("/compare #x", "not a comparison's number"),
    ],
)
async def test_what_cannot_be_opened(tmp_path: Path, command: str, said: str) -> None:
    async with stage(tmp_path) as scene:
        await scene.send(command)
        await scene.until(lambda: said in scene.toasts(), said)
        assert not isinstance(scene.app.screen, BesideScreen)


async def test_not_while_a_reply_runs(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("hello")
        await scene.pilot.press("f4")
        await scene.until(lambda: "A reply is running" in scene.toasts(), "the refusal")
