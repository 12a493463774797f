"""The best scores instead of all of them: the chain chooses the same, wherever they were found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fader.headless import Headless
from fader.profiles import ContextTable, Profile
from fader_backends.base import Best, Message, SamplerSettings
from fader_backends.errors import BadScores
from fader_backends.sampling import Chain, chain
from fader_plugins.registry import Registry
from fader_plugins.testing import reply
from fader_plugins.turn import RequestDraft, Token
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_laws import PROMPTS, planner

FEW = settings(max_examples=100, deadline=None)
rows = st.lists(st.integers(-6, 6).map(lambda n: n / 2), min_size=45, max_size=300)
"""On a grid, so that there are ties at every border."""
chains = st.builds(
    SamplerSettings,
    temperature=st.sampled_from([0.0, 0.3, 1.0]),
    top_k=st.sampled_from([1, 3, 40]),
    top_p=st.sampled_from([0.5, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05]),
    typical_p=st.sampled_from([0.6, 1.0]),
    xtc_probability=st.sampled_from([0.0, 1.0]),
    adaptive_target=st.sampled_from([-1.0, 0.4]),
    seed=st.integers(0, 9),
)


def by_numpy(row: Any, count: int) -> Best:
    order = np.argsort(-row, kind="stable")[:count]
    return Best(order.tolist(), row[order].tolist())


@FEW
@given(rows, chains)
def test_enough_is_enough(scores: list[float], s: SamplerSettings) -> None:
    """Token and probability are those that all scores give, over a whole reply of steering samplers, too."""
    row = np.array(scores, dtype=np.float32)
    one, other = chain(s), chain(s)
    assert 1 <= one.enough <= 40
    for place in range(4):
        assert one(by_numpy(row, one.enough), [1] * place) == other(row, [1] * place)


@pytest.mark.parametrize(
    ("keys", "enough"),
    [
        ({}, 1),
        ({"temperature": 1.0, "top_k": 40}, 40),
        ({"temperature": 1.0, "top_k": 256}, 256),
        ({"temperature": 1.0, "top_k": 257}, 0),
        ({"temperature": 1.0, "top_p": 0.9}, 0),
        ({"temperature": 1.0, "top_k": 40, "top_n_sigma": 1.0}, 0),
        ({"temperature": 1.0, "top_k": 40, "repeat_penalty": 1.1}, 0),
        ({"repeat_penalty": 1.1}, 0),
        ({"dry_multiplier": 0.8}, 0),
        ({"temperature": 1.0, "top_k": 40, "dry_multiplier": 0.8}, 0),
        ({"temperature": 1.0, "top_k": 40, "order": ("top_p", "top_k", "temperature"), "top_p": 0.9}, 0),
        ({"temperature": 1.0, "top_k": 40, "order": ("temperature", "top_k")}, 0),
        ({"temperature": 1.0, "top_k": 40, "logit_bias": {3: 1.0}}, 0),
        ({"temperature": 1.0, "top_k": 40, "mirostat": 2}, 0),
        ({"temperature": 0.0, "dynatemp_range": 0.5}, 0),
        ({"temperature": 1.0}, 0),
    ],
)
def test_when_a_few_are_enough(keys: dict[str, Any], enough: int) -> None:
    """Whatever looks at history, or at more than the best, before the first cut makes all scores needed."""
    assert chain(SamplerSettings(**keys), size=300).enough == enough


def test_who_watches_needs_all() -> None:
    """Log-probabilities over the vocabulary, and a grammar, look at every score; a change of settings counts at once."""
    assert chain(SamplerSettings(), watch=5).enough == 0
    assert Chain(SamplerSettings(), constraint=object()).enough == 0  # type: ignore[arg-type]  # its presence alone counts
    one = chain(SamplerSettings())
    one.adjust(SamplerSettings(temperature=1.0, min_p=0.1))
    assert one.enough == 0


def test_no_number_is_no_choice() -> None:
    """The best of a row with a NaN is NaN, and refused as a row is."""
    for bad in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(BadScores):
            chain(SamplerSettings())(Best([4], [bad]), [])


@pytest.mark.slow
@FEW
@given(st.lists(rows.map(lambda row: (row * 7)[:301]), min_size=1, max_size=3), st.sampled_from([1, 2, 40, 44]))
def test_torch_finds_what_numpy_finds(many: list[list[float]], count: int) -> None:
    """Values and tokens, ties at the border included."""
    import torch
    from fader_backends.torch_hf.best import best

    width = min(len(row) for row in many)
    scores = np.array([row[:width] for row in many], dtype=np.float32)
    assert best(torch.from_numpy(scores), count) == [by_numpy(row, count) for row in scores]


SAMPLED = {"temperature": 0.9, "top_k": 40, "top_p": 0.9, "seed": 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "counts"),
    [({"on": False}, {1}), (SAMPLED, {40}), ({**SAMPLED, "repeat_penalty": 1.2}, set())],
    ids=["greedy", "sampled", "penalised"],
)
@pytest.mark.parametrize("graph", ["off", "static"])
def test_a_reply_is_the_same_wherever_they_are_found(
    graph: str,
    sampler: dict[str, Any],
    counts: set[int],
    registry: Registry,
    folders: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ids and probabilities bit for bit, with drafts and over several turns; and the device is asked where it may be."""
    import torch
    from fader_backends.torch_hf.best import best

    asked: list[int] = []

    def noted(scores: torch.Tensor, count: int) -> list[Best]:
        asked.append(count)
        return best(scores, count)

    monkeypatch.setattr("fader_backends.torch_hf.backend.best", noted)
    told = []
    for place in ("host", "device"):
        table = ContextTable(length=512, rows=2, batch=128, threads=1, options={"best_on": place, "graph": graph})
        lookup = {"prompt_lookup": {"on": True, "min_ngram": 1, "adaptive": False, "max_draft": 6}}
        profile = Profile(
            name="torch",
            backend="torch",
            model=str(folders("llama")),
            context=table,
            max_tokens=24,
            chunk=32,
            plugins=lookup,
        )
        plan = planner(registry, profile, sampler)
        with Headless(registry) as engine:
            told.append([_said(engine, plan({}), text) for text in PROMPTS[:2]])
        assert place == "device" or not asked
    assert told[0] == told[1]
    assert set(asked) == counts


def _said(engine: Headless, draft: RequestDraft, text: str) -> tuple[Any, ...]:
    draft.owner, draft.messages = "me", [Message("user", text)]
    events = list(engine.run(draft.freeze(text[:9], 0)))
    return reply(events), [event.logprob for event in events if isinstance(event, Token)]
