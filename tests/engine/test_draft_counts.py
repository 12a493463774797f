"""Law 4 by counting: drafted tokens follow the model's own distribution, in the real loop with the real plugin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pytest
from fader.engine.row import Row
from fader.profiles import Profile
from fader.switchboard import Switchboard
from fader_backends.base import FORBIDDEN, ContextSpec, Message, ModelSpec
from fader_backends.echo import EchoBackend, echo_scores
from fader_plugins.calls import Hooks
from fader_plugins.registry import Registry
from fader_plugins.turn import GenerationRequest

NOW = datetime(2026, 1, 1)


def tokens_at(request: GenerationRequest, backend: EchoBackend, registry: Registry, place: int) -> int:
    """Run one row by hand on a shared backend; return the reply's token at `place`."""
    hooks = Hooks(registry, request.enabled, lambda *fault: pytest.fail(str(fault)))
    hooks.engine_ready(request, backend)
    session = backend.open()
    prompt = backend.chat(request.messages, NOW)
    row = Row(request, backend, session, prompt, 0, hooks, lambda _: None, lambda: 0)
    while row.reason is None:
        part = row.take(64)
        row.give(part, backend.evaluate([part])[0], 1000, len(part.tokens))
    session.close()
    return row.ids[place]


@pytest.mark.slow
@pytest.mark.parametrize("on", [False, True])
def test_drafted_tokens_follow_the_distribution(registry: Registry, on: bool) -> None:
    """Law 4: at temperature 1 the second token over 1,200 seeds passes a chi-square test against the exact chances.

    The toy is echo with scores bent towards few tokens, so that lookup's guesses are often right and often wrong.
    """
    few = dict.fromkeys(range(97, 101), 0.0)
    bias = {token: FORBIDDEN for token in range(260) if token not in few}
    backend = EchoBackend(ModelSpec(backend="echo", options={"noise": 1.0}), ContextSpec(), wait=lambda _: None)
    prompt = backend.chat([Message("user", "abcdabca")], NOW)

    def chances(tokens: Sequence[int]) -> Any:
        scores = echo_scores(tokens, 1.0)[list(few)].astype(np.float64)
        scores[np.argmax(scores)] = min(scores.max(), 3.0)
        odds = np.exp(scores - scores.max())
        return odds / odds.sum()

    def bent(tokens: Sequence[int], noise: float) -> Any:
        scores = echo_scores(tokens, noise)
        scores[list(few)] = np.log(chances(tokens))
        return scores.astype(np.float32)

    exact = np.zeros(4)
    for token, chance in zip(few, chances(prompt), strict=True):
        exact += chance * chances([*prompt, token])
    seen: Counter[int] = Counter()
    proposals = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fader_backends.echo.echo_scores", bent)
        plugins: dict[str, dict[str, Any]] = {
            "sampler": {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
            "prompt_lookup": {"on": on, "adaptive": False, "min_ngram": 1, "max_draft": 3},
        }
        board = Switchboard(registry, Profile(name="test", backend="echo", max_tokens=4, plugins=plugins))
        draft = board.plan("me", [Message("user", "abcdabca")], NOW)
        draft.ignore_end = True
        asked = draft.freeze("turn", 0)
        lookup: Any = registry.implementation("prompt_lookup")
        patch.setattr("fader_plugins.drafting.REFRESH", 10**9)
        for seed in range(1200):
            sampler = msgspec.structs.replace(asked.sampler, seed=seed, logit_bias=bias)
            seen[tokens_at(msgspec.structs.replace(asked, sampler=sampler), backend, registry, 1)] += 1
            proposals += len(lookup.searches) > 0
    chi = sum((seen[token] - 1200 * p) ** 2 / (1200 * p) for token, p in zip(few, exact, strict=True))
    assert chi < 16.3, "the 0.999 quantile of chi-square with 3 degrees of freedom"
    assert (proposals > 0) == on
