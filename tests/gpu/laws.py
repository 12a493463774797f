"""Laws 2 to 5 on the device: reuse, switches, drafts and sampling, on tiny models in float32, with and without graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import msgspec
import numpy as np
from fader.headless import Headless
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends import torch_hf
from fader_backends.base import ContextSpec, ModelSpec, SamplerSettings, Scalar
from fader_backends.sampling import chain
from fader_plugins.contract import CHECKS, Subject
from fader_plugins.registry import build
from fader_plugins.testing import Turns, check_best, check_toggles
from fader_plugins.turn import RequestDraft

from tests.gpu.measure import ids_of

SESSIONS = ("state_equals_a_fresh_evaluation", "rows_of_one_call_do_not_meet", "forks_go_their_own_ways")
SWITCHES = ("graph", "kv_cache", "prefix_cache", "prompt_lookup")
PROMPTS = ("hello the hello the hello", "the hello in the hello")
TOLERANCE = 2e-3
"""Of a logit, in float32: devices add up in other orders for one token than for many."""
COMPILER = "aot_eager"
"""Compiles quickly; `measure` runs the real one. The switch that compiles comes first, so that it is thrown once."""


def sessions(folder: Path, options: Mapping[str, Scalar]) -> Callable[[], None]:
    """Law 2: what is restored, forked, moved or batched scores as a fresh evaluation."""

    def check() -> None:
        subject = Subject(
            torch_hf.load,
            ModelSpec(backend="torch", model=str(folder), options={"dtype": "float32"}),
            ContextSpec(length=512, rows=6, batch=64, options=dict(options)),
            TOLERANCE,
        )
        for name in SESSIONS:
            CHECKS[name](subject)

    return check


def toggles(folder: Path) -> None:
    """Laws 1, 3 and 4: any combination of KV, prefix cache, drafts and graphs gives the same ids over a conversation."""
    registry = build(None)
    profile = Profile(
        name="device",
        backend="torch",
        model=str(folder),
        load={"dtype": "float32"},
        max_tokens=12,
        chunk=32,
        context=ContextTable(length=512, rows=4, batch=128),
        plugins={
            "prompt_lookup": {"min_ngram": 1, "adaptive": False, "max_draft": 6},
            "prefix_cache": {"min_tokens": 8, "disk_mib": 0},
            "graph": {"compiler": COMPILER},
            "sampler": {"on": False},
        },
    )

    def plan(switches: Mapping[str, bool]) -> RequestDraft:
        board = Switchboard(registry, profile)
        for name, on in switches.items():
            board.switch(name, on)
        return board.plan("talk", [], datetime(2026, 1, 2))

    with Headless(registry) as engine:
        runs = 0

        def fresh() -> Turns:
            nonlocal runs
            runs += 1
            owner = f"talk {runs}"
            return lambda request: engine.run(msgspec.structs.replace(request, owner=owner))

        check_toggles(fresh, plan, SWITCHES, PROMPTS)


def sampling(folder: Path) -> None:
    """Law 5: over scores of the device a chain of off values is the model's own distribution, and greedy its best token.

    And the best scores, found on the device, are those of whole rows.
    """
    spec = ModelSpec(backend="torch", model=str(folder), options={"dtype": "float32"})
    context = ContextSpec(length=256, rows=8, batch=64, options={"best_on": "device"})
    backend = torch_hf.load(spec, context, lambda _: True)
    try:
        check_best(backend, ids_of(20), 1e-4)
        scores = backend.open().extend(ids_of(20), 20)
        greedy = chain(SamplerSettings(temperature=0.0), backend, scores.shape[1])
        neutral = chain(
            SamplerSettings(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, repeat_penalty=1.0),
            backend,
            scores.shape[1],
        )
        for row in scores:
            want = row - row.max() - np.log(np.exp(row - row.max()).sum())
            assert greedy(row, [5]).token == int(row.argmax())
            pick = neutral(row, [5])
            assert abs(pick.logprob - want[pick.token]) < 1e-4
    finally:
        backend.close()
