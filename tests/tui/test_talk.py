"""Sending, stopping, queueing, editing, pasting, commands, as a person does them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fader.tui.messages import Answer
from fader_backends.errors import Failure
from textual import events
from textual.widgets import Markdown

from .house import stage


async def test_a_reply_streams_and_becomes_markdown(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("hello")
        await scene.until(lambda: scene.app.transcript.running, "a window")
        scene.engine.begin()
        scene.engine.say("**good** |day")
        await scene.until(lambda: "**good** day" in scene.text(), "the text while it streams")
        assert not scene.app.query(Markdown)
        scene.engine.finish()
        await scene.until(lambda: scene.app.query(Markdown), "Markdown")
        await scene.settled()
        assert "good day" in scene.text()
        assert "**" not in scene.text()


async def test_brackets_are_text_everywhere(tmp_path: Path) -> None:
    nasty = "[bold]x[/bold] [/] [@click=app.quit]y[/] [red"
    async with stage(tmp_path, (100, 30)) as scene:
        await scene.send(nasty)
        await scene.until(lambda: scene.app.transcript.running, "a window")
        scene.engine.begin()
        scene.engine.say(nasty)
        await scene.until(lambda: scene.text().count(nasty) == 2, "question and running reply")
        scene.app.chat.send(nasty)  # type: ignore[union-attr]
        await scene.settled()
        assert scene.text().count("[bold]x[/bold]") >= 3
        scene.engine.fail(Failure(nasty, nasty, nasty))
        await scene.until(lambda: scene.app.transcript.running is None, "the failure")
        await scene.settled()
        assert "✕ [bold]x[/bold]" in scene.text()
        await scene.pilot.press("ctrl+r")
        await scene.settled()
        assert "[bold]x[/bold]" in scene.text()


async def test_escape_stops_also_while_the_prompt_is_read(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("hello")
        await scene.until(lambda: scene.app.transcript.running, "a window")
        await scene.pilot.press("escape")
        assert scene.engine.cancelled == [scene.engine.request.id]
        scene.engine.finish("cancelled")
        await scene.until(lambda: "■ stopped" in scene.text(), "the mark")


async def test_a_partial_reply_stays_and_is_marked_by_its_state(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("hello", "half a |repl", "cancelled")
        assert "half a repl" in scene.text()
        assert "■ stopped" in scene.text()
        node = scene.app.transcript.nodes[-1]
        assert (node.content, node.state) == ("half a repl", "cancelled")


async def test_messages_wait_in_view_and_come_back_on_a_stop(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("one")
        await scene.send("two")
        await scene.send("three")
        assert "2 waiting: two · three" in scene.text()
        await scene.pilot.press("escape")
        scene.engine.finish("cancelled")
        await scene.settled()
        assert scene.app.prompt.text == "two\n\nthree"


async def test_a_waiting_message_is_sent_next(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("one")
        await scene.send("two")
        scene.engine.begin()
        scene.engine.say("first")
        scene.engine.finish()
        await scene.until(lambda: len(scene.engine.requests) == 2, "the second turn")
        await scene.until(lambda: scene.app.transcript.running, "its window")
        scene.engine.begin()
        scene.engine.say("second")
        scene.engine.finish()
        await scene.until(lambda: len(scene.app.query(Answer)) == 2, "its end")
        await scene.until(lambda: all(answer.settled for answer in scene.app.query(Answer)), "Markdown for both")
        assert [node.content for node in scene.app.transcript.nodes] == ["one", "first", "two", "second"]


async def test_up_edits_the_last_message_on_a_branch(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "first")
        await scene.pilot.press("up")
        assert scene.app.prompt.text == "one"
        assert "editing a message" in scene.text()
        await scene.type("!")
        await scene.pilot.press("enter")
        await scene.until(lambda: scene.app.transcript.running, "a window")
        assert [message.content for message in scene.engine.request.messages] == ["one!"]
        assert [node.content for node in scene.app.transcript.nodes] == ["one!"]
        assert scene.app.prompt.text == ""


async def test_escape_gives_up_editing_and_brings_the_draft_back(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "first")
        scene.app.action_edit_last()
        await scene.pilot.press("escape")
        assert scene.app.prompt.text == ""
        await scene.type("a draft")
        scene.app.action_edit_last()
        await scene.pilot.press("escape")
        assert scene.app.prompt.text == "a draft"


@pytest.mark.slow
@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_new_lines(tmp_path: Path, key: str) -> None:
    async with stage(tmp_path) as scene:
        await scene.pilot.press("a", key, "b")
        assert scene.app.prompt.text == "a\nb"
        assert scene.app.prompt.size.height == 2
        for _ in range(20):
            await scene.pilot.press(key)
        assert scene.app.prompt.size.height == 10


async def test_a_megabyte_is_pasted_at_once_and_sent_whole(tmp_path: Path) -> None:
    big = ("y" * 99 + "\n") * 10_000
    async with stage(tmp_path) as scene:
        await scene.type("What is this?")
        scene.app.prompt.post_message(events.Paste(big))
        await scene.settled()
        assert "▤ 1.0 MB, 10,001 lines, after your text" in scene.text()
        assert scene.app.prompt.text == "What is this?"
        await scene.pilot.press("enter")
        await scene.until(lambda: scene.engine.requests, "the request")
        assert scene.engine.request.messages[-1].content == f"What is this?\n\n{big}"
        await scene.settled()
        assert "all of it: 1.0 MB" in scene.text()


async def test_backspace_in_the_empty_prompt_takes_a_paste_away(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        scene.app.prompt.post_message(events.Paste("z" * 9_000))
        await scene.settled()
        assert "9 kB, before your text" in scene.text()
        await scene.pilot.press("backspace")
        assert scene.app.prompt.empty
        await scene.settled()
        assert "9 kB" not in scene.text()


async def test_a_paste_elsewhere_reaches_the_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        scene.app.transcript.focus()
        await scene.settled()
        scene.app.post_message(events.Paste("a\r\nb"))
        await scene.settled()
        assert scene.app.prompt.text == "a\nb"


async def test_an_unknown_command_names_the_nearest_and_keeps_the_text(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("/hlep me")
        assert "There is no command /hlep." in scene.toasts()
        assert "Did you mean /help?" in scene.toasts()
        assert scene.app.prompt.text == "/hlep me"
        assert scene.engine.requests == []


@pytest.mark.parametrize("text", ["/etc/hosts explain", " /new as text", "exit the loop", "what is /new?"])
async def test_what_only_looks_like_a_command_is_sent(tmp_path: Path, text: str) -> None:
    async with stage(tmp_path) as scene:
        await scene.send(text)
        assert [request.messages[-1].content for request in scene.engine.requests] == [text]


@pytest.mark.parametrize("text", ["/exit", "exit", "quit", ":q", "/bye"])
async def test_ways_to_leave_by_words(tmp_path: Path, text: str) -> None:
    async with stage(tmp_path) as scene:
        await scene.send(text)
        assert scene.app.return_code == 0
        assert scene.app._exit


@pytest.mark.parametrize("keys", [["ctrl+c", "ctrl+c"], ["ctrl+d"], ["ctrl+q"]])
async def test_ways_to_leave_by_keys(tmp_path: Path, keys: list[str]) -> None:
    async with stage(tmp_path) as scene:
        await scene.pilot.press(*keys)
        assert scene.app._exit


async def test_ctrl_c_stops_first(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("hello")
        await scene.pilot.press("ctrl+c")
        assert scene.engine.cancelled
        assert not scene.app._exit


async def test_nothing_to_send(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("   ")
        assert "There is nothing to send." in scene.toasts()


async def test_a_request_that_cannot_be_made_leaves_the_text(tmp_path: Path) -> None:
    async with stage(tmp_path, backend="nowhere") as scene:
        await scene.send("hello")
        assert "nowhere" in scene.toasts()
        assert scene.app.prompt.text == "hello"


async def test_an_engine_that_dies_is_shown_with_its_cause(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("hello")
        await scene.until(lambda: scene.app.transcript.running, "a window")
        scene.engine.begin()
        scene.engine.say("half")
        scene.engine.fail(Failure("The engine stopped.", "It was killed.", "Send again.", "EngineDied"))
        await scene.until(lambda: "✕ The engine stopped. It was killed. Send again." in scene.text(), "the cause")
        assert "half" in scene.text()


async def test_regenerate_and_versions(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "first answer")
        await scene.send("/regen")
        await scene.until(lambda: scene.app.transcript.running, "a window")
        assert "first answer" not in scene.text()
        scene.engine.begin()
        scene.engine.say("other answer")
        scene.engine.finish()
        await scene.until(lambda: scene.app.transcript.running is None, "the end")
        scene.app.transcript.focus()
        await scene.pilot.press("left")
        await scene.until(lambda: "first answer" in scene.text(), "the earlier version")


async def test_copy_says_what_was_used(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.turn("one", "copy me")
        scene.app.transcript.focus()
        await scene.pilot.press("c")
        await scene.settled()
        assert scene.app.clipboard == "copy me"
        assert "OSC 52" in scene.toasts()


async def test_a_fault_of_our_own_is_logged_and_the_chat_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path) as scene:

        def broken(*_: object) -> None:
            raise RuntimeError("oops [bold]")

        monkeypatch.setattr(scene.app.chat, "send", broken)
        await scene.send("hello")
        assert "RuntimeError: oops [bold]" in scene.toasts()
        assert scene.app.prompt.text == "hello"
        monkeypatch.undo()
        await scene.pilot.press("enter")
        await scene.until(lambda: scene.engine.requests, "the request after all")
        assert "RuntimeError: oops" in scene.app.paths.log.read_text()


async def test_a_draft_survives_the_end(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.type("half a thought")
    async with stage(tmp_path) as scene:
        assert scene.app.prompt.text == "half a thought"
