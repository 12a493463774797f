"""Given beginnings and noted probabilities on the real model, in exact mode."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from fader import profiles
from fader.headless import Headless
from fader.metrics import Stats
from fader.models import embedded
from fader.paths import Paths
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import Registry
from fader_plugins.turn import GenerationRequest

from tests.engine.conftest import NOW

pytestmark = pytest.mark.slow
COUNT = 12


@pytest.fixture(scope="module")
def real(registry: Registry) -> Iterator[Headless]:
    if embedded() is None:
        pytest.skip("the embedded model is not installed")
    with Headless(registry) as engine:
        yield engine


def request(real: Headless, home: object, begin: tuple[int, ...] = (), count: int = COUNT) -> GenerationRequest:
    """A drawn reply with notes, its given beginning included in `count` tokens."""
    shipped = profiles.load("exact", Paths.from_environment({"FADER_HOME": str(home)}))
    context = msgspec.structs.replace(shipped.context, length=1024)
    board = Switchboard(real.engine.registry, msgspec.structs.replace(shipped, context=context))
    board.switch("logprobs", True)
    for key, value in {"seed": 5, "temperature": 0.9}.items():
        board.set("sampler", key, value)
    draft = board.plan("talk", [Message("user", "Name three colours of the sky.")], NOW)
    draft.ignore_end, draft.max_tokens = True, count - len(begin)
    draft.begin = Message("assistant", "", begin)
    return draft.freeze(f"{len(begin)}", 0)


def run(real: Headless, asked: GenerationRequest) -> Stats:
    stats = Stats(request=asked)
    for event in real.run(asked):
        stats.fold(event)
    assert stats.failure is None, stats.failure
    return stats


def test_a_forced_beginning_is_gone_on_with_bit_for_bit(real: Headless, home: object) -> None:
    """From every place on, ids and noted probabilities are those of the reply that was never stopped."""
    whole = run(real, request(real, home))
    for place in range(1, COUNT):
        branch = run(real, request(real, home, tuple(whole.ids[:place])))
        assert branch.ids == whole.ids
        assert branch.odds == whole.odds[place:]
        assert branch.reused is not None
        assert branch.prompt_tokens == branch.reused + 1, "only the forced token was evaluated"


def test_noted_probabilities_are_those_of_a_softmax(real: Headless, home: object) -> None:
    """Against a softmax in double precision over a fresh evaluation of prompt and reply: within 1e-5."""
    stats = run(real, request(real, home))
    backend = real.engine.model.backend
    assert backend is not None
    session = backend.open()
    prompt = backend.chat(stats.request.messages, NOW)
    wide = np.concatenate([session.extend([token], 1) for token in (*prompt, *stats.ids)]).astype(np.float64)
    session.close()
    for place, odds in enumerate(stats.odds):
        row = wide[len(prompt) - 1 + place]
        want = row - row.max() - np.log(np.exp(row - row.max()).sum())
        assert odds.logprob == pytest.approx(want[stats.ids[place]], abs=1e-5)
        assert odds.entropy == pytest.approx(-(np.exp(want) * want).sum(), abs=1e-4)
        assert set(np.argsort(-row)[:10].tolist()) <= set(odds.ids())
        for one in odds.candidates():
            assert one.logprob == pytest.approx(want[one.token], abs=1e-5)
