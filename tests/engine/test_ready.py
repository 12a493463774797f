"""What plugins prepare with a new model or context: part of the load, and done again when it was cut short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fader.engine.engine import Engine
from fader_backends.errors import Interrupted
from fader_plugins.registry import build
from fader_plugins.turn import AnyEvent, Finished, Loaded, PluginFault, Rendered

from tests.engine.conftest import Ask

PLUGIN = """
from fader_backends.errors import NotSupported
from fader_plugins import PluginInfo, hookimpl
info = PluginInfo(name="ready", summary="prepares")
calls = []
acts = []
@hookimpl
def engine_ready(request, backend):
    calls.append(request.id)
    if acts:
        acts.pop(0)()
@hookimpl
def keep_prefix(session):
    if acts:
        acts.pop(0)()
"""


class Made:
    """An engine with the plugin, on a clock that moves only when it is told to."""

    def __init__(self, folder: Path) -> None:
        (folder / "ready.py").write_text(PLUGIN)
        self.registry = build(folder)
        assert not self.registry.problems
        self.plugin: Any = self.registry.implementation("ready")
        self.events: list[AnyEvent] = []
        self.now = 0
        self.engine = Engine(self.registry, self.events.append, lambda: self.now)

    def run(self, request: Any) -> list[AnyEvent]:
        del self.events[:]
        self.engine.submit(request)
        self.engine.run_until_idle()
        return list(self.events)

    def wait(self) -> None:
        self.now += 5_000_000_000


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def interrupt() -> None:
    raise Interrupted


def test_it_is_part_of_the_load(made: Made, ask: Ask) -> None:
    """Five seconds of preparing are five seconds of loading, and none of TTFT."""
    made.plugin.acts.append(made.wait)
    events = made.run(ask(on=made.registry))
    (loaded,) = [event for event in events if isinstance(event, Loaded)]
    assert loaded.load_ms == 5000.0
    assert loaded.at_ns == next(event.at_ns for event in events if isinstance(event, Rendered))
    assert made.run(ask(on=made.registry))
    assert len(made.plugin.calls) == 1, "the second turn loads nothing"


def test_cut_short_it_is_done_again(made: Made, ask: Ask) -> None:
    """The turn ends as cancelled, nobody is blamed, and the next one prepares first."""
    made.plugin.acts.append(interrupt)
    events = made.run(ask(id="first", on=made.registry))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "cancelled"
    assert not [event for event in events if isinstance(event, PluginFault | Loaded)]
    events = made.run(ask(id="second", on=made.registry))
    assert made.plugin.calls == ["first", "second"]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason != "cancelled"


def test_elsewhere_an_interruption_is_no_fault(made: Made, ask: Ask) -> None:
    """A plugin that was evaluating when the turn was stopped stays in use."""
    made.plugin.acts += [lambda: None, interrupt]
    events = made.run(ask(on=made.registry))
    assert not made.plugin.acts
    assert not [event for event in events if isinstance(event, PluginFault)]
