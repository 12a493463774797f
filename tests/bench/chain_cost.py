"""What the sampler chain costs by itself, per token, on a large vocabulary.

Knows no model: scores are drawn once and used in turn.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from fader.paths import Paths
from fader.profiles import load
from fader.switchboard import Switchboard
from fader_backends.base import SamplerSettings
from fader_backends.sampling import chain
from fader_plugins.registry import build

from tests.bench.harness import Options, Outcome, undisturbed
from tests.bench.sides import NOW

VOCABULARY = 150_000
SPREAD = 4.4
"""Standard deviation of the scores; SmolLM2's."""
SETS = 16
"""Different rows of scores, so that none stays in the fastest cache."""
HISTORY = 1000
GROUP = 320


def chain_cost(options: Options) -> Outcome:
    """Time `sample(scores, history)` alone, token by token."""
    count = options.pairs(8, 2)
    settings = default_settings()
    sample = chain(settings)
    numbers = np.random.default_rng(1)
    rows = numbers.normal(0.0, SPREAD, (SETS, VOCABULARY)).astype(np.float32)
    history = numbers.integers(0, VOCABULARY, HISTORY).tolist()

    def group() -> list[float]:
        took = []
        for number in range(GROUP):
            row = rows[number % SETS]
            begin = time.perf_counter_ns()
            pick = sample(row, history)
            took.append((time.perf_counter_ns() - begin) * 1e-6)
            history.append(pick.token)
        return took

    group()
    groups, watched = undisturbed(group, count)
    took = [one for each in groups for one in each]
    said = (
        f"perf_counter around sample(scores, history), groups of {GROUP} tokens after one for warming up, {watched}; "
        f"{SETS} rows of normal scores (std {SPREAD}) in turn, history from {HISTORY} tokens; default profile: "
        f"{_shown(settings)}. a is the median; the bound is on a, so b and ratio are null"
    )
    return Outcome(took, None, said, [f"95th percentile {np.percentile(took, 95):.3f} ms"])


def default_settings() -> SamplerSettings:
    """Return the sampler of the shipped default profile, with a fixed seed."""
    nowhere = Path(os.devnull) / "none"
    profile = load("default", Paths(config=nowhere, data=nowhere, state=nowhere, cache=nowhere))
    board = Switchboard(build(None), profile)
    board.set("sampler", "seed", 1)
    return board.plan("bench", (), NOW).sampler


def _shown(settings: SamplerSettings) -> str:
    off = SamplerSettings()
    names = (name for name in SamplerSettings.__struct_fields__ if name not in ("seed", "row"))
    return ", ".join(
        f"{name} {getattr(settings, name):g}" for name in names if getattr(settings, name) != getattr(off, name)
    )
