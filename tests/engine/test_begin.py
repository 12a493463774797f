"""Replies that begin as they are told to: the model goes on as it would have from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fader.headless import Headless
from fader.metrics import Stats
from fader_backends.base import Message
from fader_backends.echo import END
from fader_plugins.testing import reply
from fader_plugins.turn import Failed, GenerationRequest, Offered, Restored

Ask = Callable[..., GenerationRequest]
DRAWN: dict[str, Any] = {
    "load": {"noise": 1.5},
    "max_tokens": 16,
    "plugins": {"sampler": {"seed": 7, "temperature": 1.0, "top_p": 0.98, "min_p": 0.0}},
}


def begin(*ids: int, **more: Any) -> dict[str, Any]:
    return {**DRAWN, "change": {"ignore_end": True, "begin": Message("assistant", "", ids), **more}}


def stats_of(engine: Headless, request: GenerationRequest) -> Stats:
    stats = Stats(request=request)
    for event in engine.run(request):
        stats.fold(event)
    return stats


@pytest.mark.parametrize("kv", [True, False])
def test_a_forced_beginning_is_gone_on_with_as_the_model_would(engine: Headless, ask: Ask, kv: bool) -> None:
    """For every place: the reply's own first ids, given, are followed by the same ids that followed them before."""
    plugins = {**DRAWN["plugins"], "kv_cache": {"on": kv}}
    whole = reply(engine.run(ask("hello", **{**begin(), "plugins": plugins})))[1]
    assert len(whole) == 16
    for place in range(1, 16):
        request = ask("hello", **{**begin(*whole[:place]), "plugins": plugins, "max_tokens": 16 - place})
        text, ids = reply(engine.run(request))
        assert ids == whole
        assert text == bytes(token for token in whole if token < END).decode(errors="replace")


def test_another_token_leads_elsewhere_and_the_rest_is_its_own(engine: Headless, ask: Ask) -> None:
    """After a forced token the reply is what a fresh engine gives for that beginning."""
    whole = reply(engine.run(ask("hello", **begin())))[1]
    other = next(token for token in range(97, 123) if token != whole[4])
    request = ask("hello", **begin(*whole[:4], other))
    ids = reply(engine.run(request))[1]
    assert ids[:5] == (*whole[:4], other)
    with Headless(engine.engine.registry) as fresh:
        assert reply(fresh.run(request))[1] == ids


def test_only_what_is_new_is_evaluated(engine: Headless, ask: Ask) -> None:
    """KV reuse follows the branch: of prompt and beginning only the forced token has to be evaluated."""
    whole = reply(engine.run(ask("hello", **begin())))[1]
    events = engine.run(ask("hello", **begin(*whole[:8], 120)))
    restored = next(event for event in events if isinstance(event, Restored))
    assert restored.new == 1
    assert restored.reused == len("hello") + 3 + 8


def test_the_beginning_counts_as_prompt_not_as_reply(engine: Headless, ask: Ask) -> None:
    stats = stats_of(engine, ask("hello", **begin(104, 105, logprobs=5)))
    numbers = stats.numbers()
    assert (numbers.begun_tokens, numbers.output_tokens, len(stats.odds)) == (2, 16, 16)
    assert numbers.prompt_tokens == len("hello") + 3 + 2
    assert numbers.context_used == numbers.prompt_tokens + 16
    assert stats.text.startswith("hi")
    assert stats.pieces[104] == b"h"


def test_text_without_ids_is_encoded(engine: Headless, ask: Ask) -> None:
    request = ask("hello", change={"begin": Message("assistant", "hé")})
    text, ids = reply(engine.run(request))
    assert ids[:3] == tuple("hé".encode())
    assert text == "hé" + "lo", "echo goes on where the beginning ends, byte by byte"


def test_a_character_may_be_cut_in_half_by_a_branch(engine: Headless, ask: Ask) -> None:
    text, ids = reply(engine.run(ask("é!", change={"begin": Message("assistant", "", (0xC3,))})))
    assert (text, ids) == ("é!", (0xC3, 0xA9, 0x21))


def test_a_forced_end_ends_the_reply(engine: Headless, ask: Ask) -> None:
    stats = stats_of(engine, ask("hello", change={"begin": Message("assistant", "", (104, 105, END))}))
    assert stats.finished is not None
    assert (stats.finished.reason, stats.finished.ids, stats.text) == ("end", (104, 105), "hi")
    assert reply(engine.run(ask("hello")))[0] == "hello", "the next turn is right"


def test_stop_strings_in_the_beginning_mean_nothing(engine: Headless, ask: Ask) -> None:
    request = ask("xxllo", change={"begin": Message("assistant", "ll"), "stop": ["l"]})
    text, ids = reply(engine.run(request))
    assert (text, ids) == ("ll", (108, 108))


def test_a_token_of_another_model_is_refused(engine: Headless, ask: Ask) -> None:
    events = engine.run(ask("hello", change={"begin": Message("assistant", "", (49_000,))}))
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert failed.failure.title == "The reply was made by another model: this one has no token 49,000."
    assert reply(engine.run(ask("hello")))[0] == "hello"


def test_a_beginning_that_fills_the_context_is_refused(engine: Headless, ask: Ask) -> None:
    events = engine.run(ask("hello", change={"begin": Message("assistant", "x" * 5000)}))
    assert isinstance(events[-1], Failed)
    assert events[-1].failure.kind == "ContextFull"
    assert "5,008" in events[-1].failure.title


# --- until it surprises ------------------------------------------------------------------------------------------------


def test_a_bound_below_zero_offers_the_first_token(engine: Headless, ask: Ask) -> None:
    """The token is the one that would have been taken, and taking it by hand goes on as if nothing had happened."""
    whole = reply(engine.run(ask("hello", **begin())))[1]
    taken: tuple[int, ...] = ()
    for place in range(6):
        stats = stats_of(engine, ask("hello", **begin(*taken, logprobs=8, until_bits=-1.0)))
        assert stats.finished is not None
        assert (stats.finished.reason, stats.finished.ids) == ("surprise", taken)
        assert stats.offered is not None
        assert stats.offered.token == whole[place]
        assert whole[place] in stats.offered.odds.ids()
        taken = (*taken, stats.offered.token)


def test_it_runs_until_a_token_is_too_surprising(engine: Headless, ask: Ask) -> None:
    free = stats_of(engine, ask("hello", **begin(logprobs=8)))
    surprises = [one.logprob for one in free.odds]
    worst = min(range(1, 16), key=lambda place: surprises[place])
    bound = -surprises[worst] / 0.6931471805599453 - 0.01
    stats = stats_of(engine, ask("hello", **begin(logprobs=8, until_bits=bound)))
    assert stats.finished is not None
    first = next(place for place, one in enumerate(surprises) if -one / 0.6931471805599453 > bound)
    assert (stats.finished.reason, len(stats.finished.ids)) == ("surprise", first)
    assert isinstance(stats.offered, Offered)
    assert stats.offered.odds.logprob == pytest.approx(surprises[first])


def test_without_surprise_it_ends_by_itself(engine: Headless, ask: Ask) -> None:
    stats = stats_of(engine, ask("hello", change={"logprobs": 4, "until_bits": 8.0}))
    assert stats.finished is not None
    assert (stats.finished.reason, stats.text, stats.offered) == ("end", "hello", None)
