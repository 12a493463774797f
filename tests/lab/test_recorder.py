"""Runs into bundles: order, conditions, what is written, and what stays when it is cut short."""

from __future__ import annotations

import errno
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from fader.lab import bundle, raw, report, workload
from fader.lab.bundle import Bundle
from fader.lab.experiment import Experiment
from fader.lab.runner import SECOND, Runner, Unfit
from fader.metrics import Stats
from fader.paths import Paths
from fader_backends.errors import StoreError

Build = Callable[..., Experiment]
Record = Callable[..., Bundle]


def test_the_order_is_baseline_against_itself_then_abab(build: Build, record: Record) -> None:
    made = record(build("prefix_cache=off"))
    runs = [one.run for one in raw.read(made.folder)]
    counted = [(run.phase, run.round, run.case, run.side, run.turn) for run in runs if run.phase != "warm-up"]
    one_round = [(case, side, turn) for case in ("talk", "again") for side in ("a", "b") for turn in (0, 1)]
    assert counted == [(phase, number, *rest) for phase in ("aa", "ab") for number in range(2) for rest in one_round]
    warm = [(run.index, run.side) for run in runs if run.phase == "warm-up"]
    assert [side for _, side in warm] == ["a", "b"] * 4
    assert [index for index, _ in warm] == [0, 1, 10, 11, 20, 21, 30, 31]


def test_engines_are_fresh_in_every_round(build: Build, record: Record) -> None:
    """Each begins with a warm-up."""
    runs = list(raw.read(record(build("prefix_cache=off", rounds=3)).folder))
    warm = [one for one in runs if one.run.phase == "warm-up"]
    assert [one.run.side for one in warm] == ["a", "b"] * 6
    after = [runs[one.run.index + 1].run for one in warm if one.run.side == "b"]
    assert [(run.phase, run.round) for run in after] == [
        (phase, number) for phase in ("aa", "ab") for number in range(3)
    ]


def test_only_side_b_of_phase_ab_has_the_change(build: Build, record: Record) -> None:
    made = record(build("prefix_cache=off"))
    for one in raw.read(made.folder):
        expected = not (one.run.side == "b" and one.run.index >= 20)
        assert one.stats.request.plugins["prefix_cache"].on is expected, one.run


def test_replies_have_the_length_and_seed_asked_for(build: Build, record: Record) -> None:
    made = record(build("chunk=8", seed=40, both=["sampler=on", "sampler.temperature=1"]))
    for one in raw.read(made.folder):
        if one.run.phase != "warm-up":
            assert one.stats.output == 8
            assert one.stats.request.sampler.seed == 40 + one.run.round == one.run.seed


def test_cold_means_that_nothing_was_reused(build: Build, record: Record) -> None:
    made = record(build("chunk=8"))
    reused = {"cold": set[int](), "warm": set[int]()}
    for one in raw.read(made.folder):
        if one.run.phase != "warm-up":
            reused[one.run.condition].add(one.stats.reused or 0)
    assert reused["cold"] == {0}
    assert min(reused["warm"]) > 0


def test_both_sides_are_asked_the_same(build: Build, record: Record) -> None:
    made = record(build("prefix_cache=off"))
    asked: dict[tuple[object, ...], set[tuple[object, ...]]] = {}
    for one in raw.read(made.folder):
        run = one.run
        messages = tuple((message.role, message.content) for message in one.stats.request.messages)
        asked.setdefault((run.round, run.case, run.turn), set()).add(messages)
    assert {len(prompts) for key, prompts in asked.items()} == {1}


def test_the_raw_record_folds_to_what_was_measured(
    build: Build, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law: what is read back gives the very numbers of the events as they came."""
    live: dict[str, Stats] = {}
    begin, event = raw.Writer.begin, raw.Writer.event

    def spy_begin(self: raw.Writer, index: int, request: object) -> None:
        live[request.id] = Stats(request=request)  # type: ignore[attr-defined, arg-type]
        begin(self, index, request)  # type: ignore[arg-type]

    def spy_event(self: raw.Writer, one: object) -> None:
        live[one.request_id].fold(one)  # type: ignore[attr-defined, arg-type]
        event(self, one)  # type: ignore[arg-type]

    monkeypatch.setattr(raw.Writer, "begin", spy_begin)
    monkeypatch.setattr(raw.Writer, "event", spy_event)
    made = record(build("prefix_cache=off"))
    read = raw.read(made.folder)
    assert len(read) == len(live) == 40
    for one in read:
        assert one.stats.numbers() == live[one.run.request_id].numbers()
    outputs = raw.outputs(made.folder)
    assert all(outputs[one.run.index].text == one.stats.text for one in read)


def test_a_stop_keeps_what_was_measured_and_makes_it_partial(build: Build, record: Record) -> None:
    runners: list[Runner] = []
    shown: list[tuple[int, int, float]] = []

    def progress(done: int, total: int, left: float) -> None:
        shown.append((done, total, left))
        if len(shown) == 5:
            runners[0].stop()

    made = record(build("prefix_cache=off"), started=runners.append, progress=progress)
    assert (made.manifest.state, made.manifest.stopped) == ("partial", "it was interrupted")
    assert len(raw.read(made.folder)) == 2 * 2 + 5 * 2
    assert shown[-1][:2] == (10, 32)
    assert shown[-1][2] > 0
    found = report.build(bundle.load(made.folder))
    assert not found.reportable
    assert found.conclusion == "No conclusion: the run of quick is partial (it was interrupted)."
    assert any("Partial" in mark for mark in found.marks)
    assert found.findings == ()


class Small(io.FileIO):
    """A file on a disk that is full after so many bytes."""

    def __init__(self, path: Path, room: int) -> None:
        super().__init__(path, "wb")
        self.room = room

    def write(self, data: object) -> int:
        size = len(memoryview(data))  # type: ignore[arg-type]
        if size > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= size
        return super().write(data)  # type: ignore[arg-type]


def test_a_full_disk_keeps_what_was_measured(build: Build, record: Record) -> None:
    def opened(path: Path) -> IO[bytes]:
        return Small(path, 6000)

    made = record(build("prefix_cache=off"), opened=opened)
    assert made.manifest.state == "partial"
    assert made.manifest.stopped == "the disk is full; what was measured before is here"
    kept = raw.read(made.folder, whole=False)
    assert 2 < len(kept) < 40
    assert all(one.stats.output == 8 for one in kept if one.run.phase != "warm-up")
    assert not report.build(bundle.load(made.folder)).reportable


def test_damaged_events_name_their_file(build: Build, record: Record) -> None:
    made = record(build())
    path = made.folder / raw.EVENTS
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"events\.jsonl\.gz is not what was measured"):
        bundle.load(made.folder)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(StoreError, match=r"events\.jsonl\.gz"):
        raw.read(made.folder)
    path.write_bytes(gzip.compress(b'{"run":0,"event":{"type":"Nope"}}\n'))
    with pytest.raises(StoreError, match=r"events\.jsonl\.gz, line 1"):
        raw.read(made.folder)


def test_a_workload_that_does_not_fit_leaves_nothing_behind(build: Build, record: Record, paths: Paths) -> None:
    with pytest.raises(Unfit, match=r"quick does not fit the context: talk, turn 2\. .*Raise context\.length"):
        record(build("prefix_cache=off", both=["context.length=40"]))
    assert bundle.ids(paths.lab) == []


def test_a_second_prompt_comes_while_the_first_streams(build: Build, record: Record) -> None:
    made = record(build(name="second-prompt", rounds=1))
    first, second = (one for one in raw.read(made.folder) if one.run.phase != "warm-up")
    assert (first.run.case, second.run.case) == ("story", f"story{SECOND}")
    assert first.stats.first_ns is not None
    assert first.stats.last_ns is not None
    assert first.stats.first_ns < second.stats.request.submitted_ns < first.stats.last_ns
    assert second.stats.output == 64


def test_provoked_ends_are_no_failures(build: Build, record: Record, tmp_path: Path) -> None:
    text = (workload.shipped() / "faults.toml").read_text("utf-8")
    text = text.replace('fault = "kill"\nexpect = "failed"', "").replace('fault = "memory"\nexpect = "failed"', "")
    (tmp_path / "stops.toml").write_text(text, "utf-8")
    made = record(build(name=str(tmp_path / "stops.toml"), rounds=2))
    runs = [one.run for one in raw.read(made.folder) if one.run.case == "stop"]
    assert [(run.turn, run.state, run.expected) for run in runs] == [(0, "cancelled", "cancelled"), (1, "ok", "ok")] * 2
    found = report.build(made)
    assert [(one.ok, one.cancelled, one.unexpected) for one in found.trials if one.case == "stop"] == [(2, 2, 0)]
    assert all(one.a is None or one.a.n == 10 for one in found.figures if one.metric == "tpot_ms" and not one.case)


def test_folders_of_the_maker_are_not_in_a_bundle(build: Build, record: Record) -> None:
    """The model's folder is nobody's business."""
    made = record(build("chunk=8", keys={"model": "/home/somebody/models/mine.gguf"}))
    for path in made.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            text = gzip.decompress(data) if path.suffix == ".gz" else data
            assert b"somebody" not in text, path


def test_the_wall_clock_plays_no_part(build: Build, record: Record) -> None:
    """A clock that jumps back between runs changes no number and no order."""
    times = iter(range(10_000, 0, -7))
    made = record(build("prefix_cache=off"), wall=lambda: float(next(times)))
    found = report.build(made)
    runs = raw.read(made.folder)
    assert runs[0].run.wall_start > runs[-1].run.wall_start
    assert [one.run.index for one in runs] == list(range(40))
    assert all(one.a is None or one.a.low >= 0 for one in found.figures)
