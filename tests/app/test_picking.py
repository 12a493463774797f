"""A reply picked by hand, on the echo backend: every step is a real turn of a real engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fader.chat import Chat
from fader.headless import Headless
from fader.odds import END, NOTHING
from fader.picking import Picking, begin
from fader.switchboard import Switchboard
from fader_backends.base import SamplerSettings
from fader_backends.errors import FaderError
from fader_plugins.turn import AnyEvent, GenerationRequest

from tests.app.chat_desk import Desk

SAMPLER = {"on": True, "seed": 5, "temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "top_k": 0}


class Live:
    """An engine that runs each request to its end when told to."""

    def __init__(self, headless: Headless) -> None:
        self.headless = headless
        self.chat: Chat | None = None
        self.waiting: list[GenerationRequest] = []

    def submit(self, request: GenerationRequest) -> None:
        self.waiting.append(request)

    def prepare(self, request: GenerationRequest) -> None: ...
    def adjust(self, request_id: str, sampler: SamplerSettings) -> None: ...
    def cancel(self, request_id: str) -> None:
        self.waiting.clear()

    def work(self) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        while self.waiting:
            events += self.headless.run(self.waiting.pop(0))
        assert self.chat is not None
        for event in events:
            self.chat.on_event(event)
        return events


class Table:
    """A chat in which one question has an answer of the model's own."""

    def __init__(self, desk: Desk, live: Live) -> None:
        self.desk, self.live, self.chat = desk, live, desk.chat
        live.chat, desk.chat.engine = desk.chat, live
        desk.chat.send("hello")
        live.work()
        self.whole = self.chat.nodes()[-1].ids or ()

    def pick(self) -> Picking:
        made = begin(self.chat, self.chat.nodes()[0], lambda: None)
        self.live.work()
        return made

    def take(self, picking: Picking, token: int) -> None:
        picking.take(token)
        self.live.work()


@pytest.fixture
def table(tmp_path: Path, board: Callable[..., Switchboard], home: Path) -> Iterator[Table]:
    made = board(plugins={"sampler": SAMPLER}, load={"noise": 1.5}, max_tokens=12)
    with Headless(made.registry) as headless:
        yield Table(Desk(tmp_path, made), Live(headless))


def offered(picking: Picking) -> int:
    assert picking.offered is not None
    return picking.offered[0]


def test_taking_what_is_offered_is_the_models_own_reply(table: Table) -> None:
    """With the same seed: token for token what the model wrote by itself."""
    picking = table.pick()
    while len(picking.chosen.ids) < len(table.whole):
        table.take(picking, offered(picking))
    assert picking.chosen.ids == table.whole
    assert picking.chosen.forced == ()
    picking.close()
    node = table.chat.store.path(table.chat.branches.twigs()[-1].id)[-1]
    assert (node.ids, node.state) == (table.whole, "cancelled")
    kept = table.chat.branches.chosen(node)
    assert kept is not None
    assert kept.ids == table.whole


def test_another_token_is_marked_as_a_persons(table: Table) -> None:
    picking = table.pick()
    assert picking.offered is not None
    other = next(one.token for one in picking.offered[1].candidates() if one.token != offered(picking))
    table.take(picking, other)
    assert (picking.chosen.ids, picking.chosen.forced) == ((other,), (0,))


def test_undo_offers_the_same_again(table: Table) -> None:
    picking = table.pick()
    first = picking.offered
    table.take(picking, offered(picking))
    second = picking.offered
    table.take(picking, offered(picking))
    picking.undo()
    assert picking.offered == second
    picking.undo()
    assert (picking.offered, picking.chosen.ids) == (first, ())
    picking.undo()
    assert picking.offered == first, "there is nothing more to undo"
    table.take(picking, offered(picking))
    assert picking.chosen.ids == table.whole[:1]


def test_a_run_goes_on_to_the_end_where_nothing_surprises(table: Table) -> None:
    picking = table.pick()
    picking.run(1000.0)
    table.live.work()
    assert picking.chosen.ids[: len(table.whole)] == table.whole
    assert picking.ended


def test_a_run_stops_before_the_surprise(table: Table) -> None:
    picking = table.pick()
    picking.run(0.5)
    table.live.work()
    assert not picking.ended
    assert picking.offered is not None
    assert picking.offered[1].logprob < -0.34
    assert picking.chosen.ids == table.whole[: len(picking.chosen.ids)]


def test_the_end_can_be_taken_and_undone(table: Table) -> None:
    picking = table.pick()
    table.take(picking, offered(picking))
    assert picking.offered is not None
    end = next((t for t in picking.offered[1].ids() if picking.chosen.label(t) == END), None)
    if end is None:
        picking.chosen.pieces[256] = b""
        end = 256
    table.take(picking, end)
    assert picking.ended
    picking.undo()
    table.live.work()
    assert not picking.ended
    assert picking.chosen.ids == table.whole[:1]
    table.take(picking, end)
    picking.close()
    assert table.chat.store.path(table.chat.branches.twigs()[-1].id)[-1].state == "complete"


def test_a_reply_without_a_token_leaves_nothing(table: Table) -> None:
    before = table.chat.branches.twigs()
    table.pick().close()
    assert table.chat.branches.twigs() == before
    assert table.chat.picking is None


def test_closing_the_app_keeps_what_was_picked(table: Table) -> None:
    picking = table.pick()
    table.take(picking, offered(picking))
    table.chat.close()
    node = table.chat.store.path(table.chat.branches.twigs()[-1].id)[-1]
    assert node.ids == table.whole[:1]


def test_a_step_that_fails_is_said_and_what_was_picked_stays(table: Table) -> None:
    picking = table.pick()
    table.take(picking, offered(picking))
    picking.chosen = picking.chosen.then(9_999, None, forced=True)
    picking.run(0.0)
    picking.ask(0.0)
    table.live.work()
    assert picking.failure is not None
    assert "9,999" in picking.failure.title
    picking.close()
    assert table.chat.nodes()[0].content == "hello"


def test_it_can_begin_after_part_of_another_reply(table: Table) -> None:
    first = table.pick()
    for _ in range(3):
        table.take(first, offered(first))
    given = first.chosen.until(2)
    first.close()
    picking = begin(table.chat, table.chat.nodes()[0], lambda: None, given)
    table.live.work()
    assert offered(picking) == table.whole[2]
    assert picking.chosen.odds[:2] == given.odds


def test_nothing_is_stored_when_it_cannot_be_planned(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = table.chat.branches.twigs()

    def refuse(*_: object) -> None:
        raise FaderError("Not now.")

    monkeypatch.setattr(table.chat.board, "plan", refuse)
    with pytest.raises(FaderError, match="Not now"):
        begin(table.chat, table.chat.nodes()[0], lambda: None)
    assert table.chat.branches.twigs() == before
    assert (table.chat.picking, NOTHING.ids) == (None, ())
