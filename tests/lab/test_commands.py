"""`fader bench` and `fader lab` as people type them, on echo in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from fader.cli import main
from fader.commands.recording import Progress, busy
from fader.lab import bundle, raw, report
from fader.lab.evidence import Hardware
from fader.lab.values import Report
from fader.paths import Paths

QUICK = str(Path(__file__).with_name("quick.toml"))
ROOT = Path(__file__).parents[2]
Fader = Callable[..., Result]


@pytest.fixture
def fader(home: Path, monkeypatch: pytest.MonkeyPatch) -> Fader:
    for name in ("FADER_PROFILE", "FADER_MODEL"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, arguments)

    return call


@pytest.mark.slow
def test_from_the_run_to_the_zip_and_back(fader: Fader, paths: Paths, tmp_path: Path) -> None:
    done = fader(
        "bench", QUICK, "-p", "echo", "--change", "prefix_cache=off", "--json", "--why", "to see", "--share", "all"
    )
    assert done.exit_code == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=Report)
    assert (found.what, found.why, found.reportable) == ("quick: prefix_cache on → off", "to see", True)
    (name,) = bundle.ids(paths.lab)
    manifest = bundle.load(paths.lab / name).manifest
    assert (manifest.share, manifest.state, manifest.acts) == ("all", "complete", "turn")
    assert manifest.hardware.cores
    assert manifest.versions["fader"]
    assert f"kept as {name}" in done.stderr
    assert "32 of 32 turns, 0:00 left" in done.stderr
    assert msgspec.json.decode(fader("lab", "show", "last", "--json").stdout, type=Report) == found
    path = tmp_path / "out.zip"
    assert fader("lab", "export", name, str(path)).exit_code == 0
    for one in (name, "last", str(path), str(paths.lab / name)):
        told = fader("lab", "verify", one)
        assert (told.exit_code, "hashes hold, and all" in told.stdout) == (0, True), told.stderr
    for ending, said in (("md", "# quick"), ("csv", "metric,unit"), ("html", "<!doctype html>"), ("json", "{")):
        file = tmp_path / f"out.{ending}"
        assert fader("lab", "export", str(path), str(file)).exit_code == 0
        assert file.read_text("utf-8").lower().startswith(said)
    for form in ("llama-bench", "hyperfine"):
        file = tmp_path / f"{form}.json"
        assert fader("lab", "export", name, str(file), "--as", form).exit_code == 0
        json.loads(file.read_text("utf-8").splitlines()[0] if form == "llama-bench" else file.read_text("utf-8"))
    listed = json.loads(fader("lab", "list", "--json").stdout)
    assert [(one["id"], one["state"], one["what"]) for one in listed] == [
        (name, "complete", "quick: prefix_cache on → off")
    ]
    (paths.lab / name / "events.jsonl.gz").write_bytes(b"other")
    told = fader("lab", "verify", name)
    assert (told.exit_code, "events.jsonl.gz is not what was measured" in told.stderr) == (1, True)
    assert fader("lab", "rm", name).stdout == f"removed {name}\n"
    assert bundle.ids(paths.lab) == []


@pytest.mark.slow
def test_a_limit_that_is_not_kept_is_named(fader: Fader) -> None:
    done = fader(
        "bench",
        QUICK,
        "-p",
        "echo",
        "--rounds",
        "1",
        "--limit",
        "tpot <= 0.0001 ms",
        "--limit",
        "failed <= 0",
        "--gate",
    )
    assert done.exit_code == 1
    assert "fader: gate failed: tpot <= 0.0001 ms: fails, " in done.stderr
    assert "failed <= 0" not in done.stderr
    assert "failed <= 0: holds" in done.stdout


@pytest.mark.slow
def test_the_engine_is_killed_and_the_next_turn_works(fader: Fader, paths: Paths) -> None:
    done = fader("bench", "faults", "-p", "echo", "--rounds", "1", "-o", "load.token_ms=1")
    assert done.exit_code == 0, done.stderr
    (name,) = bundle.ids(paths.lab)
    runs = [one.run for one in raw.read(paths.lab / name) if one.run.case == "engine-killed"]
    assert [(run.turn, run.state) for run in runs] == [(0, "failed"), (1, "ok")]
    assert runs[0].failure is not None
    assert runs[0].failure.kind == "EngineDied"
    assert "engine-killed, side a: 1 failed as provoked, 1 of 2 runs whole" in " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl+C is a signal there")
def test_ctrl_c_leaves_a_partial_bundle(home: Path, paths: Paths) -> None:
    source = os.pathsep.join(str(ROOT / name) for name in ("app", "backends", "plugins", "profiles"))
    process = subprocess.Popen(
        [sys.executable, "-m", "fader", "bench", QUICK, "-p", "echo", "-o", "load.step_ms=5", "--rounds", "50"],
        env={**os.environ, "FADER_HOME": str(home), "PYTHONPATH": source},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    assert any(" turns, " in line for line in process.stderr), "it runs"  # perhaps after a word on a busy machine
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "partial: it was interrupted; no claim may rest on it" in said
    (name,) = bundle.ids(paths.lab)
    opened = bundle.load(paths.lab / name)
    assert opened.manifest.state == "partial"
    assert len(raw.read(opened.folder)) > 10
    assert report.differences(opened) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bench",), "Name a workload"),
        (("bench", "chta"), "unknown workload 'chta'. Did you mean 'chat'"),
        (
            ("bench", "chat", "-p", "echo", "--change", "chunk=1", "--change", "prefix_cache=off"),
            "More than one setting differs",
        ),
        (("bench", "chat", "-p", "echo", "--change", "prefix_cache=on"), "comes to no difference"),
        (("bench", "chat", "-p", "echo", "--gate"), "--gate: there is no limit to keep"),
        (("bench", "chat", "-p", "echo", "--limit", "tpot <= much"), "gate 'tpot <= much'"),
        (("bench", "chat", "-p", "echo", "--json", "--csv"), "--json and --csv exclude each other"),
        (("bench", "chat", "-p", "echo", "--rounds", "0"), "--rounds"),
        (("bench", "chat", "--model", "nothing-of-that-name"), "There is no model 'nothing-of-that-name'"),
        (("bench", "chat", "-p", "echo", "--against", "nothing.json"), "nothing.json cannot be read"),
        (("lab", "show", "nope"), "unknown bundle 'nope'"),
        (("lab", "export", "nope", "x.pdf"), "unknown bundle 'nope'"),
    ],
)
def test_what_cannot_be_meant_is_refused(fader: Fader, paths: Paths, arguments: tuple[str, ...], said: str) -> None:
    done = fader(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not paths.lab.exists()


def test_the_workloads_are_listed(fader: Fader) -> None:
    lines = fader("bench", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]][:3] == ["chat", "copy", "faults"]


def test_no_bundles_yet(fader: Fader) -> None:
    assert fader("lab", "list").stdout == "No bundles yet: fader bench makes them, and /bundle in the chat.\n"


def test_a_bundle_that_cannot_be_read_is_listed_all_the_same(fader: Fader, paths: Paths) -> None:
    (paths.lab / "broken").mkdir(parents=True)
    (paths.lab / "broken" / "manifest.json").write_text("{", "utf-8")
    assert "broken  unreadable" in fader("lab", "list").stdout


def test_a_busy_machine_is_told_before_the_run() -> None:
    machine = Hardware(cores=2, load_average=1.8)
    assert busy(machine) == "this machine is busy (load 1.8 on 2 cores), and times will tell of that, too."
    for calm in (Hardware(), Hardware(cores=2), Hardware(cores=4, load_average=1.8)):
        assert busy(calm) == ""


class Terminal:
    def __init__(self, live: bool) -> None:
        self.live, self.said = live, ""

    def isatty(self) -> bool:
        return self.live

    def write(self, text: str) -> int:
        self.said += text
        return len(text)

    def flush(self) -> None:
        pass


def test_progress_is_a_bar_on_a_terminal_and_ten_lines_elsewhere() -> None:
    live, piped = Terminal(True), Terminal(False)
    for stream in (live, piped):
        bar = Progress(stream, "copy")  # type: ignore[arg-type]
        for done in range(1, 101):
            bar.show(done, 100, 65.0)
        bar.end()
    assert piped.said.splitlines()[0] == "fader: copy: 10 of 100 turns, 1:05 left"
    assert len(piped.said.splitlines()) == 10
    assert live.said.count("\r") == 101
    assert f"{'█' * 12}{'░' * 12} 50 of 100 turns, 1:05 left" in live.said
