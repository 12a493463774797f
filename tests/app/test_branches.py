"""The tree of a conversation: everything said stays, every branch knows what made it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fader.odds import Chosen, packed
from fader.store import Node
from fader.switchboard import Switchboard
from fader_backends.errors import FaderError
from fader_backends.odds import Odds
from fader_backends.odds import packed as column
from fader_plugins.turn import Begun, RunRecord

from tests.app.chat_desk import Desk

ODDS = Odds(
    logprob=-0.5,
    entropy=1.0,
    left=2,
    tokens=column("I", [7, 8]),
    before=column("f", [-0.5, -1.5]),
    after=column("f", [-0.3, -1.3]),
    removed=b"\0\0",
)


@pytest.fixture
def desk(tmp_path: Path, board: Callable[..., Switchboard]) -> Desk:
    made = Desk(tmp_path, board())
    made.chat.send("one")
    made.reply("first")
    made.chat.send("two")
    made.reply("second")
    return made


def everything(desk: Desk) -> set[str]:
    assert desk.chat.conversation is not None
    return {twig.sketch for twig in desk.chat.branches.twigs()}


def at(desk: Desk, place: int) -> Node:
    return desk.chat.nodes()[place]


def test_an_earlier_question_in_other_words(desk: Desk) -> None:
    desk.chat.branches.edit(at(desk, 0), "eins")
    assert desk.asked() == ["eins"]
    desk.reply("erste")
    assert desk.seen() == ["eins", "erste"]
    assert everything(desk) == {"one", "first", "two", "second", "eins", "erste"}


def test_an_edited_reply_stands_beside_and_is_what_the_model_sees_next(desk: Desk) -> None:
    desk.chat.branches.edit(at(desk, 1), "FIRST")
    node = at(desk, -1)
    assert (desk.seen(), node.state, node.ids) == (["one", "FIRST"], "edited", None)
    assert len(desk.requests) == 2, "nothing was asked"
    desk.chat.send("three")
    assert desk.asked() == ["one", "FIRST", "three"]
    assert "first" in everything(desk)


def test_an_edit_that_changes_nothing_makes_nothing(desk: Desk) -> None:
    before = desk.chat.branches.twigs()
    with pytest.raises(FaderError, match="Nothing was changed"):
        desk.chat.branches.edit(at(desk, 3), "second")
    with pytest.raises(FaderError, match="nothing to send"):
        desk.chat.branches.edit(at(desk, 3), " \n")
    assert desk.chat.branches.twigs() == before


def test_going_on_begins_with_the_reply_and_leaves_it(desk: Desk) -> None:
    """A reply of the model goes on by its ids, one in a person's words by its text."""
    desk.chat.branches.go_on(at(desk, 3))
    begin = desk.requests[-1].begin
    assert begin is not None
    assert (begin.ids, desk.asked()) == ((7,), ["one", "first", "two"])
    desk.event(Begun(request_id=desk.requests[-1].id, at_ns=0, ids=(7,), text="second"))
    desk.reply(" and more")
    assert desk.seen()[-1] == "second and more"
    assert at(desk, 3).ids == (7, 7)
    desk.chat.branches.edit(at(desk, 3), "Second")
    desk.chat.branches.go_on(at(desk, 3))
    begin = desk.requests[-1].begin
    assert begin is not None
    assert (begin.ids, begin.content) == (None, "Second")
    assert {"second", "second and more", "Second"} <= everything(desk)


def test_a_forced_token_keeps_what_came_before_it(desk: Desk) -> None:
    reply = at(desk, 3)
    chosen = Chosen(ids=(7, 7, 7), odds=(ODDS,) * 3, pieces={7: b"a", 8: b"b"})
    desk.store.keep_odds(reply.id, packed(chosen), 10_000)
    desk.chat.board.switch("logprobs", True)
    desk.chat.branches.force(reply, 1, 8)
    request = desk.requests[-1]
    assert request.begin is not None
    assert (request.begin.ids, request.logprobs) == ((7, 8), 10)
    desk.event(Begun(request_id=request.id, at_ns=0, ids=(7, 8), text="ab"))
    desk.finish(ids=(7, 8))
    kept = desk.chat.branches.chosen(at(desk, 3))
    assert kept is not None
    assert (kept.ids, kept.forced) == ((7, 8), (1,))
    assert kept.odds[0] == ODDS
    assert kept.odds[1] is not None
    assert kept.odds[1].logprob == -1.5
    assert desk.chat.branches.chosen(reply) == chosen, "the reply it branched from is as it was"


def test_what_was_not_noted_cannot_be_branched_at(desk: Desk) -> None:
    with pytest.raises(FaderError, match="is not known"):
        desk.chat.branches.force(at(desk, 3), 0, 8)


def test_versions_are_counted_on_both_sides(desk: Desk) -> None:
    desk.chat.regenerate()
    desk.reply("other")
    desk.chat.branches.edit(at(desk, 2), "zwei")
    desk.reply("x")
    counts = desk.chat.branches.counts()
    assert counts[at(desk, 2).id] == (2, 2)
    desk.chat.branches.show_version(at(desk, 2), -1)
    assert desk.seen() == ["one", "first", "two", "other"], "the latest of what follows"
    assert desk.chat.branches.counts()[at(desk, 3).id] == (2, 2)
    assert at(desk, 0).id not in counts


def test_any_message_can_be_gone_to(desk: Desk) -> None:
    desk.chat.branches.edit(at(desk, 0), "eins")
    desk.reply("erste")
    first = desk.chat.branches.twigs()[1]
    desk.chat.branches.go_to(first.id)
    assert desk.seen() == ["one", "first", "two", "second"]


def test_asking_again_anywhere(desk: Desk) -> None:
    desk.chat.branches.again(at(desk, 1))
    assert desk.asked() == ["one"]
    desk.reply("1st")
    assert desk.seen() == ["one", "1st"]


def test_deleting_goes_to_the_nearest_version_else_up(desk: Desk) -> None:
    desk.chat.regenerate()
    desk.reply("other")
    desk.chat.branches.delete(at(desk, 3))
    assert desk.seen() == ["one", "first", "two", "second"]
    desk.chat.branches.delete(at(desk, 2))
    assert desk.seen() == ["one", "first"]
    desk.chat.branches.delete(at(desk, 0))
    assert (desk.seen(), everything(desk)) == ([], set())
    desk.chat.send("anew")
    assert desk.asked() == ["anew"]


def test_a_fork_goes_on_by_itself(desk: Desk) -> None:
    assert desk.chat.conversation is not None
    origin = desk.chat.conversation.id
    desk.chat.branches.fork(at(desk, 1))
    assert desk.chat.conversation.id != origin
    assert desk.seen() == ["one", "first"]
    desk.chat.send("elsewhere")
    assert desk.requests[-1].owner == desk.chat.conversation.id
    desk.reply("there")
    desk.chat.resume(origin)
    assert desk.seen() == ["one", "first", "two", "second"]


def test_every_branch_remembers_its_settings(desk: Desk) -> None:
    desk.chat.board.set("sampler", "temperature", 1.5)
    desk.chat.board.switch("sampler", True)
    desk.chat.regenerate()
    desk.reply("hotter")
    first, second = (desk.store.path(twig.id)[-1] for twig in desk.chat.branches.twigs()[-2:])
    records = [msgspec.json.decode(node.record or b"", type=RunRecord) for node in (first, second)]
    assert [record.request.sampler.temperature == 1.5 for record in records] == [False, True]
    assert [record.text for record in records] == ["second", "hotter"]


ACTS: dict[str, Callable[[Desk], Any]] = {
    "edit": lambda desk: desk.chat.branches.edit(at(desk, 0), "x"),
    "edit a reply": lambda desk: desk.chat.branches.edit(at(desk, 1), "x"),
    "again": lambda desk: desk.chat.branches.again(at(desk, 1)),
    "go on": lambda desk: desk.chat.branches.go_on(at(desk, 1)),
    "delete": lambda desk: desk.chat.branches.delete(at(desk, 0)),
    "fork": lambda desk: desk.chat.branches.fork(at(desk, 1)),
    "go to": lambda desk: desk.chat.branches.go_to(at(desk, 0).id),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_running_reply_is_not_disturbed(desk: Desk, act: str) -> None:
    desk.chat.send("three")
    before = desk.chat.branches.twigs()
    with pytest.raises(FaderError, match="A reply is running"):
        ACTS[act](desk)
    assert desk.chat.branches.twigs() == before
    desk.reply("third")
    assert desk.seen()[-1] == "third"


def test_only_replies_can_be_gone_on_with(desk: Desk) -> None:
    with pytest.raises(FaderError, match="Only a reply"):
        desk.chat.branches.go_on(at(desk, 2))


def test_a_message_that_another_instance_deleted(desk: Desk) -> None:
    """The parent of a branch is gone meanwhile: one clear line, and nothing stored."""
    node = at(desk, 3)
    desk.store.cut(at(desk, 2).id)
    with pytest.raises(FaderError, match="not there any more"):
        desk.chat.branches.edit(node, "x")
    with pytest.raises(FaderError, match="not there any more"):
        desk.chat.branches.go_on(node)
