"""What the sampler chain costs by itself, per token, on a large vocabulary.

Knows no model: scores are drawn once and used in turn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
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
EARLY = ("penalties", "dry", "temperature", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc")


FULL = SamplerSettings(
    logit_bias={7: -1.5, 11: 2.0}, repeat_penalty=1.1, frequency_penalty=0.1, presence_penalty=0.1, penalty_window=256,
    dry_multiplier=0.8, dry_window=1024, top_n_sigma=1.5, top_k=40, typical_p=0.95, top_p=0.95, min_p=0.05,
    xtc_probability=0.5, xtc_threshold=0.1, temperature=0.9, dynatemp_range=0.3, adaptive_target=0.3, min_keep=1, seed=1,
)  # fmt: skip
"""Everything that can act at once (mirostat takes the others' place), at values people use."""


def chain_cost(options: Options) -> Outcome:
    """Time `sample(scores, history)` alone, token by token, as the default profile has it."""
    return _timed(options, default_settings(), "default profile")


def full_chain_cost(options: Options) -> Outcome:
    """The same with every sampler on; the notes say what a chain costs in which nothing cuts early."""
    outcome = _timed(options, FULL, "every sampler on")
    late = msgspec.structs.replace(FULL, top_k=0)
    harder = {"without top-k": late, "without top-k, temperature first": msgspec.structs.replace(late, order=EARLY)}
    notes = [f"{name}: {_median(settings):.3f} ms" for name, settings in harder.items()]
    return outcome._replace(notes=[*outcome.notes, *notes])


def _timed(options: Options, settings: SamplerSettings, name: str) -> Outcome:
    count = options.pairs(8, 2)
    group = _grouped(settings)
    group()
    groups, watched = undisturbed(group, count)
    took = [one for each in groups for one in each]
    said = (
        f"perf_counter around sample(scores, history), groups of {GROUP} tokens after one for warming up, {watched}; "
        f"{SETS} rows of normal scores (std {SPREAD}) in turn, history from {HISTORY} tokens; {name}: "
        f"{_shown(settings)}. a is the median; the bound is on a, so b and ratio are null"
    )
    return Outcome(took, None, said, [f"95th percentile {np.percentile(took, 95):.3f} ms"])


def _grouped(settings: SamplerSettings) -> Callable[[], list[float]]:
    """Return a function that samples a group of tokens and returns their milliseconds."""
    sample = chain(settings, size=VOCABULARY)
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

    return group


def _median(settings: SamplerSettings) -> float:
    return float(np.median(_grouped(settings)()))


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
    changed = {name: getattr(settings, name) for name in names if getattr(settings, name) != getattr(off, name)}
    return ", ".join(
        f"{name} {len(value) if isinstance(value, dict) else f'{value:g}'}" for name, value in changed.items()
    )
