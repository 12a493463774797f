"""Graphs in whole turns on torch: they change no id, and where they would the turn goes on without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fader.headless import Headless
from fader.metrics import Stats
from fader.why import why
from fader_backends.base import Message
from fader_plugins.registry import Registry
from fader_plugins.testing import check_toggles, reply
from fader_plugins.turn import Loaded, Loading, PluginFault, RequestDraft

from tests.engine.test_laws import PROMPTS, SAMPLED, planner
from tests.engine.test_torch_laws import LOOKUP, again, engine, models, profile

__all__ = ["engine", "models"]
pytestmark = pytest.mark.slow
STATIC = {**LOOKUP, "graph": {"mode": "static"}}


@pytest.mark.parametrize("kind", ["llama", "gemma3_text"])
def test_graphs_change_no_id(kind: str, registry: Registry, models: Callable[[str], Path], engine: Headless) -> None:
    """Law 3: with KV, drafts and steps of fixed shape switched in all ways, a conversation has the same ids."""
    plan = planner(registry, profile(models(kind), plugins=STATIC), SAMPLED)
    check_toggles(again(engine), plan, ("graph", "kv_cache", "prompt_lookup"), PROMPTS[:2])


def turn(
    engine: Headless, plan: Callable[[Mapping[str, bool]], RequestDraft], name: str, **switches: bool
) -> list[Any]:
    draft = plan(switches)
    draft.messages = [Message("user", "hello there")]
    draft.owner = name
    return list(engine.run(draft.freeze(name, 0)))


def test_wrong_graphs_are_switched_off_and_said(
    registry: Registry, models: Callable[[str], Path], engine: Headless, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first turn names the plugin and the reason, and is right; the next ones are right and silent."""
    from fader_backends.torch_hf import attention

    plan = planner(registry, profile(models("llama"), plugins=STATIC), {"on": False})
    want = reply(turn(engine, plan, "without"))
    right = attention._over_whole
    monkeypatch.setattr(attention, "_over_whole", lambda *given: right(*given) * 1.2)
    events = turn(engine, plan, "first", graph=True)
    (fault,) = [event for event in events if isinstance(event, PluginFault)]
    assert (fault.plugin, fault.hook) == ("graph", "engine_ready")
    assert "A step of one token gives scores that differ" in fault.detail
    assert reply(events) == want
    events = turn(engine, plan, "second", graph=True)
    assert not [event for event in events if isinstance(event, PluginFault)]
    assert reply(events) == want
    assert events[-1].graph is not None
    assert not events[-1].graph.on
    monkeypatch.undo()
    plan = planner(
        registry, profile(models("llama"), plugins={**STATIC, "graph": {"mode": "static", "verify": 4}}), {"on": False}
    )
    events = turn(engine, plan, "third", graph=True)
    assert events[-1].graph.on, "with other settings it is tried again"
    assert reply(events) == want


def test_a_step_that_fails_in_a_turn_is_told(
    registry: Registry, models: Callable[[str], Path], engine: Headless, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is what it would have been, and after it the plugin and the reason are named, once."""
    from fader_backends.torch_hf import graph

    plan = planner(registry, profile(models("llama"), plugins=STATIC), {"on": False})
    want = reply(turn(engine, plan, "without"))
    assert not [event for event in turn(engine, plan, "whole", graph=True) if isinstance(event, PluginFault)]

    def broken(*_: Any) -> Any:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(graph.Graph, "_counted", broken)
    events = turn(engine, plan, "first", graph=True)
    (fault,) = [event for event in events if isinstance(event, PluginFault)]
    assert (fault.plugin, fault.hook) == ("graph", "evaluate")
    assert "from now on" in fault.detail
    assert "no kernel image is available" in fault.detail
    assert reply(events) == want
    events = turn(engine, plan, "second", graph=True)
    assert not [event for event in events if isinstance(event, PluginFault)]
    assert reply(events) == want


def test_what_a_turn_says_of_its_graphs(registry: Registry, models: Callable[[str], Path], engine: Headless) -> None:
    """Steps are counted, the check's times are the baseline of `/why`, and compiling is part of the load."""
    compiled = {**LOOKUP, "graph": {"compiler": "eager", "verify": 1}}
    plan = planner(registry, profile(models("llama"), plugins=compiled), {"on": False})
    draft = plan({"graph": True, "prompt_lookup": False})
    draft.messages = [Message("user", "hello there")]
    stats, compiling = Stats(request=draft.freeze("turn", 0)), False
    for event in engine.run(stats.request):
        stats.fold(event)
        if isinstance(event, Loading):
            assert not compiling, "it comes last"
            compiling = event.compiling
        if isinstance(event, Loaded):
            loaded = event
    assert compiling
    record = stats.record()
    state = record.numbers.graph
    assert state is not None
    assert (state.on, state.shapes, state.recompiles) == (True, 1, 0)
    assert 0 < state.compile_ms < loaded.load_ms
    assert state.steps >= record.numbers.output_tokens - 1
    (reason,) = [reason for reason in why(record) if reason.mechanism == "graph"]
    assert reason.estimate
    assert reason.cost_ms == state.compile_ms
