"""The conversation controller with an engine driven by hand and a clock that moves when told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fader.chat import FLUSH_S
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_backends.errors import EmptyPrompt
from fader_plugins.turn import RunRecord

from tests.app.chat_desk import Desk


@pytest.fixture
def desk(tmp_path: Path, board: Callable[..., Switchboard]) -> Desk:
    return Desk(tmp_path, board())


def test_the_question_is_on_disk_before_the_engine_hears_of_it(desk: Desk) -> None:
    desk.chat.send("hello")
    assert desk.stored_at_submit == ["user:hello:complete", "assistant::streaming"]


def test_a_reply_ends_with_its_ids_and_its_record(desk: Desk) -> None:
    desk.chat.send("hello")
    desk.token("good ", 11)
    desk.token("day", 12)
    desk.finish(ids=(11, 12))
    node = desk.chat.nodes()[-1]
    assert (node.content, node.ids, node.state) == ("good day", (11, 12), "complete")
    assert node.record is not None
    record = msgspec.json.decode(node.record, type=RunRecord)
    assert record.numbers.output_tokens == 2
    assert record.request.messages == ()


def test_a_running_reply_is_written_once_a_second(desk: Desk) -> None:
    desk.chat.send("hello")
    desk.token("a")
    assert desk.chat.nodes()[-1].content == ""
    desk.seconds = FLUSH_S
    desk.token("b")
    node = desk.chat.nodes()[-1]
    assert (node.content, node.ids, node.state) == ("ab", (7, 7), "streaming")
    desk.seconds += FLUSH_S / 2
    desk.token("c")
    assert desk.chat.nodes()[-1].content == "ab"


def test_the_next_prompt_holds_what_was_said_and_the_ids_of_replies(desk: Desk) -> None:
    desk.chat.send("one")
    desk.reply("first")
    desk.chat.send("two")
    assert [(m.role, m.content, m.ids) for m in desk.requests[-1].messages] == [
        ("user", "one", None),
        ("assistant", "first", (7,)),
        ("user", "two", None),
    ]


def test_a_system_prompt_comes_first(tmp_path: Path, board: Callable[..., Switchboard]) -> None:
    desk = Desk(tmp_path, board(system="Be brief."))
    desk.chat.send("hello")
    assert desk.requests[-1].messages[0] == Message("system", "Be brief.")


def test_a_conversation_keeps_its_clock_and_its_owner(desk: Desk) -> None:
    desk.chat.send("one")
    desk.reply("first")
    desk.chat.send("two")
    one, two = desk.requests
    assert one.now == two.now
    assert one.owner == two.owner != ""


def test_blank_text_is_refused(desk: Desk) -> None:
    with pytest.raises(EmptyPrompt):
        desk.chat.send(" \n ")
    assert desk.store.conversations() == []


def test_prompts_typed_while_busy_wait_their_turn(desk: Desk) -> None:
    desk.chat.send("one")
    desk.chat.send("two")
    desk.chat.send("three")
    assert desk.chat.queue == ["two", "three"]
    desk.reply("first")
    assert desk.asked() == ["one", "first", "two"]
    assert desk.chat.queue == ["three"]


def test_a_stop_keeps_the_partial_reply_and_gives_waiting_prompts_back(desk: Desk) -> None:
    desk.chat.send("one")
    desk.chat.send("two")
    desk.chat.send("three")
    desk.token("par")
    assert desk.chat.cancel()
    assert desk.chat.cancel()
    assert desk.cancelled == ["turn-1"]
    assert desk.back == ["two\n\nthree"]
    desk.finish("cancelled")
    node = desk.chat.nodes()[-1]
    assert (node.content, node.state) == ("par", "cancelled")
    assert desk.chat.turn is None


def test_what_is_typed_after_a_stop_is_sent_when_the_engine_is_free(desk: Desk) -> None:
    desk.chat.send("one")
    desk.chat.cancel()
    desk.chat.send("two")
    desk.finish("cancelled")
    assert desk.asked() == ["one\n\ntwo"]


def test_there_is_nothing_to_stop_when_idle(desk: Desk) -> None:
    assert not desk.chat.cancel()


def test_a_failed_turn_keeps_what_came_and_gives_waiting_prompts_back(desk: Desk) -> None:
    desk.chat.send("one")
    desk.chat.send("two")
    desk.token("par")
    desk.fail()
    node = desk.chat.nodes()[-1]
    assert (node.content, node.ids, node.state) == ("par", (7,), "failed")
    assert desk.back == ["two"]
    assert desk.ended[0].stats.failure is not None


def test_a_question_that_failed_without_a_word_does_not_burden_later_prompts(desk: Desk) -> None:
    desk.chat.send("far too long")
    desk.fail()
    desk.chat.send("short")
    assert desk.asked() == ["short"]
    assert desk.seen() == ["far too long", "", "short", ""]
