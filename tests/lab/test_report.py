"""Law 12: a bundle alone gives every number of its report; and the sentences say no more than the figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from fader.lab import bundle, raw, report, table, words
from fader.lab.bundle import Bundle
from fader.lab.evidence import Manifest, Run
from fader.lab.experiment import Experiment
from fader.lab.figures import figures, find, statistic
from fader.lab.plot import Look
from fader.lab.raw import Measured
from fader.lab.values import Report
from fader.metrics import Stats, percentile
from fader_plugins.turn import GenerationRequest, Token

Build = Callable[..., Experiment]
Record = Callable[..., Bundle]


@pytest.fixture
def made(build: Build, record: Record) -> Bundle:
    return report.write(record(build("prefix_cache=off")))[0]


def test_law_12_a_deleted_report_is_made_again_equal(made: Bundle, tmp_path: Path) -> None:
    before = {name: (made.folder / name).read_bytes() for name in bundle.REPORTS}
    for name in bundle.REPORTS:
        (made.folder / name).unlink()
    moved = tmp_path / "elsewhere"
    made.folder.rename(moved)  # nothing but the folder's content may count
    again, _ = report.write(bundle.load(moved))
    assert {name: (moved / name).read_bytes() for name in bundle.REPORTS} == before
    assert again.manifest == made.manifest
    assert report.differences(again) == []


def test_a_changed_figure_is_found(made: Bundle) -> None:
    """A report that says other than its events is named, also when its hash was made to fit."""
    path = made.folder / "report.json"
    found = msgspec.json.decode(path.read_bytes(), type=Report)
    first, *rest = found.figures
    assert first.b is not None
    better = msgspec.structs.replace(first, b=msgspec.structs.replace(first.b, p50=first.b.p50 * 0.5))
    path.write_bytes(report.encode(msgspec.structs.replace(found, figures=(better, *rest))))
    forged = bundle.load(bundle.seal(made, made.manifest).folder)
    assert report.differences(forged) == ["figures", "figure ttft_ms cold"]


def test_figures_are_those_of_stats(made: Bundle) -> None:
    found = report.build(made)
    runs = [one for one in raw.read(made.folder) if one.run.phase == "ab" and one.run.side == "b"]
    tpot = find(found.figures, "tpot_ms")
    itl = find(found.figures, "itl_ms")
    assert tpot is not None
    assert tpot.b is not None
    assert itl is not None
    assert itl.b is not None
    assert tpot.b.p50 == percentile([one.stats.numbers().tpot_ms or 0 for one in runs], 50)
    assert tpot.b.n == len(runs) == 8
    assert itl.b.p95 == percentile([gap for one in runs for gap in one.stats.gaps_ms], 95)
    assert itl.b.n == sum(len(one.stats.gaps_ms) for one in runs) == 8 * 7


def test_a_text_holds_no_number_that_the_report_does_not(made: Bundle) -> None:
    """Ratios printed in the table are those of the figures."""
    found = report.build(made)
    shown = table.text(found, Look(unicode=True), 100)
    for figure in found.figures:
        compared = statistic(figure, "p50")
        if compared is not None:
            assert (
                f"× {words.ratio(compared.ratio)} ({words.ratio(compared.low)} to {words.ratio(compared.high)})"
                in shown
            )
    assert len(table.comma_separated(found).splitlines()) == 1 + 4 * len(found.figures)
    assert table.markdown(found).startswith("# quick: prefix_cache on → off\n")
    assert max(map(len, table.text(found, Look(), 100).splitlines())) < 160


MS = 1_000_000


def turn(
    index: int, phase: str, side: str, lap: int, gaps: Sequence[float], first_ms: float, request: GenerationRequest
) -> Measured:
    """A run made of stamps: the first token after `first_ms`, then gaps in milliseconds."""
    stats = Stats(request=msgspec.structs.replace(request, id=f"run-{index}", submitted_ns=0))
    at = round(first_ms * MS)
    for number, gap in enumerate([0.0, *gaps]):
        at += round(gap * MS)
        stats.fold(
            Token(request_id=f"run-{index}", at_ns=at, index=number, step=number, token=1, text="x", logprob=0.0)
        )
    run = Run(
        index=index, phase=phase, side=side, round=lap, case="one", turn=0, condition="cold", seed=1,  # type: ignore[arg-type]
        request_id=f"run-{index}", state="ok", wall_start=0.0,
    )  # fmt: skip
    return Measured(run, stats)


def planted(build: Build, change: Callable[[int], list[float]], count: int = 24) -> list[Measured]:
    """Rounds of runs whose side b has other gaps than 10 ms; all sides wobble by a few percent."""
    from fader.lab.experiment import CLOCK

    request = build("chunk=8").boards["a"].plan("x", (), CLOCK).freeze("x", 0)
    made = []
    for number in range(4 * count):
        phase, side = ("aa", "ab")[number // 2 % 2], "ab"[number % 2]
        wobble = 1 + (number * 7919 % 13 - 6) / 300
        gaps = change(number) if (phase, side) == ("ab", "b") else [10.0] * 16
        made.append(turn(number, phase, side, number // 4, [gap * wobble for gap in gaps], 50 * wobble, request))
    return made


ABOUT = {"model": "m", "hardware": "h", "versions": "v", "how": "w"}


def manifest(build: Build) -> Manifest:
    variables = build("chunk=8").variables
    return Manifest(id="x", created="", what="", workload="prose", variables=variables, profiles=("p",), aa_rounds=1)


def test_a_gain_in_the_middle_that_costs_the_tail_is_called_so(build: Build) -> None:
    """Every 16th gap is five times as long, the others are shorter by a fifth: the mean gains, p95 and p99 lose."""
    found = figures(planted(build, lambda number: [7.0] * 14 + [45.0, 7.0]))
    itl = find(found, "itl_ms")
    assert itl is not None
    assert {one.statistic: one.verdict for one in itl.compared}["p50"] == "better"
    assert {one.statistic: one.verdict for one in itl.compared}["p99"] == "worse"
    said = words.conclusion(manifest(build), found, ABOUT)
    assert "helps the middle and hurts the tail: it lowers TPOT p50 from 10.0 ms to 9.38 ms" in said
    assert ", but raises ITL p99 from 10" in said
    assert words.findings(found)[0].startswith("The median of TPOT gains and the p99 of ITL loses: ")


def test_the_same_on_both_sides_is_no_difference(build: Build) -> None:
    found = figures(planted(build, lambda number: [10.0] * 16))
    assert {one.verdict for figure in found for one in figure.compared} == {"~"}
    said = words.conclusion(manifest(build), found, ABOUT)
    assert "makes no difference to TTFT, TPOT, ITL or E2E that can be told from noise (TPOT × 1.0" in said
    assert words.findings(found) == []


def test_a_gain_is_told_with_its_numbers(build: Build) -> None:
    found = figures(planted(build, lambda number: [5.0] * 16))
    said = words.conclusion(manifest(build), found, ABOUT)
    assert re.search(
        r"lowers TPOT p50 from 10\.\d ms to [45]\.\d+ ms \(× 0\.\d+, 95 % interval 0\.\d+ to 0\.\d+, n = 24 and 24",
        said,
    )
    assert said.endswith("; measured with m, on h; v; w.")


def test_too_few_runs_carry_no_claim(build: Build) -> None:
    found = figures(planted(build, lambda number: [1.0] * 16, count=3))
    tpot = find(found, "tpot_ms")
    assert tpot is not None
    assert [one.verdict for one in tpot.compared] == ["~", "~"]
    said = words.conclusion(manifest(build), found, ABOUT)
    assert " was run too few times to tell what it does from noise (TPOT × 0.1" in said
    assert "; too few rounds to tell: 3); " in said


def test_more_than_one_variable_marks_the_report(build: Build, record: Record) -> None:
    made = record(build("prefix_cache=off", "chunk=8", many=True, aa_rounds=0))
    marks = report.build(made).marks
    assert marks[0] == "2 settings differ (chunk 256 → 8, prefix_cache on → off): which of them did it cannot be told."
    assert marks[1].startswith("The baseline was not run against itself")


def test_one_profile_alone_has_figures_and_no_ratios(build: Build, record: Record) -> None:
    found = report.build(record(build()))
    assert all(one.b is None and not one.compared for one in found.figures)
    assert found.conclusion.startswith("On quick, profile test has TTFT (cold) ")
    assert found.phase_answer == ()
    assert found.stop_answer == ()


def test_words_that_differ_are_counted_up_to_the_first(build: Build, record: Record) -> None:
    """With temperature the seeds agree on both sides; another temperature parts them."""
    hot = ["sampler=on", "sampler.temperature=2"]
    found = report.build(record(build("prefix_cache=off", both=hot)))
    assert found.same is not None
    assert (found.same.pairs, found.same.equal) == (8, 8)
    found = report.build(record(build("sampler.temperature=5", both=hot, keys={"load": {"noise": 3.0}})))
    assert found.same is not None
    assert found.same.equal < found.same.pairs <= 8
    assert found.same.aa_equal == found.same.aa_pairs
