"""Columns of a comparison: each gives what it would give alone, they share one prompt, and one's trouble is its own."""

from __future__ import annotations

import pytest
from fader.compare.sides import ROUNDS
from fader.profiles import ContextTable
from fader_backends.errors import FaderError
from fader_plugins.turn import AnyEvent, Finished, Token

from tests.compare.conftest import MakeDesk

LONG = "a rather long prompt, of which there is enough to share " * 3


@pytest.mark.parametrize(
    "changes",
    [
        ("temperature=0.2", "temperature=0.8", "temperature=1.2", "temperature=1.6 min_p=0.1"),
        ("seed=1", "seed=2", "", "seed=1"),
        ("", "kv_cache=off", "prefix_cache=off", "prompt_lookup=on"),
        ("", "model=another", "temperature=0.5", "backend=echo max_tokens=9"),
    ],
    ids=["temperatures", "seeds", "switches", "places"],
)
def test_columns_are_what_each_is_alone(desk: MakeDesk, changes: tuple[str, ...]) -> None:
    """Law 3 for rows: a comparison's columns against solo runs with the same seeds on fresh engines."""
    together = [column.answer() for column in desk().run(*changes, prompt=LONG)]
    alone = [desk().run(one, prompt=LONG)[0].answer() for one in changes]
    for one, other in zip(together, alone, strict=True):
        assert one is not None
        assert other is not None
        assert (one.ids, one.pieces, one.logprobs) == (other.ids, other.pieces, other.logprobs)
        assert one.record.text == other.record.text


def test_one_prompt_is_read_for_all(desk: MakeDesk) -> None:
    """The first column reads the prompt, each other one only its last token; then they go on in one batch."""
    one = desk(context=ContextTable(rows=4))
    columns = one.run("seed=1", "seed=2", "seed=3", "seed=4", prompt=LONG)
    figures = [column.figures() for column in columns]
    total = figures[0].prompt_tokens
    assert total is not None
    assert [found.processed_tokens for found in figures] == [total, 1, 1, 1]
    assert one.most == 4
    assert len({column.text for column in columns}) == 4


def test_nothing_is_shared_across_owners(desk: MakeDesk) -> None:
    """Law 11: another conversation's comparison reads the same prompt itself."""
    one = desk()
    one.run("seed=1", "seed=2", prompt=LONG)
    columns = one.run("seed=1", "seed=2", prompt=LONG, owner="another")
    assert columns[0].figures().reused_tokens == 0


def test_a_switched_off_prefix_cache_reuses_nothing(desk: MakeDesk) -> None:
    columns = desk().run("seed=1", "prefix_cache=off", prompt=LONG)
    assert columns[1].figures().reused_tokens == 0


def test_columns_that_need_a_load_come_after_the_others(desk: MakeDesk) -> None:
    """Columns with equal model and context run together whatever their order, and the others say why they waited."""
    one = desk()
    order = []
    one.watch = lambda event: order.append(event.request_id) if isinstance(event, Finished) else None
    a, b, c = one.run("", "model=another", "temperature=0.3")
    assert [request.model.model for request in one.requests] == ["", "", "another"]
    assert (a.note, b.note, c.note) == ("", "runs after the others: it needs another model", "")
    assert [column.state for column in (a, b, c)] == ["done"] * 3


def test_stop_one_column(desk: MakeDesk) -> None:
    """The stopped column keeps its tokens up to then; the others come out as they would have."""
    want = desk().run("seed=1", "seed=2")
    one = desk()
    side = one.lay("seed=1", "seed=2")
    first, second = side.columns

    def watch(event: AnyEvent) -> None:
        if isinstance(event, Token) and event.request_id == one.requests[0].id and event.index == 4:
            side.stop(first)

    one.watch = watch
    side.start()
    one.work()
    assert (first.state, second.state) == ("stopped", "done")
    assert first.text
    assert want[0].text.startswith(first.text)
    assert second.text == want[1].text
    one.watch = lambda _: None
    side.restart(first)
    one.work()
    assert (first.state, first.text) == ("done", want[0].text)


def test_stop_a_column_that_waits(desk: MakeDesk) -> None:
    one = desk()
    side = one.lay("", "model=another")
    side.start()
    side.stop(side.columns[1])
    one.work()
    assert [column.state for column in side.columns] == ["done", "stopped"]


def test_a_column_whose_model_is_not_there(desk: MakeDesk) -> None:
    """It fails by itself, before and while running; the others go on."""
    a, b, c = desk().run("", "model=gone.gguf", "backend=llama.cpp model=/nowhere/x.gguf")
    assert (a.state, b.state, c.state) == ("done", "failed", "failed")
    assert b.failure is not None
    assert c.failure is not None
    assert "gone.gguf" in b.failure.title
    assert "/nowhere/x.gguf" in c.failure.title


def test_a_context_with_room_for_two(desk: MakeDesk) -> None:
    """More rows than fit wait, and say how many fit."""
    one = desk(context=ContextTable(length=100, rows=4))
    columns = one.run("seed=1", "seed=2", "seed=3", prompt="x" * 40)
    assert one.most == 2
    assert [column.state for column in columns] == ["done"] * 3
    assert columns[2].note == (
        "waited for a row: beside the prompt, the context of 100 tokens has room for 2 rows of 24"
    )


def test_more_columns_than_rows(desk: MakeDesk) -> None:
    one = desk(context=ContextTable(rows=2))
    columns = one.run(*(f"seed={n}" for n in range(8)))
    assert one.most == 2
    assert columns[7].note == "waited for a row: the context has 2 rows"
    assert columns[1].note == ""


def test_fair_timing_runs_one_at_a_time(desk: MakeDesk) -> None:
    """ABAB, nothing else running, the prompt read anew by each run; the words are those of a run together."""
    want = [column.text for column in desk().run("seed=1", "seed=2")]
    one = desk()
    columns = one.run("seed=1", "seed=2", fair=True)
    assert one.most == 1
    assert [request.sampler.seed for request in one.requests] == [1, 2] * ROUNDS
    assert [column.text for column in columns] == want
    assert [column.figures().reused_tokens for column in columns] == [0, 0]
    assert [column.figures().runs for column in columns] == [ROUNDS, ROUNDS]
    assert one.side is not None
    assert one.side.mode == "one at a time, ABAB, 2 runs each, prompt read anew each time"


def test_fair_timing_of_the_prefix_cache_itself(desk: MakeDesk) -> None:
    one = desk()
    a, b = one.run("prefix_cache=on", "prefix_cache=off", prompt=LONG, fair=True)
    assert a.rounds[0].reused_tokens
    assert b.rounds[0].reused_tokens == 0


def test_check_alone(desk: MakeDesk) -> None:
    """A column run once more by itself says that the same words came out; a running one cannot be checked."""
    one = desk()
    side = one.lay("seed=1", "seed=2")
    with pytest.raises(FaderError, match="no whole reply"):
        side.check_alone(side.columns[0])
    side.start()
    one.work()
    side.check_alone(side.columns[0])
    one.work()
    count = side.columns[0].figures().output_tokens
    assert side.columns[0].alone == f"alone: the same {count} tokens"


def test_columns_that_differ_in_nothing(desk: MakeDesk) -> None:
    side = desk().lay("temperature=0.5", "seed=7 temperature=0.5", "temperature=0.6")
    assert [(a.letter, b.letter) for a, b in side.same()] == [("A", "B")]


def test_a_seed_for_all_that_name_none(desk: MakeDesk) -> None:
    one = desk()
    one.run("", "temperature=0.4", "seed=9")
    assert [request.sampler.seed for request in one.requests] == [7, 7, 9]


def test_a_setting_that_does_nothing_on_a_backend(desk: MakeDesk) -> None:
    (column,) = desk().run("tensor_split=on")
    assert column.note.startswith("tensor_split does nothing here: ")
