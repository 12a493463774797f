"""However turns, edits, branches, stops and evictions follow each other, each reply is that of a fresh engine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from fader import profiles
from fader.models import embedded
from fader.paths import Paths
from fader.profiles import ContextTable
from fader.switchboard import Switchboard
from fader_plugins.registry import Registry

from tests.engine.soak import Reference, Soak

TURNS = int(os.environ.get("FADER_SOAK_TURNS", "14"))
"""Turns on the real model; 200 take about ten minutes."""
SAMPLED = {"seed": 7, "temperature": 1.0, "top_p": 1.0, "min_p": 0.0}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_soak_on_echo(registry: Registry, board: Callable[..., Switchboard], seed: int) -> None:
    switches = board(
        load={"noise": 1.5}, max_tokens=20, plugins={"sampler": SAMPLED, "prefix_cache": {"min_tokens": 8}}
    )
    soak = Soak(registry, switches, seed)
    references = [Reference(registry, switches.profile, kv) for kv in (True, False)]
    kinds: Counter[str] = Counter()
    tiers: Counter[str] = Counter()
    for turn in soak.turns(200):
        want = references[turn.number % 2].ids(turn)
        assert want == turn.ids, f"turn {turn.number} ({turn.kind}), from {turn.restored.tier}"
        kinds[turn.kind if turn.reason != "cancelled" else "stopped"] += 1
        tiers[turn.restored.tier] += 1
    for reference in references:
        reference.engine.close()
    assert set(kinds) == {"new", "go on", "regenerate", "edit", "branch", "stopped"}
    assert set(tiers) >= {"session", "live", "memory", "disk"}, tiers


@pytest.mark.slow
def test_soak_on_the_real_model(registry: Registry, home: object) -> None:
    """In exact mode, id for id; a sample of the turns also against an engine that keeps nothing at all."""
    if embedded() is None:
        pytest.skip("the embedded model is not installed")
    shipped = profiles.load("exact", Paths.from_environment({"FADER_HOME": str(home)}))
    context: ContextTable = msgspec.structs.replace(shipped.context, length=1024)
    exact = msgspec.structs.replace(shipped, context=context, max_tokens=12)
    soak = Soak(registry, Switchboard(registry, exact), seed=5)
    kept, nothing = Reference(registry, exact, kv=True), Reference(registry, exact, kv=False)
    reused = 0
    for turn in soak.turns(TURNS):
        assert kept.ids(turn) == turn.ids, f"turn {turn.number} ({turn.kind}), from {turn.restored.tier}"
        reused += turn.restored.reused
        if turn.number % 7 == 0 and turn.restored.new + turn.restored.reused < 120:
            assert nothing.ids(turn) == turn.ids, f"turn {turn.number} ({turn.kind}), without KV cache"
    kept.engine.close()
    nothing.engine.close()
    assert reused > 0
