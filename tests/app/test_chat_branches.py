"""Branches, faults and other conversations of the controller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fader.chat import FLUSH_S
from fader.switchboard import Switchboard
from fader.turns import joined
from fader_backends.base import Message
from fader_backends.errors import FaderError, StoreError
from fader_plugins.turn import Started

from tests.app.chat_desk import Desk


@pytest.fixture
def desk(tmp_path: Path, board: Callable[..., Switchboard]) -> Desk:
    return Desk(tmp_path, board())


def test_it_can_be_asked_again(desk: Desk) -> None:
    desk.chat.send("one")
    desk.fail()
    desk.chat.regenerate()
    assert desk.asked() == ["one"]


def test_editing_the_last_message_makes_a_branch_and_overwrites_nothing(desk: Desk) -> None:
    desk.chat.send("one")
    desk.reply("first")
    desk.chat.send("two")
    desk.reply("second")
    desk.chat.edit_last("zwei")
    assert desk.asked() == ["one", "first", "zwei"]
    desk.reply("third")
    assert desk.seen() == ["one", "first", "zwei", "third"]
    conversation = desk.chat.conversation
    assert conversation is not None
    first = desk.chat.nodes()[1]
    assert [node.content for node in desk.store.children(conversation.id, first.id)] == ["two", "zwei"]


def test_editing_the_very_first_message(desk: Desk) -> None:
    desk.chat.send("one")
    desk.reply("first")
    desk.chat.edit_last("eins")
    assert desk.asked() == ["eins"]


def test_versions_of_a_reply(desk: Desk) -> None:
    desk.chat.send("one")
    desk.reply("first")
    desk.chat.regenerate()
    desk.reply("other")
    assert desk.seen() == ["one", "other"]
    last = desk.chat.nodes()[-1]
    assert desk.chat.branches.show_version(last, 1) is None
    earlier = desk.chat.branches.show_version(last, -1)
    assert earlier is not None
    assert desk.seen() == ["one", "first"]
    desk.chat.send("two")
    assert desk.asked() == ["one", "first", "two"]


@pytest.mark.parametrize("what", ["edit", "again"])
def test_edits_need_an_idle_engine_and_a_message(desk: Desk, what: str) -> None:
    act: Callable[[], None] = (lambda: desk.chat.edit_last("x")) if what == "edit" else desk.chat.regenerate
    with pytest.raises(FaderError, match="no message yet"):
        act()
    desk.chat.send("one")
    with pytest.raises(FaderError, match="running"):
        act()


def test_a_request_that_cannot_be_planned_stores_nothing(tmp_path: Path, board: Callable[..., Switchboard]) -> None:
    desk = Desk(tmp_path, board(backend="nowhere"))
    with pytest.raises(FaderError, match="nowhere"):
        desk.chat.send("hello")
    assert desk.store.conversations() == []
    assert desk.chat.turn is None


def test_a_queued_prompt_that_cannot_be_planned_comes_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.chat.send("one")
    desk.chat.send("two")

    def refuse(*_: object) -> None:
        raise FaderError("Not now.")

    monkeypatch.setattr(desk.chat.board, "plan", refuse)
    desk.reply("first")
    assert desk.back == ["two"]
    assert [failure.title for failure in desk.told] == ["Not now."]
    assert desk.chat.turn is None


def test_a_full_disk_is_told_once_and_the_reply_goes_on(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.chat.send("one")

    def full(*_: object, **__: object) -> None:
        raise StoreError("No room left.")

    monkeypatch.setattr(desk.store, "update", full)
    for text in "abc":
        desk.seconds += FLUSH_S
        desk.token(text)
    assert [failure.title for failure in desk.told] == ["No room left."]
    monkeypatch.undo()
    desk.finish()
    assert desk.chat.nodes()[-1].content == "abc"


def test_resuming_brings_messages_back(desk: Desk) -> None:
    desk.chat.send("one")
    desk.reply("first")
    conversation = desk.chat.conversation
    assert conversation is not None
    desk.chat.new()
    assert desk.seen() == []
    desk.chat.resume(conversation.id)
    desk.chat.send("two")
    assert desk.asked() == ["one", "first", "two"]


def test_a_new_chat_stops_the_reply_and_its_end_goes_where_it_belongs(desk: Desk) -> None:
    desk.chat.send("one")
    desk.token("par")
    desk.chat.new()
    desk.chat.send("elsewhere")
    assert desk.cancelled == ["turn-1"]
    desk.finish("cancelled")
    assert desk.asked() == ["elsewhere"]
    desk.reply("there")
    assert desk.seen() == ["elsewhere", "there"]
    assert sorted(found.title for found in desk.store.conversations()) == ["elsewhere", "one"]


def test_events_of_other_turns_are_dropped(desk: Desk) -> None:
    desk.event(Started(request_id="unknown", at_ns=0))
    desk.chat.send("one")
    desk.event(Started(request_id="unknown", at_ns=0))
    assert desk.chat.turn is not None
    assert desk.chat.turn.stats.started_ns is None


def test_closing_writes_what_there_is(desk: Desk) -> None:
    desk.chat.send("one")
    desk.token("par")
    desk.chat.close()
    node = desk.chat.nodes()[-1]
    assert (node.content, node.state) == ("par", "cancelled")


def test_neighbours_of_the_user_are_joined() -> None:
    said = [Message("user", "a"), Message("user", "b"), Message("assistant", "c"), Message("user", "d")]
    assert [message.content for message in joined(said)] == ["a\n\nb", "c", "d"]
