"""Every turn is kept with its events, bounded, unless that is switched off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from fader import kept
from fader.switchboard import Switchboard

from tests.app.chat_desk import Desk


@pytest.fixture
def desk(tmp_path: Path, board: Callable[..., Switchboard]) -> Desk:
    return Desk(tmp_path, board())


def kept_of(desk: Desk) -> list[kept.Kept]:
    conversation = desk.chat.conversation
    assert conversation is not None
    found = [kept.unpacked(data) for _, data in desk.store.events(conversation.id, 99)]
    assert None not in found
    return [one for one in found if one is not None]


def test_a_turn_is_kept_with_every_event_but_without_its_prompt(desk: Desk) -> None:
    desk.chat.send("a secret question")
    desk.token("an ", 11)
    desk.token("answer", 12)
    desk.finish()
    (one,) = kept_of(desk)
    assert [type(event).__name__ for event in one.events] == ["Token", "Token", "Finished"]
    assert one.stats.numbers() == desk.ended[-1].stats.numbers()
    assert one.request.messages == ()
    assert b"secret" not in msgspec.json.encode(one)
    assert one.messages == 1


def test_the_same_question_has_the_same_digest_and_another_not(desk: Desk) -> None:
    desk.chat.send("one")
    desk.reply("first")
    desk.chat.regenerate()
    desk.reply("second")
    desk.chat.send("two")
    desk.reply("third")
    latest, again, first = kept_of(desk)
    assert first.prompt == again.prompt != latest.prompt
    assert latest.messages == 3


def test_switches_are_kept_as_they_stood_when_it_was_sent(desk: Desk) -> None:
    desk.chat.send("one")
    desk.chat.board.switch("prefix_cache", False)
    desk.reply("first")
    assert kept_of(desk)[0].profile.plugins["prefix_cache"]["on"] is True


def test_the_oldest_turns_make_room(desk: Desk) -> None:
    desk.chat.board.profile = msgspec.structs.replace(desk.chat.board.profile, record_mib=1)
    for text in ("one", "two"):
        desk.chat.send(text)
        desk.reply("x")
    conversation = desk.chat.conversation
    assert conversation is not None
    (newest, _), _ = desk.store.events(conversation.id, 9)
    desk.store.keep_events(newest, bytes(2**20), 2**20)
    assert [node for node, _ in desk.store.events(conversation.id, 9)] == [newest]


def test_nothing_is_kept_where_it_is_off(desk: Desk) -> None:
    desk.chat.board.profile = msgspec.structs.replace(desk.chat.board.profile, record_mib=0)
    desk.chat.send("one")
    desk.reply("first")
    assert kept_of(desk) == []


def test_what_cannot_be_read_counts_as_nothing() -> None:
    assert kept.unpacked(b"no") is None
