"""A comparison in a conversation: where it stands, keeping a reply, and keeping one whose place is gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from fader.compare import make, place
from fader.compare.asked import Asked
from fader.compare.values import Comparison
from fader.switchboard import Switchboard
from fader_backends.errors import FaderError
from fader_plugins.turn import RunRecord

from tests.app.chat_desk import Desk as ChatDesk
from tests.compare.conftest import MakeDesk
from tests.compare.desk import Desk

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Boards = Callable[..., Switchboard]


@pytest.fixture
def talk(tmp_path: Path, board: Boards) -> ChatDesk:
    return ChatDesk(tmp_path, board())


def compared(one: Desk, where: place.Stand, *changes: str) -> Comparison:
    side = one.lay(*changes)
    side.asked = Asked(owner=where.conversation, messages=where.messages, now=where.clock, seed=7)
    side.start()
    one.work()
    return msgspec.structs.replace(
        make.stored(side, AT, "test"),
        conversation=where.conversation,
        parent=where.parent,
        question=where.question,
    )


def replies(talk: ChatDesk) -> list[str]:
    node = talk.chat.nodes()[-1]
    return [one.content for one in talk.store.children(node.conversation, node.parent)]


def test_a_kept_reply_goes_on_and_the_others_are_siblings(desk: MakeDesk, talk: ChatDesk) -> None:
    talk.chat.send("first")
    talk.reply("one")
    where = place.stand(talk.chat, "and then?")
    assert [message.content for message in where.messages] == ["first", "one", "and then?"]
    comparison = compared(desk(), where, "seed=1", "seed=2", "seed=3")
    texts = [column.answer.record.text for column in comparison.columns if column.answer]
    kept, notice = place.keep(talk.chat, comparison, 1)
    assert (talk.seen(), notice) == (["first", "one", "and then?", texts[1]], "")
    assert replies(talk) == texts
    node = talk.chat.nodes()[-1]
    assert node.record is not None
    record = msgspec.json.decode(node.record, type=RunRecord)
    assert (record.request.sampler.seed, node.ids, node.state) == (2, record.ids, "complete")
    assert kept.kept == "B"

    again, _ = place.keep(talk.chat, kept, 0)
    assert (talk.seen()[-1], len(replies(talk)), again.kept) == (texts[0], 3, "A"), "nothing is stored twice"
    talk.chat.send("more")
    assert talk.asked() == ["first", "one", "and then?", texts[0], "more"]


def test_the_last_question_again(desk: MakeDesk, talk: ChatDesk) -> None:
    """Its former reply stays the first of the siblings."""
    talk.chat.send("first")
    talk.reply("one")
    where = place.stand(talk.chat, "")
    comparison = compared(desk(), where, "seed=1", "seed=2")
    place.keep(talk.chat, comparison, 0)
    assert (talk.seen()[0], replies(talk)[0], len(replies(talk))) == ("first", "one", 3)


def test_in_a_new_chat(desk: MakeDesk, talk: ChatDesk) -> None:
    comparison = compared(desk(), place.stand(talk.chat, "hello"), "seed=1", "seed=2")
    place.keep(talk.chat, comparison, 0)
    assert talk.seen()[0] == "hello"
    assert talk.store.conversations()[0].title == "hello"


def test_nothing_to_ask(talk: ChatDesk) -> None:
    with pytest.raises(FaderError, match="nothing to ask"):
        place.stand(talk.chat, " ")
    talk.chat.send("first")
    with pytest.raises(FaderError, match="A reply is running"):
        place.stand(talk.chat, "")


@pytest.mark.parametrize("again", [False, True], ids=["new question", "last question"])
def test_a_place_that_was_deleted_meanwhile(desk: MakeDesk, talk: ChatDesk, again: bool) -> None:
    """The reply is kept in a new conversation that holds what was said before, and that is told."""
    talk.chat.send("first")
    talk.reply("one")
    where = place.stand(talk.chat, "" if again else "and then?")
    comparison = compared(desk(), where, "seed=1", "seed=2")
    talk.store.delete(where.conversation)
    _, notice = place.keep(talk.chat, comparison, 1)
    assert notice == place.MOVED
    assert talk.seen()[:-1] == (["first"] if again else ["first", "one", "and then?"])
    assert len(replies(talk)) == 2


def test_a_column_without_a_reply_cannot_be_kept(desk: MakeDesk, talk: ChatDesk) -> None:
    comparison = compared(desk(), place.stand(talk.chat, "hello"), "seed=1", "model=gone.gguf")
    with pytest.raises(FaderError, match="no reply to keep"):
        place.keep(talk.chat, comparison, 1)
    place.keep(talk.chat, comparison, 0)
    assert len(replies(talk)) == 1
