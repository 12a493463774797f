"""A bundle run again: what held, what differs, what cannot be run here, and every difference of environment."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from fader import models
from fader.cli import main
from fader.commands.replay import summary
from fader.lab import bundle, raw, replay, restore
from fader.lab.bundle import Bundle
from fader.lab.evidence import Hardware, ModelNote, Output, Run
from fader.lab.experiment import CLOCK, Experiment
from fader.lab.raw import Line, Writer
from fader.lab.restore import SIDES
from fader.paths import Paths
from fader_backends.errors import BadValue, ModelMissing
from fader_plugins.registry import Registry
from fader_plugins.turn import Token

from tests.lab.made import manifest

Build = Callable[..., Experiment]
Record = Callable[..., Bundle]


def fader(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def wanted(build: Build) -> Experiment:
    return build("prompt_lookup=on", both=["load.step_ms=2", "sampler.temperature=0"], rounds=8, aa_rounds=4)


@pytest.fixture
def made(wanted: Experiment, record: Record) -> Bundle:
    return record(wanted)


@pytest.fixture
def small(build: Build, record: Record) -> Bundle:
    return record(build("prefix_cache=off", rounds=1))


def test_an_experiment_comes_out_of_its_bundle(build: Build, record: Record, registry: Registry) -> None:
    wanted = build("prefix_cache=off", both=["sampler.seed=5"], rounds=3)
    again = restore.experiment_of(record(wanted), registry, lambda profile: profile)
    assert (again.workload, again.variables, again.seeds) == (wanted.workload, wanted.variables, wanted.seeds)
    for side in SIDES:
        then, now = (one.boards[side].plan("x", (), CLOCK) for one in (wanted, again))
        then.profile = now.profile = ""
        assert now == then


def slowed(found: Bundle, folder: Path, factor: float, words: bool = False) -> Bundle:
    """A copy of a bundle in which side b takes longer from token to token, as another machine might have it."""
    shutil.copytree(found.folder, folder)
    runs = {one.index: one for one in raw.lines(found.folder / raw.RUNS, Run)}
    firsts: dict[int, int] = {}
    writer = Writer(folder)
    said = {one.index: one for one in raw.lines(found.folder / raw.OUTPUTS, Output)}
    by_run: dict[int, list[Line]] = {}
    for line in raw.lines(found.folder / raw.EVENTS, Line):
        by_run.setdefault(line.run, []).append(line)
    for index, lines in by_run.items():
        for line in lines:
            if line.request is not None:
                writer.begin(index, line.request)
            elif isinstance(line.event, Token) and runs[index].side == "b" and runs[index].phase == "ab":
                first = firsts.setdefault(index, line.event.at_ns)
                writer.event(
                    msgspec.structs.replace(line.event, at_ns=first + round((line.event.at_ns - first) * factor))
                )
            elif line.event is not None:
                writer.event(line.event)
        output = said[index]
        writer.end(runs[index], msgspec.structs.replace(output, ids=(*output.ids[:3], 7, 7)) if words else output)
    writer.close()
    return bundle.seal(Bundle(folder, found.manifest), found.manifest)


def outcomes(found: replay.Replay) -> Mapping[str, str]:
    return {row.name: row.outcome for row in found.rows}


def test_the_same_record_is_the_same(made: Bundle) -> None:
    found = replay.compare(made, made)
    assert set(outcomes(found).values()) == {"same"}
    assert (found.held, found.environment) == (True, ())
    assert any(row.kind == "effect" and row.name.startswith("what the change does to TPOT") for row in found.rows)


def test_an_effect_is_there_again(made: Bundle, wanted: Experiment, record: Record) -> None:
    found = replay.compare(made, record(wanted))
    row = next(row for row in found.rows if row.name == "what the change does to TPOT p50")
    assert (row.outcome, row.there) == ("same", True)
    assert found.held


def test_an_effect_that_is_not_there_again_is_said(made: Bundle, tmp_path: Path) -> None:
    found = replay.compare(made, slowed(made, tmp_path / "other", 6.0))
    assert not found.held
    said = outcomes(found)
    row = next(row for row in found.rows if row.name == "what the change does to TPOT p50")
    assert (row.outcome, row.there) == ("differs", False)
    assert said["TPOT, side b"] == "differs"
    assert said["TPOT, side a"] == "same"
    assert said["replies of talk, side b"] == "same"


def test_other_words_are_said_to_part(made: Bundle, tmp_path: Path) -> None:
    found = replay.compare(made, slowed(made, tmp_path / "other", 1.0, words=True))
    row = next(row for row in found.rows if row.name == "replies of talk, side a")
    assert (row.now, row.outcome, row.why) == (
        "0 of 16 the same",
        "differs",
        "they part after 3 tokens at the earliest",
    )


def test_what_is_not_there_cannot_be_run_here(made: Bundle, tmp_path: Path) -> None:
    other = slowed(made, tmp_path / "other", 1.0)
    (other.folder / raw.RUNS).write_bytes((made.folder / raw.RUNS).read_bytes()[:0])
    empty = Bundle(other.folder, msgspec.structs.replace(other.manifest, state="partial"))
    found = replay.compare(made, empty)
    assert {row.outcome for row in found.rows} == {"cannot be run here"}
    assert all(row.why for row in found.rows)


def test_every_difference_of_environment_is_named() -> None:
    note = ModelNote(name="smol", sha256="a" * 64, backend="llama.cpp")
    then = manifest(
        hardware=Hardware(cpu="Old", memory_bytes=8 * 2**30, copy_gbps=9.6), versions={"x": "1", "y": "2"}, model=note
    )
    now = manifest(
        hardware=Hardware(cpu="New", memory_bytes=16 * 2**30, copy_gbps=10.4, gpus=("Card, 8 GiB",)),
        versions={"x": "1", "z": "3"},
        model=msgspec.structs.replace(note, sha256="b" * 64),
    )
    assert restore.environment(then, now) == [
        "model: smol sha256 aaaaaaaaaaaa… on llama.cpp → smol sha256 bbbbbbbbbbbb… on llama.cpp",
        "processor: Old → New",
        "memory: 8 GiB → 16 GiB",
        "GPUs: unknown → Card, 8 GiB",
        "y: 2 → not there",
        "z: not there → 3",
    ]
    assert restore.environment(then, then) == []


def test_a_model_is_found_by_its_hash(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "embedded", lambda: None)
    paths.models.mkdir(parents=True)
    file = paths.models / "mine.gguf"
    file.write_bytes(b"other weights")
    wanted = models.sha256(file, paths.hashes)
    note = ModelNote(name="Mine", file="mine.gguf", sha256=wanted, backend="llama.cpp")
    environ: dict[str, str] = {}
    assert restore.find(note, None, "mine", paths, environ, tmp_path) == restore.Found(file, wanted)
    missing = msgspec.structs.replace(note, sha256="f" * 64)
    with pytest.raises(ModelMissing) as caught:
        restore.find(missing, None, "mine", paths, environ, tmp_path)
    said = str(caught.value)
    assert said.startswith(f"The model of this bundle is not here: mine.gguf, sha256 {'f' * 64}.")
    assert f"{file} has its name but is another file" in said
    assert "look for mine.gguf on huggingface.co" in said
    assert restore.find(missing, str(file), "mine", paths, environ, tmp_path).path == file


def test_a_plugin_that_is_not_here_is_named(small: Bundle, registry: Registry) -> None:
    path = small.folder / "profiles" / "b.toml"
    path.write_text(path.read_text() + "\n[plugins.rare]\non = true\n")
    with pytest.raises(BadValue, match="The bundle uses the plugin 'rare', which is not here"):
        restore.experiment_of(small, registry, lambda profile: profile)


@pytest.mark.slow
def test_replay_from_the_command_line(made: Bundle) -> None:
    """Whatever this machine's time is: everything is compared, and the exit code says whether the effects are there."""
    done = fader("replay", "last", "--rounds", "2", "--json")
    found = msgspec.json.decode(done.stdout, type=replay.Replay)
    here = replay.compare(made, made)
    assert {row.name for row in here.rows} <= {row.name for row in found.rows}
    assert found.held == all(row.there for row in found.rows)
    assert done.exit_code == (0 if found.held else 1)
    assert found.again in done.stderr
    shown = fader("replay", found.again, "--verify")
    assert (shown.exit_code, shown.stdout.count("\n")) == (0, 1), shown.output


def change_a_byte(folder: Path) -> None:
    data = bytearray((folder / raw.EVENTS).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / raw.EVENTS).write_bytes(data)


BROKEN: list[tuple[str, Callable[[Path], object], str]] = [
    ("byte", change_a_byte, "events.jsonl.gz is not what was measured"),
    ("missing", lambda folder: (folder / raw.RUNS).unlink(), "runs.jsonl.gz is missing from the bundle"),
    ("schema", lambda folder: (folder / "manifest.json").write_text('{"schema": 99}'), "by a newer Fader (schema 99;"),
]


@pytest.mark.parametrize("command", ["replay", "challenge", "review", "adopt"])
@pytest.mark.parametrize(("harm", "said"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_damaged_bundle_is_refused_by_every_command(
    small: Bundle, command: str, harm: Callable[[Path], object], said: str
) -> None:
    harm(small.folder)
    done = fader(command, "last")
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_model_that_is_not_here_is_one_line(small: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(models, "embedded", lambda: None)
    for name in ("HF_HUB_CACHE", "LLAMA_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    path = small.folder / "profiles" / "a.toml"
    path.write_text(path.read_text().replace('backend = "echo"', 'backend = "llama.cpp"'))
    note = ModelNote(name="Mine", file="mine.gguf", sha256="e" * 64, backend="llama.cpp")
    bundle.seal(small, msgspec.structs.replace(small.manifest, model=note))
    done = fader("replay", "last")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fader: The model of this bundle is not here: mine.gguf, sha256 {'e' * 64}.")
    assert done.stderr.count("\n") == 1


def test_the_last_line_keeps_claims_apart_from_what_noise_hid() -> None:
    def row(kind: str, then: str, outcome: str, there: bool = True) -> replay.Row:
        return replay.Row(name="x", kind=kind, then=then, now="", outcome=outcome, there=there)  # type: ignore[arg-type]

    rows = (
        row("effect", "× 0.15 (0.14 to 0.16) better", "same"),
        row("effect", "× 0.50 (0.40 to 0.60) better", "differs", there=False),
        row("effect", "× 1.02 (0.99 to 1.07) ~", "same"),
        row("value", "17 ms", "differs"),
        row("value", "17 ms", "same"),
    )
    assert summary(replay.Replay(bundle="a", again="b", environment=(), rows=rows)) == (
        "1 of 2 effects of the change are there again. 1 of 1 that could not be told from noise still cannot. "
        "1 value differs taken alone; what is claimed is the change's effect."
    )
