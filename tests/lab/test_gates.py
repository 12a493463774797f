from __future__ import annotations

from collections.abc import Mapping

import pytest
from fader.lab.gates import FIGURES, SPREADS, Gate, judge, parse
from fader_backends.errors import BadValue, UnknownName, UsageError

ISSUE = ["ttft_p95 <= 300 ms", "tpot <= 1.02 x baseline", "kl <= 0.01", "rss_peak <= 2 GB"]


def test_limits_as_people_write_them() -> None:
    read = [(gate.figure, gate.sign, gate.limit, gate.of_baseline) for gate in map(parse, ISSUE)]
    assert read == [
        ("ttft_ms_p95", "<=", 300, False),
        ("tpot_ms_p50", "<=", 1.02, True),
        ("kl_mean", "<=", 0.01, False),
        ("rss_peak_bytes", "<=", 2e9, False),
    ]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("ttft<0.3s", 300),
        ("TTFT_P95 <= 300 MS", 300),
        ("rss_peak <= 1.5 GiB", 1.5 * 2**30),
        ("acceptance >= 60 %", 0.6),
        ("acceptance >= 0.6", 0.6),
        ("decode >= 25 tok/s", 25),
        ("kl <= 1e-3", 0.001),
        ("failed <= 0", 0),
    ],
)
def test_units_are_brought_to_one(text: str, limit: float) -> None:
    assert parse(text).limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("ttft_p955 <= 3 ms", UnknownName, "unknown figure in a gate 'ttft_p955'. Did you mean 'ttft_p95'?"),
        ("tpto <= 3 ms", UnknownName, "unknown figure in a gate 'tpto'. Did you mean 'tpot'?"),
        ("ttft", BadValue, "gate 'ttft' is not FIGURE <= LIMIT. Write for example 'ttft_p95 <= 300 ms'"),
        ("ttft <= fast", BadValue, "gate 'ttft <= fast' is not FIGURE <= LIMIT."),
        ("ttft = 3 ms", BadValue, "gate 'ttft = 3 ms' is not FIGURE <= LIMIT."),
        ("", BadValue, "gate '' is not FIGURE <= LIMIT."),
        ("ttft <= 300", BadValue, "gate 'ttft <= 300': ttft needs a unit. Its units: 'ms' or 's'"),
        ("ttft <= 3 GB", BadValue, "gate 'ttft <= 3 GB': the unit 'GB' does not fit ttft."),
        (
            "kl <= 3 ms",
            BadValue,
            "gate 'kl <= 3 ms': the unit 'ms' does not fit kl. Its units: 'nats'; or 'x baseline'.",
        ),
        ("rss_peak_p95 <= 3 GB", UnknownName, "unknown figure in a gate 'rss_peak_p95'. Did you mean"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, error: type[UsageError], said: str) -> None:
    with pytest.raises(error) as caught:
        parse(text)
    assert str(caught.value).startswith(said)


def test_a_place_in_a_file_is_named() -> None:
    with pytest.raises(BadValue, match=r"^mine\.toml, line 3: gate 'x' is not"):
        parse("x", "mine.toml, line 3")


def told(
    gates: list[Gate], after: Mapping[str, float | None], before: Mapping[str, float | None]
) -> list[tuple[bool | None, str]]:
    return [(one.holds, one.said) for one in judge(gates, after, before)]


def test_gates_are_judged_by_what_was_measured() -> None:
    after = {"ttft_ms_p95": 250.0, "tpot_ms_p50": 21.0, "kl_mean": 0.02, "rss_peak_bytes": 2e9}
    assert told([parse(text) for text in ISSUE], after, {"tpot_ms_p50": 20.0}) == [
        (True, "ttft_p95 <= 300 ms: holds, 250 ms against 300 ms"),
        (False, "tpot <= 1.02 x baseline: fails, 21 ms against 20.4 ms = 1.02 x 20 ms"),
        (False, "kl <= 0.01: fails, 0.02 nats against 0.01 nats"),
        (True, "rss_peak <= 2 GB: holds, 2.00 GB against 2.00 GB"),
    ]


def test_what_was_not_measured_holds_nothing() -> None:
    assert told([parse("kl <= 0.01")], {"kl_mean": None}, {}) == [(None, "kl <= 0.01: not measured")]
    assert told([parse("tpot <= 2 x baseline")], {"tpot_ms_p50": 1.0}, {}) == [
        (None, "tpot <= 2 x baseline: 1 ms, but there is no baseline")
    ]


def test_every_figure_can_be_named() -> None:
    for name, known in FIGURES.items():
        assert parse(f"{name} <= 1 x baseline").metric == known.metric
        for spread in SPREADS if known.spread else ():
            assert parse(f"{name}_{spread} <= 1 x baseline").statistic == spread
