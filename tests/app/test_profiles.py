from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from fader.paths import Paths
from fader.profiles import ContextTable, Profile, check_plugins, load, names, path_of
from fader_backends.errors import FaderError, UnknownName
from fader_plugins.turn import Settings, setting


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.from_environment({"FADER_HOME": str(tmp_path)})


def write(paths: Paths, name: str, text: str) -> Path:
    paths.profiles.mkdir(parents=True, exist_ok=True)
    path = paths.profiles / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_ships(paths: Paths) -> None:
    assert names(paths) == ["default", "echo", "exact", "plain", "torch"]
    profiles = {name: load(name, paths) for name in names(paths)}
    assert all(profile.name == name and profile.summary for name, profile in profiles.items())
    assert not any(table["on"] for table in profiles["plain"].plugins.values())
    assert set(profiles["plain"].plugins) == set(profiles["default"].plugins)
    exact = profiles["exact"]
    assert (exact.chunk, exact.context.batch, exact.context.threads) == (32, 32, 1)
    assert exact.context.options == {"flash_attention": "on", "unified": False}
    assert exact.plugins["sampler"]["top_k"] == profiles["default"].plugins["sampler"]["top_k"]
    assert profiles["echo"].backend == "echo"
    assert load("", paths) == profiles["default"]
    assert not paths.profiles.exists(), "reading makes no folders"


def test_a_users_file_wins_and_may_extend_what_it_hides(paths: Paths) -> None:
    path = write(paths, "default", 'extends = "default"\nsystem = "Be brief."\n[plugins.sampler]\ntemperature = 0.1\n')
    profile = load("default", paths)
    assert profile.system == "Be brief."
    assert profile.plugins["sampler"] == {**profile.plugins["sampler"], "temperature": 0.1, "top_k": 40}
    assert profile.summary == "", "a summary is not inherited"
    assert path_of("default", paths) == path
    assert load("exact", paths).system == "Be brief.", "built-in profiles extend the user's default too"


def test_a_profile_by_path(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("chunk = 7\nstop = ['a', 'b']\n")
    mine = tmp_path / "mine.toml"
    mine.write_text("extends = 'base.toml'\nstop = ['c']\n", encoding="utf-8-sig")
    profile = load(str(mine), paths)
    assert (profile.name, profile.chunk, profile.stop) == ("mine", 7, ["c"])
    assert profile.sources == (str(tmp_path / "base.toml"), str(mine))


BAD = {
    "unknown key": ('model = ""\nsytem = "x"\n', "{file}, line 2: unknown key 'sytem'. Did you mean 'system'?"),
    "unknown table": ("[contxt]\nlength = 1\n", "{file}, line 1: unknown key 'contxt'. Did you mean 'context'?"),
    "misspelt extends": ('\nextend = "x"\n', "{file}, line 2: unknown key 'extend'. Did you mean 'extends'?"),
    "the name is the file's": (
        'name = "x"\n',
        "{file}, line 1: unknown key 'name'. Known: backend, chunk, context, extends, gates, load, max_tokens, model, plugins, "
        "record_mib, stop, summary, system, template, watch.",
    ),
    "key in a table": (
        "# c\n[context]\nlength = 5\n\nbatsh = 3\n",
        "{file}, line 5: unknown key in [context] 'batsh'. Did you mean 'batch'?",
    ),
    "dotted key": (
        "context.thread = 2\n",
        "{file}, line 1: unknown key in [context] 'thread'. Did you mean 'threads'?",
    ),
    "text for a number": (
        '[context]\nlength = "big"\n',
        "{file}, line 2: context.length = 'big': expected int, got str.",
    ),
    "number for text": ("model = 3\n", "{file}, line 1: model = 3: expected str, got int."),
    "out of range": ("\n\nchunk = 0\n", "{file}, line 3: chunk = 0: expected int >= 1."),
    "negative": ("[context]\nthreads = -1", "{file}, line 2: context.threads = -1: expected int >= 0."),
    "max_tokens": ("max_tokens = 0\n", "{file}, line 1: max_tokens = 0: expected int >= 1."),
    "list of numbers": ("stop = [\n  1,\n]\n", "{file}, line 1: stop = [1]: expected str, got int."),
    "value for a table": ("context = 5\n", "{file}, line 1: context = 5: expected object, got int."),
    "table as option": (
        "[load]\nn_gpu_layers = 3\n[load.deep]\nx = 1\n",
        "{file}, line 3: load.deep = {{'x': 1}}: expected bool | int | float | str | null, got object.",
    ),
    "no table for a plugin": (
        "[plugins]\nsampler = true\n",
        "{file}, line 2: plugins.sampler = True: expected object, got bool.",
    ),
    "broken TOML": (
        'model = ""\nsystem = "no end\nchunk = 3\n',
        "{file}, line 2: not valid TOML: Illegal character '\\n'. Mend that line.",
    ),
    "end in the middle": (
        "model = ''\nstop = [",
        "{file}, line 2: not valid TOML: Invalid value. Mend that line.",
    ),
    "key twice": (
        "chunk = 1\nchunk = 2\n",
        "{file}, line 2: not valid TOML: Cannot overwrite a value. Mend that line.",
    ),
    "extends a number": ("extends = 3\n", "{file}, line 1: extends must be the name of a profile, not 3."),
    "extends nothing known": (
        '\nextends = "exakt"\n',
        "{file}, line 2: unknown profile 'exakt'. Did you mean 'exact'?",
    ),
    "extends itself": (
        'extends = "bad"\n',
        "{file}, line 1: extends goes in a circle: bad → bad. Remove one extends.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_file_and_line(paths: Paths, case: str) -> None:
    text, message = BAD[case]
    path = write(paths, "bad", text)
    with pytest.raises(FaderError) as caught:
        load("bad", paths)
    assert str(caught.value) == message.format(file=path)
    assert caught.value.exit_code == 2


def test_a_circle_is_named_whole(paths: Paths) -> None:
    write(paths, "a", 'extends = "b"\n')
    write(paths, "b", '# comment\nextends = "c"\n')
    last = write(paths, "c", '\n\nextends = "a"\n')
    with pytest.raises(FaderError) as caught:
        load("a", paths)
    assert str(caught.value) == f"{last}, line 3: extends goes in a circle: a → b → c → a. Remove one extends."


def test_files_that_cannot_be_read(paths: Paths, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match=r"^unknown profile 'plian'. Did you mean 'plain'\?"):
        load("plian", paths)
    with pytest.raises(FaderError, match=r"nowhere\.toml: No such file or directory\. Name a TOML file"):
        load(str(tmp_path / "nowhere.toml"), paths)
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with pytest.raises(FaderError, match=r"folder\.toml: "):
        load(str(folder), paths)
    path = write(paths, "latin", "")
    path.write_bytes(b"model = ''\nsystem = '\xe4'\n")
    with pytest.raises(FaderError) as caught:
        load("latin", paths)
    assert str(caught.value) == f"{path}, line 2: not UTF-8 text. Save the file as UTF-8."


class Fan(Settings, frozen=True, kw_only=True):
    speed: Annotated[float, setting("how fast", ge=0, le=10)] = 1.0
    way: Annotated[Literal["left", "right"], setting("which way")] = "left"


PLUGIN_TABLES = {
    "known": ("[plugins.fan]\non = true\nspeed = 3\nway = 'right'\n", ""),
    "unknown plugin": ("\n[plugins.fam]\non = true\n", "{file}, line 2: unknown plugin 'fam'. Did you mean 'fan'?"),
    "unknown setting": (
        "[plugins.fan]\nsped = 1\n",
        "{file}, line 2: unknown setting of plugin 'fan' 'sped'. Did you mean 'speed'?",
    ),
    "switch that is none": (
        "[plugins]\nfan.on = 'yes'\n",
        "{file}, line 2: fan.on = 'yes': expected bool, got str.",
    ),
    "out of range": ("[plugins.fan]\nspeed = 11\n", "{file}, line 2: fan.speed = 11: expected float <= 10.0."),
    "wrong choice": ("[plugins.fan]\n\nway = 'up'\n", "{file}, line 3: fan.way = 'up': invalid enum value 'up'."),
}


@pytest.mark.parametrize("case", PLUGIN_TABLES)
def test_plugin_tables(paths: Paths, case: str) -> None:
    text, message = PLUGIN_TABLES[case]
    path = write(paths, "mine", text)
    write(paths, "child", 'extends = "mine"\n')
    for name in ("mine", "child"):
        profile = load(name, paths)
        if not message:
            check_plugins(profile, {"fan": Fan})
            continue
        with pytest.raises(FaderError) as caught:
            check_plugins(profile, {"fan": Fan})
        assert str(caught.value) == message.format(file=path)


def test_a_broken_plugin_does_not_stop_the_start(paths: Paths) -> None:
    write(paths, "mine", "[plugins.broken]\nanything = 1\n")
    check_plugins(load("mine", paths), {"fan": Fan}, broken={"broken"})


def test_a_profile_without_files_is_checked_too() -> None:
    profile = Profile(name="made up", plugins={"fam": {}})
    with pytest.raises(UnknownName, match="profile 'made up': unknown plugin 'fam'"):
        check_plugins(profile, {"fan": Fan})


def test_every_key_is_documented() -> None:
    text = (Path(__file__).parents[2] / "profiles" / "README.md").read_text(encoding="utf-8")
    keys = [
        "extends",
        *(field.name for field in msgspec.structs.fields(Profile) if field.name not in ("name", "sources")),
    ]
    keys += [f"context.{field.name}" for field in msgspec.structs.fields(ContextTable)]
    assert [key for key in keys if f"`{key}`" not in text] == []
