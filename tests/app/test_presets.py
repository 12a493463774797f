"""Presets of other programs: what becomes of each format, what is said to be lost, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fader import presets, profiles
from fader.cli import main
from fader.paths import Paths
from fader_backends.base import ORDER
from fader_backends.errors import BadValue
from fader_backends.sampling import check
from fader_plugins.sampler import Sampler

LM_STUDIO = {
    "identifier": "@local:careful",
    "name": "Careful & short",
    "changed": True,
    "operation": {
        "fields": [
            {"key": "llm.prediction.systemPrompt", "value": "Be brief."},
            {"key": "llm.prediction.temperature", "value": 0.3},
            {"key": "llm.prediction.topKSampling", "value": 20},
            {"key": "llm.prediction.minPSampling", "value": {"checked": True, "value": 0.1}},
            {"key": "llm.prediction.topPSampling", "value": {"checked": False, "value": 0.95}},
            {"key": "llm.prediction.llama.presencePenalty", "value": {"checked": True, "value": 1.5}},
            {"key": "llm.prediction.maxPredictedTokens", "value": {"checked": True, "value": 512}},
            {"key": "llm.prediction.stopStrings", "value": ["##"]},
            {"key": "llm.prediction.llama.cpuThreads", "value": 4},
            {"key": "llm.prediction.structured", "value": {"type": "none"}},
            {"key": "llm.prediction.reasoning.parsing", "value": {"enabled": True}},
        ]
    },
    "load": {"fields": [{"key": "llm.load.contextLength", "value": 8192}, {"key": "llm.load.llama.mlock", "value": 1}]},
}

TEXTGEN = """\
temperature: 1.2
top_k: 50
repetition_penalty: 1.15
dry_multiplier: 0.8
tfs: 0.9
smoothing_curve: 2
dry_sequence_breakers: '"\\n", ":", "#"'
sampler_priority: |-
  dry
  temperature
  quadratic_sampling
  top_k
  repetition_penalty
"""

SILLYTAVERN = {
    "temp": 1.25,
    "temperature_last": True,
    "top_p": 1,
    "top_k": -1,
    "top_a": 0.2,
    "tfs": 1,
    "min_p": 0.05,
    "rep_pen": 1.1,
    "rep_pen_range": 0,
    "rep_pen_slope": 0.7,
    "smoothing_factor": 0,
    "smoothing_curve": 2,
    "guidance_scale": 1,
    "negative_prompt": "dull",
    "dry_multiplier": 0.8,
    "dry_penalty_last_n": 2048,
    "dry_sequence_breakers": '["\\n", ":", "\\"", "*"]',
    "dynatemp": True,
    "min_temp": 0.5,
    "max_temp": 1.5,
    "seed": -1,
    "streaming": True,
    "samplers": ["penalties", "top_k", "typ_p", "tfs_z", "typical_p", "min_p", "temperature"],
    "sampler_priority": ["temperature", "top_k"],
    "logit_bias": [{"text": "the", "value": -1}],
    "genamt": 300,
}


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setenv("FADER_HOME", str(tmp_path / "home"))
    return Paths.from_environment({"FADER_HOME": str(tmp_path / "home")})


def written(tmp_path: Path, data: Any, name: str = "preset.json") -> Path:
    path = tmp_path / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
    return path


def names(found: presets.Imported) -> list[str]:
    return [note.name for note in found.notes]


def test_lm_studio(tmp_path: Path) -> None:
    """Ticked boxes count, unticked ones are off; what is not the sampler's goes into the profile."""
    found = presets.read(written(tmp_path, LM_STUDIO))
    assert found.program == "LM Studio"
    assert found.sampler == {"temperature": 0.3, "top_k": 20, "min_p": 0.1, "presence_penalty": 1.5}
    context = {"length": 8192, "threads": 4}
    assert found.profile == {"system": "Be brief.", "max_tokens": 512, "stop": ["##"], "context": context}
    assert names(found) == ["llm.load.llama.mlock", "llm.prediction.reasoning.parsing"]


def test_text_generation_webui(tmp_path: Path) -> None:
    """The file holds differences from a neutral preset whose penalties look at 1,024 tokens."""
    found = presets.read(written(tmp_path, TEXTGEN, "mine.yaml"))
    assert found.program == "text-generation-webui"
    assert found.sampler == {
        "temperature": 1.2,
        "top_k": 50,
        "repeat_penalty": 1.15,
        "penalty_window": 1024,
        "dry_multiplier": 0.8,
        "dry_window": 1024,
        "dry_breakers": '["\\n", ":", "#"]',
        "order": "dry, temperature, top_k, penalties",
    }
    assert [str(note) for note in found.notes] == [
        "sampler_priority = 'quadratic_sampling': left out of the order: Fader has no such sampler",
        "tfs = 0.9: Fader has no such sampler",
    ]


@pytest.mark.parametrize(("last", "place"), [(False, 3), (True, 8)])
def test_text_generation_webui_has_an_order_of_its_own(tmp_path: Path, last: bool, place: int) -> None:
    """Without a word in the file the temperature comes early there; `temperature_last` moves it."""
    found = presets.read(written(tmp_path, f"min_p: 0.1\ntemperature_last: {str(last).lower()}\n", "mine.yaml"))
    assert found.sampler["order"].split(", ").index("temperature") == place
    assert not found.notes


def test_sillytavern(tmp_path: Path) -> None:
    """The order for llama.cpp is taken, 0 means all tokens, a moving temperature replaces the fixed one."""
    found = presets.read(written(tmp_path, SILLYTAVERN))
    assert found.program == "SillyTavern"
    assert found.sampler == {
        "dynatemp_range": 0.5,
        "min_p": 0.05,
        "repeat_penalty": 1.1,
        "penalty_window": -1,
        "dry_multiplier": 0.8,
        "dry_window": 2048,
        "order": "penalties, top_k, typical_p, min_p, temperature",
    }
    assert found.profile == {"max_tokens": 300}
    assert names(found) == ["samplers", "sampler_priority", "top_a", "rep_pen_slope", "logit_bias"]


def test_an_old_sillytavern_preset(tmp_path: Path) -> None:
    """KoboldAI's presets number the samplers."""
    old = {"temp": 0.7, "typical": 0.9, "rep_pen": 1.0, "sampler_order": [6, 0, 1, 3, 4, 2, 5], "rep_pen_slope": 0.7}
    found = presets.read(written(tmp_path, old))
    order = "dry, top_n_sigma, penalties, top_k, typical_p, top_p, min_p, temperature, xtc"
    assert found.sampler == {"temperature": 0.7, "typical_p": 0.9, "order": order}
    assert not found.notes


@pytest.mark.parametrize("program", ["sampler_priority", "samplers_priorities", "samplers"])
def test_an_order_that_is_none(tmp_path: Path, program: str) -> None:
    """Something else in the place of an order is named and left out."""
    found = presets.read(written(tmp_path, {"temp": 0.5, program: 7}))
    assert names(found) == [program]


def test_values_that_cannot_be(tmp_path: Path) -> None:
    """Out of range, not a number, not whole: each is named, the sampler stays off."""
    bad = {"temp": 9, "top_p": "high", "top_k": 2.5, "min_p": True, "mirostat_mode": 3, "rep_pen": "1.2"}
    found = presets.read(written(tmp_path, bad))
    assert found.sampler == {"repeat_penalty": 1.2, "penalty_window": -1}
    assert sorted(names(found)) == ["min_p", "mirostat_mode", "temp", "top_k", "top_p"]
    assert presets.read(written(tmp_path, "temperature: .nan\nmin_p: .inf\n", "x.yaml")).sampler.keys() == {"order"}


def test_greedy(tmp_path: Path) -> None:
    """`do_sample` off is a temperature of 0."""
    assert presets.read(written(tmp_path, "do_sample: false\n", "x.yaml")).sampler["temperature"] == 0.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"temp": 1,', "damaged"),
        ("a: [1,\n b: 2", "in line 2"),
        ("[" * 100_000, "damaged"),
        ("hello", "not a table"),
        ("", "not a table"),
        ("1: 2\n", "not a table"),
        ('{"a": 1}', "not a preset that Fader knows"),
        ('{"temperature": 1, "openai_model": "x", "prompts": [], "stream": true}', "not a preset that Fader knows"),
        ('{"name": "old", "inference_params": {"temp": 1}}', "LM Studio 0.2"),
        ("temperature: 2024-99-99\n", "damaged"),
        ("x" * 1_000_001, "more than"),
    ],
)
def test_what_is_no_preset_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(BadValue, match=said):
        presets.read(written(tmp_path, text, "some.yaml"))


def test_unreadable_files(tmp_path: Path) -> None:
    """A folder, a file that is not there, bytes that are no text, and a format that it is not."""
    (tmp_path / "bytes").write_bytes(b"temp: \xff")
    for path in (tmp_path, tmp_path / "none", tmp_path / "bytes"):
        with pytest.raises(BadValue, match=r"Cannot read|not UTF-8"):
            presets.read(path)
    with pytest.raises(BadValue, match="not a preset of lmstudio"):
        presets.read(written(tmp_path, SILLYTAVERN), "lmstudio")


@pytest.mark.parametrize(("data", "file"), [(LM_STUDIO, "a.json"), (TEXTGEN, "b.yaml"), (SILLYTAVERN, "c.json")])
def test_a_written_profile_is_valid(tmp_path: Path, paths: Paths, data: Any, file: str) -> None:
    """It loads, its settings pass both checks, and the chain takes them."""
    done = CliRunner().invoke(main, ["profiles", "import", str(written(tmp_path, data, file)), "--name", "mine"])
    assert (done.exit_code, done.stdout.strip()) == (0, str(paths.profiles / "mine.toml"))
    assert all(line.startswith("fader: not carried over: ") for line in done.stderr.splitlines())
    profile = profiles.load("mine", paths)
    profiles.check_plugins(profile, {"sampler": Sampler})
    table = {key: value for key, value in profile.plugins["sampler"].items() if key != "on"}
    chosen = Sampler(**table).chosen({})
    from fader_backends.base import SamplerSettings

    check(SamplerSettings(**{**chosen, "order": tuple(chosen.get("order", ORDER))}))


def test_nothing_is_overwritten(tmp_path: Path, paths: Paths) -> None:
    """Neither a profile of the user's nor one that ships, unless --force says so; then the old file is kept."""
    file = str(written(tmp_path, LM_STUDIO))
    run = CliRunner().invoke
    assert run(main, ["profiles", "import", file]).exit_code == 0
    path = paths.profiles / "Careful-short.toml"
    before = path.read_text("utf-8")
    for name in ("careful-SHORT", "default"):
        refused = run(main, ["profiles", "import", file, "--name", name])
        assert refused.exit_code == 1
        assert "already" in refused.stderr
    assert sorted(found.name for found in paths.profiles.iterdir()) == [path.name]
    assert run(main, ["profiles", "import", file, "--name", "Careful-short", "--force"]).exit_code == 0
    assert path.with_name(path.name + ".bak").read_text("utf-8") == before


@pytest.mark.parametrize("arguments", [["--name", "a/b"], ["--name", ""], ["--from", "ollama"]])
def test_bad_arguments(tmp_path: Path, paths: Paths, arguments: list[str]) -> None:
    """Names that cannot be, and formats nobody knows, end with exit code 2."""
    done = CliRunner().invoke(main, ["profiles", "import", str(written(tmp_path, LM_STUDIO)), *arguments])
    assert done.exit_code == 2
    assert not paths.profiles.exists() or not list(paths.profiles.iterdir())
