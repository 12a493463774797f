"""A miss explains itself: the first token that differs, both texts, the likely cause; and so does a tier that failed."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from fader_backends.base import Message
from fader_backends.echo import EchoBackend
from fader_plugins.prefix import folder

from .conftest import CACHES, LONG, NOW, Talk, user


def test_eviction_is_named(talk: Talk) -> None:
    talk.set(**CACHES["session only"])
    begun = talk.say([user(LONG)])
    for n in range(4):
        talk.say([user(LONG)], owner=f"other {n}")
    talk.say([*begun, user("more")])
    assert talk.reused == (0, "")
    assert "evicted" in talk.note


def test_an_edit_is_named(talk: Talk) -> None:
    begun = talk.say([user(LONG)])
    talk.say([user(LONG[:-3] + "!"), *begun[1:], user("more")])
    assert f"differs at token {len(LONG) - 2}" in talk.note
    assert "message 1" in talk.note
    talk.say([user(LONG)])
    talk.say([user(LONG + " "), *begun[1:], user("more")])
    assert "white space of message 1" in talk.note


def test_a_full_disk_costs_only_the_tier(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "RESERVE_BYTES", 1 << 60)
    begun = talk.say([user(LONG)])
    assert talk.tiers.disk.flush(10)
    talk.say([*begun, user("more")])
    assert "nothing more is kept on disk" in talk.note
    assert talk.reused[0] > 0
    again = talk.say([*begun, user("more")])
    assert "disk" not in talk.note
    assert again[-1].content


def test_a_damaged_file_is_named_and_the_turn_goes_on(talk: Talk) -> None:
    begun = talk.say([user(LONG)])
    assert talk.tiers.disk.flush(10)
    for path in talk.tiers.disk.path.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    talk.restart()
    talk.say([*begun, user("more")])
    assert talk.reused == (0, "")
    assert "cut short; removed" in talk.note
    assert "75 tokens were evicted" in talk.note


def test_the_clock_in_the_template(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = EchoBackend.chat
    monkeypatch.setattr(
        EchoBackend,
        "chat",
        lambda self, messages, now: [*f"{now:%d %B %Y}".encode(), *plain(self, messages, now)],
    )
    begun = talk.say([user(LONG)])
    talk.say([*begun, user("more")], now=NOW + timedelta(days=1))
    assert "the template prints a date" in talk.note
    assert "'2 Janu'" in talk.note


def test_a_template_that_forgets_thinking(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = EchoBackend.chat

    def chat(self: EchoBackend, messages: list[Message], now: object) -> list[int]:
        told = [Message(m.role, m.content.rpartition("</think>")[2]) if m.role == "assistant" else m for m in messages]
        return plain(self, told, NOW)

    monkeypatch.setattr(EchoBackend, "chat", chat)
    talk.board.profile = msgspec.structs.replace(talk.board.profile, load={"noise": 0.0})
    talk.board.switch("sampler", False)
    talk.board.profile = msgspec.structs.replace(talk.board.profile, max_tokens=200)
    begun = talk.say([user(f"<think>{LONG}</think>so it is")])
    assert begun[1].content.startswith("<think>")
    talk.say([*begun, user("more")])
    assert "thinking" in talk.note
