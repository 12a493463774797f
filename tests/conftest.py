"""Fixtures for every test: an own home folder, plugins, and switchboards on the echo backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fader.profiles import Profile
from fader.switchboard import Switchboard
from fader_plugins.registry import Registry, build


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the developer's own files out of every test."""
    folder = tmp_path / "home"
    monkeypatch.setenv("FADER_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def registry() -> Registry:
    """The built-in plugins."""
    return build(None)


@pytest.fixture
def board(registry: Registry) -> Callable[..., Switchboard]:
    """Make a switchboard on echo; keyword arguments are profile keys."""

    def make(**keys: Any) -> Switchboard:
        return Switchboard(registry, Profile(**{"name": "test", "backend": "echo", **keys}))

    return make
