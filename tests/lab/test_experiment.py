"""What may be compared: exactly one setting, named in the words people use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fader.lab import experiment, workload
from fader.lab.experiment import Experiment
from fader.paths import Paths
from fader.profiles import load
from fader.switchboard import Switchboard
from fader_backends.errors import BadValue, FaderError, UnknownName, UsageError

Build = Callable[..., Experiment]


@pytest.mark.parametrize(
    ("change", "key", "before", "after"),
    [
        ("prefix_cache=off", "prefix_cache", True, False),
        ("prefix_cache off", "prefix_cache", True, False),
        ("prefix_cache.min_tokens=8", "prefix_cache.min_tokens", 32, 8),
        ("context.threads=1", "context.threads", 0, 1),
        ("context.options.flash_attention=on", "context.options.flash_attention", None, "on"),
        ("load.step_ms=2.5", "load.step_ms", None, 2.5),
        ("chunk=8", "chunk", 256, 8),
        ("other", "chunk", 256, 7),
        ("profile=other", "chunk", 256, 7),
    ],
)
def test_one_change_is_one_variable(build: Build, change: str, key: str, before: Any, after: Any) -> None:
    wanted = build(change, keys={"plugins": {"prefix_cache": {"disk_mib": 0}}} if "other" not in change else {})
    found = [one for one in wanted.variables if one.key != "prefix_cache.disk_mib"]
    assert [(one.key, one.before, one.after) for one in found] == [(key, before, after)]


def test_two_changes_are_refused_and_listed(build: Build) -> None:
    with pytest.raises(
        UsageError, match=r"More than one setting differs: chunk 256 → 8, prefix_cache on → off\. .*allow-many"
    ):
        build("prefix_cache=off", "chunk=8")
    wanted = build("prefix_cache=off", "chunk=8", many=True)
    assert len(wanted.variables) == 2


def test_no_difference_is_refused(build: Build) -> None:
    with pytest.raises(UsageError, match="comes to no difference"):
        build("prefix_cache=on")


def test_settings_of_a_plugin_that_is_off_do_not_count(build: Build) -> None:
    with pytest.raises(UsageError, match="comes to no difference"):
        build("prompt_lookup.max_draft=3")
    assert [one.key for one in build("prompt_lookup=on").variables] == ["prompt_lookup"]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ("nope=1", UnknownName, "unknown"),
        ("context.nope=1", UnknownName, r"unknown key in \[context\] 'nope'"),
        ("context.threads=many", BadValue, "context.threads = 'many' cannot be used"),
        ("prefix_cache=maybe", BadValue, "a switch is on or off"),
    ],
)
def test_what_cannot_be_meant_is_named(build: Build, change: str, error: type[FaderError], said: str) -> None:
    with pytest.raises(error, match=said):
        build(change)


def test_what_both_sides_need_is_no_variable(build: Build) -> None:
    wanted = build("prefix_cache=off", both=["chunk=9", "sampler.temperature=0.5"])
    assert [one.key for one in wanted.variables] == ["prefix_cache"]
    assert {board.profile.chunk for board in wanted.boards.values()} == {9}


def test_what_the_disk_kept_is_left_out_unless_it_is_the_question(build: Build) -> None:
    wanted = build("prefix_cache=off")
    assert {board.states["prefix_cache"].settings["disk_mib"] for board in wanted.boards.values()} == {0}
    assert any("disk_mib is 0" in note for note in wanted.notes)
    wanted = build("prefix_cache.disk_mib=8")
    assert [(one.before, one.after) for one in wanted.variables] == [(1024, 8)]


def test_a_profile_is_written_whole_and_without_folders(
    build: Build, paths: Paths, board: Callable[..., Switchboard], tmp_path: Path
) -> None:
    """What is written loads again and comes to the same settings."""
    wanted = build("chunk=8", keys={"model": str(tmp_path / "secret" / "mine.gguf")})
    text = experiment.profile_text(wanted.boards["b"], "x")
    assert "secret" not in text
    (tmp_path / "b.toml").write_text(text, "utf-8")
    again = Switchboard(wanted.boards["b"].registry, load(str(tmp_path / "b.toml"), paths))
    same = experiment.settings(again)
    assert {**experiment.settings(wanted.boards["b"]), "model": ""} == {**same, "model": ""}


SHIPPED = ["chat", "copy", "faults", "long-prompt", "odd", "prose", "second-prompt", "shared-system"]


def test_the_shipped_workloads_are_sound(paths: Paths) -> None:
    assert workload.names(paths) == SHIPPED
    for name in SHIPPED:
        one = workload.load(name, paths)
        assert one.summary
        assert workload.ROUND in one.warm_up.system + one.warm_up.turns[0]
        assert workload.parse(__import__("tomllib").loads(workload.dump(one)), name, Path("x")) == one


def test_cold_and_warm_follow_from_the_order(paths: Paths) -> None:
    chat, shared, long = (workload.load(name, paths) for name in ("chat", "shared-system", "long-prompt"))
    assert [chat.condition(chat.case[0], turn) for turn in range(3)] == ["cold", "warm", "warm"]
    assert [shared.condition(case, 0) for case in shared.case] == ["cold", "warm", "warm", "warm"]
    assert [long.condition(long.case[0], turn) for turn in range(2)] == ["cold", "warm"]
    faults = workload.load("faults", paths)
    assert [faults.condition(case, 1) for case in faults.case] == ["warm", "cold", "cold"]


def test_a_cold_prompt_is_another_one_in_every_round(paths: Paths) -> None:
    """Whatever is cold and shared or repeated names its round, or a later round would find it evaluated."""
    for name in ("chat", "copy", "long-prompt", "prose", "second-prompt", "shared-system"):
        for case in workload.load(name, paths).case:
            text = case.system or case.turns[0]
            assert workload.ROUND in text[:20], (name, case.name)
            assert len(workload.filled(text, 0)) == len(workload.filled(text, 99))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("output = 0\n[warm_up]\nturns=['a']\n[[case]]\nname='a'\nturns=['a']", r"mine\.toml, line 1: output"),
        ("colour = 1\n[warm_up]\nturns=['a']\n[[case]]\nname='a'\nturns=['a']", "colour"),
        (
            "[warm_up]\nturns=['a']\n[[case]]\nname='a'\nturns=['a']\n[[case]]\nname='a'\nturns=['a']",
            "two cases are called 'a'",
        ),
        ("[warm_up]\nturns=['a']\n[[case]]\nname='a'\nturns=[]", "turns"),
        ("[[case]]\nname='a'\nturns=['a']", "warm_up"),
        ("x = [", r"line \d+: not valid TOML"),
    ],
)
def test_a_faulty_workload_is_refused_with_its_place(text: str, said: str, paths: Paths, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(BadValue, match=said):
        workload.load(str(path), paths)


def test_an_unknown_workload_is_named(paths: Paths) -> None:
    with pytest.raises(UnknownName, match=r"unknown workload 'chatt'\. Did you mean 'chat'"):
        workload.load("chatt", paths)


def test_a_workload_of_ones_own_wins(paths: Paths) -> None:
    paths.workloads.mkdir(parents=True)
    (paths.workloads / "chat.toml").write_text(
        "summary='mine'\n[warm_up]\nturns=['a']\n[[case]]\nname='a'\nturns=['a']", "utf-8"
    )
    assert workload.load("chat", paths).summary == "mine"
