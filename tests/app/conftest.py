from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fader.cli import main
from fader.paths import Paths
from fader.store import Store

from tests.app.ticking import ticking

Fader = Callable[..., Result]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Folders of a user who has nothing yet."""
    for name in ("FADER_PROFILE", "FADER_MODEL", "HF_HOME", "HF_HUB_CACHE", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "person"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "person" / "cache"))
    monkeypatch.setenv("FADER_HOME", str(tmp_path / "home"))
    return Paths.from_environment({"FADER_HOME": str(tmp_path / "home")})


@pytest.fixture
def fader(user: Paths) -> Fader:
    """Run the command line: `fader("run", "hello", input=b"...")`."""

    def call(*arguments: str, stdin: bytes | str | None = None) -> Result:
        return CliRunner().invoke(main, arguments, input=stdin)

    return call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "fader.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store.open(path, ticking())
    yield store
    store.close()
