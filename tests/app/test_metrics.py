"""Every number of `Stats`, folded from events written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pytest
from fader.metrics import Stats, percentile, span
from fader_backends.base import ContextSpec, Memory, ModelFacts, ModelSpec, SamplerSettings, Scalar
from fader_backends.errors import Failure
from fader_plugins.turn import (
    AnyEvent,
    Difference,
    Failed,
    Finished,
    GenerationRequest,
    Loaded,
    Loading,
    Numbers,
    PluginFault,
    Prefilled,
    Rendered,
    Restored,
    RunRecord,
    Started,
    Token,
    Trimmed,
)

MS = 1_000_000
SUBMITTED = 1_000 * MS
REQUEST = GenerationRequest(
    id="r",
    submitted_ns=SUBMITTED,
    owner="me",
    messages=(),
    model=ModelSpec(backend="echo"),
    context=ContextSpec(),
    sampler=SamplerSettings(),
    keep_state=True,
    chunk=128,
    max_tokens=None,
    stop=(),
    ignore_end=False,
    now=datetime(2026, 1, 1),
    profile="test",
    plugins={},
)
FACTS = ModelFacts(backend="echo", model="echo")
CONTEXT = ContextSpec(length=2048)


def at(ms: float) -> int:
    return SUBMITTED + round(ms * MS)


def token(ms: float, index: int, step: int | None = None, text: str = "x", drafted: bool = False) -> Token:
    return Token(
        request_id="r",
        at_ns=at(ms),
        index=index,
        step=index if step is None else step,
        token=100 + index,
        text=text,
        logprob=-0.5,
        drafted=drafted,
    )


def finished(ms: float, text: str = "", reason: str = "end") -> Finished:
    return Finished(
        request_id="r",
        at_ns=at(ms),
        reason=reason,  # type: ignore[arg-type]
        text=text,
        ids=(100, 101),
        context_used=1303,
        memory=Memory(kv_bytes=4096),
        rss_peak_bytes=8192,
    )


def opening(load_ms: float = 0.0) -> list[AnyEvent]:
    """Queue 2 ms, load, encode 3 ms, restore 1 ms, prefill 80 ms in two chunks: 1,300 prompt tokens, 1,204 of them reused."""
    late = load_ms
    return [
        Started(request_id="r", at_ns=at(2)),
        Loading(request_id="r", at_ns=at(2 + late / 2), fraction=0.5),
        Loaded(request_id="r", at_ns=at(2 + late), facts=FACTS, context=CONTEXT, load_ms=load_ms),
        Rendered(request_id="r", at_ns=at(5 + late), prompt_tokens=1300),
        Restored(request_id="r", at_ns=at(6 + late), reused=1204, new=96, difference=Difference(1204, "a", "b")),
        Prefilled(request_id="r", at_ns=at(60 + late), done=64, total=96),
        Prefilled(request_id="r", at_ns=at(86 + late), done=96, total=96),
    ]


def folded(events: Sequence[AnyEvent]) -> Stats:
    stats = Stats(request=REQUEST)
    for event in events:
        assert stats.fold(event) is stats
    return stats


def test_every_number_of_a_turn() -> None:
    """All fields of `Numbers` for a whole turn whose events were written down by hand."""
    events = [*opening(700), *(token(790 + 10 * n, n, text="" if n == 0 else "ab") for n in range(5)), finished(840)]
    got = folded(events).numbers()
    parts = {"queue": 2.0, "encode": 3.0, "restore": 1.0, "prefill": 80.0, "first_sample": 4.0}
    want = Numbers(
        prompt_tokens=1300,
        reused_tokens=1204,
        processed_tokens=96,
        output_tokens=5,
        steps=5,
        ttft_ms=90.0,
        ttft_parts=parts,
        ttfv_ms=100.0,
        tpot_ms=10.0,
        itl_p50_ms=10.0,
        itl_p95_ms=10.0,
        itl_n=4,
        e2e_ms=830.0,
        prefill_tps=1200.0,
        decode_tps=100.0,
        drafted_tokens=0,
        load_ms=700.0,
        kv_bytes=4096,
        kv_token_bytes=2.0,
        rss_peak_bytes=8192,
        context_used=1303,
        context_length=2048,
        device="cpu",
        difference=Difference(1204, "a", "b"),
        finish_reason="end",
    )
    for name in Numbers.__struct_fields__:
        expected, found = getattr(want, name), getattr(got, name)
        assert expected == (pytest.approx(found) if isinstance(found, float | dict) else found), name


@pytest.mark.parametrize("load_ms", [0.0, 700.0])
def test_load_is_no_part_of_ttft(load_ms: float) -> None:
    """TTFT and its parts are the same with a load and without; the parts add up to it; E2E includes the load."""
    numbers = folded([*opening(load_ms), token(90 + load_ms, 0)]).numbers()
    assert numbers.ttft_ms == pytest.approx(90.0)
    assert sum(numbers.ttft_parts.values()) == pytest.approx(90.0)
    assert numbers.e2e_ms == pytest.approx(90.0 + load_ms)


def test_before_anything_happened() -> None:
    """A fresh fold knows nothing and says so."""
    numbers = Stats(request=REQUEST).numbers()
    assert Numbers(context_used=0) == numbers


def test_what_was_left_out() -> None:
    """Messages that did not fit are counted; without any the numbers say 0."""
    trimmed = Trimmed(request_id="r", at_ns=at(5), messages=4, tokens=900)
    numbers = folded([*opening()[:4], trimmed]).numbers()
    assert (numbers.dropped_messages, numbers.dropped_tokens) == (4, 900)
    assert folded(opening()).numbers().dropped_messages == 0


def test_kv_bytes_per_token() -> None:
    """Where each row has a buffer of its own, the bytes are those of all rows, and so is the room."""
    cases: list[tuple[dict[str, Scalar], float]] = [({}, 2.0), ({"unified": False}, 1.0)]
    for options, want in cases:
        stats = folded([*opening(), finished(100)])
        stats.context = ContextSpec(length=2048, rows=2, options=options)
        assert stats.numbers().kv_token_bytes == want


def test_numbers_grow_with_the_events() -> None:
    """In the middle of prefill its rate and progress are known, TTFT is not."""
    numbers = folded(opening()[:-1]).numbers()
    assert (numbers.processed_tokens, numbers.ttft_ms, numbers.finish_reason) == (64, None, None)
    assert numbers.prefill_tps == pytest.approx(64 / 0.054)


@pytest.mark.parametrize(("tokens", "tpot"), [(0, None), (1, None), (2, 10.0), (3, 10.0)])
def test_tpot_needs_two_tokens(tokens: int, tpot: float | None) -> None:
    """(last - first) / (n - 1); undefined below two tokens, and the decode rate with it."""
    numbers = folded([*opening(), *(token(90 + 10 * n, n) for n in range(tokens))]).numbers()
    assert numbers.tpot_ms == (pytest.approx(tpot) if tpot else None)
    assert numbers.decode_tps == (pytest.approx(1000 / tpot) if tpot else None)


def test_a_step_of_several_tokens_is_one_gap() -> None:
    """Three tokens of one step make one gap; TPOT counts all tokens; drafted ones are counted apart."""
    events = [
        *opening(),
        token(100, 0, 0),
        token(130, 1, 1, drafted=True),
        token(130, 2, 1, drafted=True),
        token(130, 3, 1),
        token(170, 4, 2),
    ]
    stats = folded(events)
    assert stats.gaps_ms == pytest.approx([30.0, 40.0])
    numbers = stats.numbers()
    assert (numbers.output_tokens, numbers.steps, numbers.itl_n, numbers.drafted_tokens) == (5, 3, 2, 2)
    assert numbers.tpot_ms == pytest.approx(70 / 4)


def test_a_first_step_of_several_tokens_has_no_gap() -> None:
    """Gaps begin with the second step, however many tokens the first one gave."""
    stats = folded([*opening(), token(100, 0, 0, drafted=True), token(100, 1, 0), token(110, 2, 1)])
    assert stats.gaps_ms == pytest.approx([10.0])


def test_ttfv_waits_for_text() -> None:
    """The first visible character may come with a later token, or only when the turn ends."""
    held = [*opening(), token(100, 0, text=""), token(110, 1, text="")]
    assert folded(held).numbers().ttfv_ms is None
    assert folded([*held, token(120, 2)]).numbers().ttfv_ms == pytest.approx(120.0)
    assert folded([*held, finished(125, "late")]).numbers().ttfv_ms == pytest.approx(125.0)
    assert folded([*held, finished(125)]).numbers().ttfv_ms is None


def test_the_record_holds_what_was_said() -> None:
    """Text is all pieces and what was held back; ids are those the engine says stay."""
    events = [*opening(), token(90, 0, text="he"), token(91, 1, text="ll"), token(92, 2, text=""), finished(93, "o")]
    record = folded(events).record()
    assert isinstance(record, RunRecord)
    assert (record.text, record.ids, record.facts, record.context) == ("hello", (100, 101), FACTS, CONTEXT)
    assert record.failure is None


def test_a_failed_turn() -> None:
    """A failure keeps the text so far, names itself, and is the finish reason."""
    failure = Failure("The engine stopped.", "", "", "EngineDied")
    failed = Failed(request_id="r", at_ns=at(95), failure=failure, text="!", ids=(100,))
    stats = folded([*opening(), token(90, 0), failed])
    assert (stats.text, stats.numbers().finish_reason) == ("x!", "failed")
    assert (stats.record().failure, stats.record().ids) == (failure, (100,))


def test_other_events_change_nothing() -> None:
    """A plugin's fault is no number."""
    fault = PluginFault(request_id="r", at_ns=at(3), plugin="p", hook="h", detail="d")
    assert folded(opening()).numbers() == folded([*opening(), fault]).numbers()


def test_two_folds_share_nothing() -> None:
    """Gaps, texts and ids of one turn do not leak into another."""
    folded([*opening(), token(90, 0), token(91, 1)])
    assert (Stats(request=REQUEST).gaps_ms, Stats(request=REQUEST).text) == ([], "")


@pytest.mark.parametrize("percent", [0, 50, 95, 99, 100])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 101])
def test_percentiles_are_numpys(n: int, percent: float) -> None:
    """Linear interpolation between closest ranks, on unsorted samples."""
    samples = np.random.default_rng(n).normal(10, 3, n).tolist()
    assert float(np.percentile(samples, percent)) == pytest.approx(percentile(samples, percent))


def test_a_percentile_of_nothing() -> None:
    """No samples have no percentile, and no span without both ends."""
    assert percentile([], 50) is None
    assert [span(None, 1), span(1, None), span(0, 5 * MS)] == [None, None, 5.0]
