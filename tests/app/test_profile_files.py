from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fader.paths import Paths
from fader.profile_files import save
from fader.profiles import ContextTable, Profile, load
from fader_backends.errors import StoreError
from fader_plugins.turn import PluginInfo, Settings


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths.from_environment({"FADER_HOME": str(tmp_path)})


def written(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def test_only_what_differs_is_written(paths: Paths) -> None:
    base = load("exact", paths)
    tables = {**base.plugins, "sampler": {**base.plugins["sampler"], "temperature": 0.2}}
    changed = msgspec.structs.replace(
        base, name="mine", summary="Mine", plugins=tables, context=msgspec.structs.replace(base.context, length=512)
    )
    path = paths.profiles / "mine.toml"
    save(changed, path)
    assert written(path) == {
        "extends": "exact",
        "summary": "Mine",
        "context": {"length": 512},
        "plugins": {"sampler": {"temperature": 0.2}},
    }
    again = load("mine", paths)
    assert msgspec.structs.replace(again, sources=()) == msgspec.structs.replace(changed, sources=())
    if os.name == "posix":
        assert stat.S_IMODE(paths.profiles.stat().st_mode) == 0o700


def test_saving_over_its_own_file_keeps_what_it_extends_and_the_old_file(paths: Paths) -> None:
    path = paths.profiles / "mine.toml"
    save(msgspec.structs.replace(load("plain", paths), name="mine", chunk=9), path)
    save(msgspec.structs.replace(load("mine", paths), chunk=10), path)
    assert written(path)["extends"] == "plain"
    assert written(path)["chunk"] == 10
    assert written(path.with_name("mine.toml.bak"))["chunk"] == 9
    assert sorted(file.name for file in paths.profiles.iterdir()) == ["mine.toml", "mine.toml.bak"]


def test_a_default_of_ones_own(paths: Paths) -> None:
    path = paths.profiles / "default.toml"
    for chunk in (5, 6):
        save(msgspec.structs.replace(load("default", paths), chunk=chunk), path)
        assert written(path)["extends"] == "default"
        assert load("default", paths).chunk == chunk
        assert len(load("default", paths).sources) == 2


def test_what_toml_cannot_take_back_is_written_out_whole(paths: Paths) -> None:
    first = paths.profiles / "short.toml"
    save(msgspec.structs.replace(load("default", paths), max_tokens=5), first)
    profile = msgspec.structs.replace(load("short", paths), name="long", max_tokens=None)
    save(profile, paths.profiles / "long.toml")
    assert "extends" not in written(paths.profiles / "long.toml")
    again = load("long", paths)
    assert again.max_tokens is None
    assert again.plugins == profile.plugins


class Fan(Settings, frozen=True, kw_only=True):
    speed: float = 1.0
    seed: int | None = None


def test_settings_at_their_defaults_are_left_out(paths: Paths) -> None:
    infos = {"fan": PluginInfo(name="fan", summary="", settings=Fan)}
    tables = {"fan": {"on": True, "speed": 1.0, "seed": None}}
    path = paths.profiles / "mine.toml"
    save(Profile(name="mine", plugins=tables, context=ContextTable(rows=2)), path, infos)
    assert written(path) == {"context": {"rows": 2}, "plugins": {"fan": {}}} or written(path) == {
        "context": {"rows": 2}
    }
    save(Profile(name="mine", plugins={"fan": {"on": False, "speed": 2.0, "seed": None}}), path, infos)
    assert written(path) == {"plugins": {"fan": {"on": False, "speed": 2.0}}}


def test_a_folder_that_cannot_be_written(paths: Paths) -> None:
    paths.config.parent.mkdir(exist_ok=True)
    paths.config.write_text("a file where the folder should be")
    with pytest.raises(StoreError, match=r"Cannot make the folder"):
        save(Profile(), paths.profiles / "x.toml")
