"""The conversation controller with an engine driven by hand and a clock that moves when told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import msgspec
import pytest
from fader.chat import FLUSH_S, Chat, Turn
from fader.store import Store
from fader.switchboard import Switchboard
from fader.turns import joined
from fader_backends.base import Memory, Message, SamplerSettings
from fader_backends.errors import EmptyPrompt, FaderError, Failure, StoreError
from fader_plugins.turn import AnyEvent, Failed, Finished, FinishReason, GenerationRequest, RunRecord, Started, Token

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Desk:
    """A chat, its engine and its viewer in one."""

    def __init__(self, folder: Path, board: Switchboard) -> None:
        self.store = Store.open(folder / "fader.db", lambda: NOW)
        self.requests: list[GenerationRequest] = []
        self.cancelled: list[str] = []
        self.prepared: list[GenerationRequest] = []
        self.adjusted: list[tuple[str, SamplerSettings]] = []
        self.seconds = 0.0
        self.began: list[Turn] = []
        self.ended: list[Turn] = []
        self.back: list[str] = []
        self.told: list[Failure] = []
        self.stored_at_submit: list[str] = []
        ids = count(1)
        self.chat = Chat(
            self.store,
            board,
            self,
            self,
            now=lambda: NOW,
            seconds=lambda: self.seconds,
            nanoseconds=lambda: 0,
            new_id=lambda: f"turn-{next(ids)}",
        )

    def submit(self, request: GenerationRequest) -> None:
        self.requests.append(request)
        self.stored_at_submit = [f"{node.role}:{node.content}:{node.state}" for node in self.chat.nodes()]

    def prepare(self, request: GenerationRequest) -> None:
        self.prepared.append(request)

    def adjust(self, request_id: str, sampler: SamplerSettings) -> None:
        self.adjusted.append((request_id, sampler))

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    def turn_began(self, turn: Turn) -> None:
        self.began.append(turn)

    def turn_ended(self, turn: Turn) -> None:
        self.ended.append(turn)

    def path_changed(self) -> None: ...
    def queue_changed(self) -> None: ...

    def returned(self, text: str) -> None:
        self.back.append(text)

    def tell(self, failure: Failure) -> None:
        self.told.append(failure)

    def event(self, event: AnyEvent) -> None:
        self.chat.on_event(event)

    def token(self, text: str, token: int = 7) -> None:
        index = len(self.began[-1].stats.ids)
        self.event(
            Token(
                request_id=self.requests[-1].id,
                at_ns=index,
                index=index,
                step=index,
                token=token,
                text=text,
                logprob=0.0,
            )
        )

    def finish(self, reason: FinishReason = "end", ids: tuple[int, ...] | None = None) -> None:
        turn = self.chat.turn
        assert turn is not None
        ids = tuple(turn.stats.ids) if ids is None else ids
        self.event(
            Finished(
                request_id=turn.request.id,
                at_ns=9,
                reason=reason,
                text="",
                ids=ids,
                context_used=1,
                memory=Memory(),
                rss_peak_bytes=1,
            )
        )

    def fail(self) -> None:
        failure = Failure("The engine stopped.", "why", "Send again.", "EngineDied")
        self.event(Failed(request_id=self.requests[-1].id, at_ns=9, failure=failure))

    def reply(self, text: str) -> None:
        self.token(text)
        self.finish()

    def seen(self) -> list[str]:
        return [node.content for node in self.chat.nodes()]

    def asked(self) -> list[str]:
        return [message.content for message in self.requests[-1].messages]


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
    assert desk.chat.show_version(last, 1) is None
    earlier = desk.chat.show_version(last, -1)
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
