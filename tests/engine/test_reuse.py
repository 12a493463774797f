"""What a plugin answers in the engine is checked: it can cost time, never make a reply wrong or reach another owner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fader.headless import Headless
from fader_plugins.registry import Registry, build
from fader_plugins.testing import reply
from fader_plugins.turn import GenerationRequest, PluginFault, Restored

Ask = Callable[..., GenerationRequest]
SAMPLED: dict[str, Any] = {
    "load": {"noise": 1.5},
    "max_tokens": 24,
    "change": {"ignore_end": True},
    "plugins": {"sampler": {"seed": 7, "temperature": 1.0, "top_p": 1.0, "min_p": 0.0}},
}
PLUGIN = """
from fader_plugins import PluginInfo, hookimpl
info = PluginInfo(name="stranger", summary="a test")
@hookimpl
def restore_prefix(request, session, prompt):
    {body}
"""


def test_another_owner_never_reuses(engine: Headless, ask: Ask) -> None:
    """Law 11: the same prompt of another conversation is evaluated from the start."""
    engine.run(ask("secret", owner="a"))
    for owner, want in (("b", 0), ("a", 8), ("b", 8)):
        (restored,) = [e for e in engine.run(ask("secret", owner=owner)) if isinstance(e, Restored)]
        assert want == restored.reused


@pytest.mark.parametrize(
    "body",
    [
        "return 10**9",
        "return -5",
        "session.extend([1, 2, 3], 0); return len(prompt)",
        "session.rewind(0); session.extend(prompt[:3][::-1], 0); return 3",
        "prompt[:] = [1, 2, 3]; return 2",
        "prompt.clear(); return None",
    ],
)
def test_false_claims_cannot_make_the_ids_wrong(tmp_path: Path, registry: Registry, ask: Ask, body: str) -> None:
    """A plugin that claims too much, fills the session with rubbish or changes the prompt it was shown loses only time."""
    with Headless(registry) as engine:
        want = reply(engine.run(ask("truth", **SAMPLED)))[1]
    (tmp_path / "stranger.py").write_text(PLUGIN.format(body=body))
    both = build(tmp_path)
    with Headless(both) as engine:
        for _ in range(2):
            events = engine.run(ask("truth", on=both, **SAMPLED))
            assert want == reply(events)[1]
            (restored,) = [event for event in events if isinstance(event, Restored)]
            assert 0 <= restored.reused < restored.reused + restored.new == len("truth") + 3


@pytest.mark.parametrize("body", ["raise ValueError('mine')", "raise SystemExit(3)", "return 'many'", "return 1/0"])
def test_a_plugin_fault_is_reported_once(tmp_path: Path, ask: Ask, body: str) -> None:
    """The turn goes on with the next answer, the fault names the plugin, and the plugin is not asked again."""
    (tmp_path / "stranger.py").write_text(PLUGIN.format(body=body))
    both = build(tmp_path)
    with Headless(both) as engine:
        faults = []
        for _ in range(3):
            events = engine.run(ask("same", on=both))
            assert reply(events)[0] == "same"
            faults += [(e.plugin, e.hook) for e in events if isinstance(e, PluginFault)]
        (restored,) = [event for event in events if isinstance(event, Restored)]
    assert faults == [("stranger", "restore_prefix")]
    assert (restored.by, restored.new) == ("prefix_cache", 1)
