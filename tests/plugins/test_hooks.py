"""Each hook has a built-in plugin that uses it, a documented signature, and a test here."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fader.headless import Headless
from fader.switchboard import Switchboard
from fader_backends.base import BackendInfo, Message
from fader_plugins import hookspecs
from fader_plugins.calls import Hooks
from fader_plugins.registry import Registry
from fader_plugins.testing import reply
from fader_plugins.turn import Drafted, Finished, Numbers, Restored, Token

README = (Path(__file__).parents[2] / "plugins" / "README.md").read_text(encoding="utf-8")
SPECS = {
    name: list(inspect.signature(function).parameters)
    for name, function in vars(hookspecs).items()
    if hasattr(function, "fader_spec")
}
NOW = datetime(2026, 1, 1)


def hooks(registry: Registry, *names: str) -> Hooks:
    return Hooks(registry, names, lambda *fault: pytest.fail(str(fault)))


def test_hook_backends(registry: Registry) -> None:
    """known_backends names what ships, and each loader can be found and called by that name."""
    found = hooks(registry, "known_backends").backends()
    assert {"llama.cpp", "echo"} <= {info.name for info in found}
    for info in found:
        assert isinstance(info, BackendInfo)
        module, _, function = info.loader.partition(":")
        assert callable(getattr(importlib.import_module(module), function)), info.loader


def test_hook_plan_request(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """sampler and kv_cache change the draft; with both off it is greedy and keeps nothing."""
    plain = board(plugins={"sampler": {"on": False}, "kv_cache": {"on": False}}).plan("me", [], NOW)
    planned = board(plugins={"sampler": {"temperature": 1.5}}).plan("me", [], NOW)
    assert (plain.sampler.temperature, plain.keep_state) == (0.0, False)
    assert (planned.sampler.temperature, planned.keep_state) == (1.5, True)


def test_hook_restore_prefix(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """prefix_cache answers in a turn, and only while it is on."""
    with Headless(registry) as engine:
        answers = []
        for number, on in enumerate((True, True, False)):
            draft = board(plugins={"prefix_cache": {"on": on}}).plan("me", [Message("user", "same")], NOW)
            events = engine.run(draft.freeze(f"turn {number}", 0))
            answers += [(event.by, event.reused) for event in events if isinstance(event, Restored)]
    assert answers == [("prefix_cache", 0), ("prefix_cache", 6), (None, 0)]


def test_hook_propose_tokens(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """prompt_lookup guesses in a turn, with a note, and only while it is on; the reply is the same."""
    told = []
    with Headless(registry) as engine:
        for on in (False, True):
            plugins = {"sampler": {"on": False}, "prompt_lookup": {"on": on, "adaptive": False}}
            draft = board(plugins=plugins).plan("me", [Message("user", "row your boat, " * 4)], NOW)
            events = engine.run(draft.freeze(f"turn {on}", 0))
            steps = [event for event in events if isinstance(event, Drafted)]
            told.append((reply(events), sum(event.proposed for event in steps) > 0, any(e.notes for e in steps)))
    assert told[0][0] == told[1][0]
    assert [one[1:] for one in told] == [(False, False), (True, True)]


def test_hook_observe(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """prompt_lookup is told of every step while it is on, and learns what steps cost."""
    lookup: Any = registry.implementation("prompt_lookup")
    plugins = {"prompt_lookup": {"on": True}}
    draft = board(plugins=plugins, load={"step_ms": 2.0}).plan("me", [Message("user", "hello")], NOW)
    with Headless(registry) as engine:
        events = engine.run(draft.freeze("turn", 0))
        assert 2.0 < lookup.pace.costs.ms(1) < 20.0
    steps = {event.step for event in events if isinstance(event, Token)}
    assert {event.step for event in events if isinstance(event, Drafted)} >= steps - {0}


def test_hook_look_ahead(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """typeahead offers the whole words that were typed, and nothing while it is off."""
    draft = board().plan("me", [Message("user", "one two thr")], NOW)
    assert hooks(registry, "typeahead").look_ahead(draft, "one two thr") == "one two"
    assert hooks(registry).look_ahead(draft, "one two thr") is None


def said(board: Switchboard, engine: Headless, text: str, owner: str = "me") -> Restored:
    events = engine.run(board.plan(owner, [Message("user", text)], NOW).freeze("turn", 0))
    (restored,) = [event for event in events if isinstance(event, Restored)]
    return restored


def test_hook_engine_ready(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """prefix_cache holds no row of a context that is gone, also when it was off while the context changed."""
    switches = board(plugins={"prefix_cache": {"min_tokens": 4, "memory_mib": 0, "disk_mib": 0}})
    with Headless(registry) as engine:
        said(switches, engine, "one way on")
        said(switches, engine, "another way on")
        switches.switch("prefix_cache", False)
        switches.set("kv_cache", "length", 512)
        said(switches, engine, "elsewhere")
        switches.switch("prefix_cache", True)
        assert said(switches, engine, "one way on").reused == 1


def test_hook_keep_prefix(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """prefix_cache finds after a detour what it kept of an earlier turn; with no budget there is nothing."""
    for budget, want in ((64, "memory"), (0, "session")):
        cache = {"min_tokens": 4, "live_rows": 0, "memory_mib": budget, "disk_mib": 0}
        switches = board(plugins={"prefix_cache": cache})
        with Headless(registry) as engine:
            said(switches, engine, "one way on" * 3)
            said(switches, engine, "another way on")
            assert said(switches, engine, "one way on" * 3).tier == want
        registry.manager.get_plugin("prefix_cache").memory.clear()  # type: ignore[union-attr]


def test_hook_make_room(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """Rows that prefix_cache holds go to conversations that need them, also while it is switched off."""
    switches = board(plugins={"prefix_cache": {"min_tokens": 4, "live_rows": 3, "disk_mib": 0}})
    with Headless(registry) as engine:
        for number in range(4):
            said(switches, engine, f"{number} ways on")
        switches.switch("prefix_cache", False)
        owners = [f"owner {number}" for number in range(4)]
        events = engine.run(
            *(switches.plan(owner, [Message("user", "all at once")], NOW).freeze(owner, 0) for owner in owners)
        )
    assert [event.reason for event in events if isinstance(event, Finished)] == ["end"] * 4


def test_hook_readings(registry: Registry) -> None:
    """timing returns rows with unique keys and a definition each; switched off there are none."""
    rows = hooks(registry, "timing").readings(Numbers(ttft_ms=12.5))
    assert len(rows) > 10
    assert len({row.key for row in rows}) == len(rows)
    assert all(row.help for row in rows)
    assert rows[0].value == 12.5
    assert hooks(registry).readings(Numbers()) == []


def test_no_hook_without_test_plugin_and_page(registry: Registry) -> None:
    """A hook lands together with a test here, a built-in that implements it, and its line in the guide."""
    assert SPECS
    for name in SPECS:
        assert f"test_hook_{name}" in globals(), f"no test of {name}"
        users = [plugin for plugin in registry.plugins.values() if name in plugin.hooks and plugin.origin == "built in"]
        assert users, f"no built-in plugin uses {name}"
    headings = {match[1]: match[2] for match in re.finditer(r"^## `(\w+)\((.*?)\)`$", README, re.MULTILINE)}
    assert {name: ", ".join(arguments) for name, arguments in SPECS.items()} == headings
    table = re.findall(r"^\| `(\w+)\((.*?)\)` \|", README, re.MULTILINE)
    assert dict(table) == headings


def test_docstring_names_each_hook_in_order() -> None:
    """The order of calls at the head of hookspecs.py lists every hook, in the order of the file."""
    block = (hookspecs.__doc__ or "").split("Order of calls:")[1].split("A plugin that")[0]
    assert list(SPECS) == [word for word in re.findall(r"[a-z_]+", block) if word in SPECS]


def test_built_ins_use_nothing_a_stranger_could_not() -> None:
    """Built-in plugins import only fader_backends, their own package and libraries; never pluggy, never the app."""
    package = Path(hookspecs.__file__).parent
    for path in package.glob("*.py"):
        source = path.read_text(encoding="utf-8")
        if re.search(r"^info = PluginInfo\(", source, re.MULTILINE):
            assert not re.search(r"^\s*(from|import) (fader\b|pluggy)", source, re.MULTILINE), path.name
            assert "._" not in source, f"{path.name} reaches into something private"
