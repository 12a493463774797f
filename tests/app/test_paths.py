from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from fader.paths import Paths, make_folder
from fader_backends.errors import StoreError


def test_one_variable_moves_everything(tmp_path: Path) -> None:
    paths = Paths.from_environment({"FADER_HOME": str(tmp_path / "home")})
    assert all(place.is_relative_to(tmp_path / "home") for place in paths.named().values())
    assert len(set(paths.named().values())) == len(paths.named())
    assert not (tmp_path / "home").exists(), "asking makes nothing"


def test_the_platforms_own_places() -> None:
    paths = Paths.from_environment({})
    assert all(place.is_absolute() and "fader" in place.parts for place in paths.named().values())


def test_a_relative_home_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Paths.from_environment({"FADER_HOME": "here"}).config == tmp_path / "here" / "config"


def test_folders_are_private(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "a" / "b")
    assert make_folder(folder) == folder
    if os.name == "posix":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match=r"Cannot make the folder .*file.*Make it writable, or set FADER_HOME"):
            make_folder(folder)
