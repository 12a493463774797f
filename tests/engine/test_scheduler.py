"""Which rows share a batch: those that decode first, prompts with what is left, never more than fits."""

from __future__ import annotations

from typing import NamedTuple, cast

from fader.engine.row import Row
from fader.engine.scheduler import choose
from hypothesis import given, settings
from hypothesis import strategies as st


class Asked(NamedTuple):
    chunk: int


class Need(NamedTuple):
    """What `choose` looks at of a row."""

    remaining: int
    prefilling: bool
    request: Asked


def need(remaining: int, prefilling: bool, chunk: int = 128) -> Need:
    return Need(remaining, prefilling, Asked(chunk))


def chosen(rows: list[Need], batch: int) -> list[tuple[Need, int]]:
    return cast("list[tuple[Need, int]]", choose(cast("list[Row]", rows), batch))


def test_decoding_goes_before_prefill() -> None:
    """A long prompt that came first does not push out the rows a person is reading."""
    prompt, reading, other = need(500, True), need(1, False), need(2, False)
    assert chosen([prompt, reading, other], 32) == [(reading, 1), (other, 2), (prompt, 29)]


def test_drafts_starve_nobody() -> None:
    """A row that checks a long draft comes after those that need one token, and leaves a quarter to prompts."""
    drafts, reading, prompt = need(32, False), need(1, False), need(500, True)
    assert chosen([drafts, reading], 32) == [(reading, 1), (drafts, 31)]
    assert chosen([drafts, reading, prompt], 32) == [(reading, 1), (drafts, 23), (prompt, 8)]
    assert chosen([drafts, reading, prompt], 1) == [(reading, 1)]


def test_a_prompt_takes_its_chunk_and_no_more() -> None:
    """Each prompt evaluates at most its chunk, so that a cancel waits for one chunk."""
    first, second = need(500, True, chunk=64), need(10, True, chunk=64)
    assert chosen([first, second], 512) == [(first, 64), (second, 10)]


def test_rows_without_room_wait() -> None:
    """A row that gets nothing is not in the batch at all; among equals the earlier one comes first."""
    first, second = need(40, True), need(1, True)
    assert chosen([first, second], 32) == [(first, 32)]


needs = st.builds(need, st.integers(1, 600), st.booleans(), st.integers(1, 200))


@settings(max_examples=100, deadline=None)
@given(st.lists(needs, min_size=1, max_size=6), st.integers(1, 512))
def test_batches_fit_and_go_on(rows: list[Need], batch: int) -> None:
    """Whatever the rows need: together within the batch, each within need and chunk, and at least one goes on."""
    plan = chosen(rows, batch)
    assert 0 < sum(count for _, count in plan) <= batch
    assert all(0 < count <= min(row.remaining, row.request.chunk) for row, count in plan)
