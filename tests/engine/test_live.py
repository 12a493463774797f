"""Live settings act on the next token of a running reply, and the record says from which token on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec
from fader.engine.engine import Engine
from fader.metrics import Stats
from fader.switchboard import Switchboard
from fader_backends.base import FORBIDDEN, Message
from fader_plugins.registry import Registry
from fader_plugins.turn import Adjusted, AnyEvent, Finished, Token

AT = 5


def test_a_live_change_acts_on_the_next_token_only(registry: Registry, board: Callable[..., Switchboard]) -> None:
    """Forbidding a byte in the middle of an echo leaves what was said and changes what comes."""
    made = board(load={"noise": 1.0})
    made.switch("sampler", False)
    draft = made.plan("me", [Message("user", "aaaaaaaaaaaa")], datetime(2026, 1, 1))
    request = draft.freeze("one", 0)
    forbid = msgspec.structs.replace(request.sampler, logit_bias={ord("a"): FORBIDDEN})
    events: list[AnyEvent] = []

    def emit(event: AnyEvent) -> None:
        events.append(event)
        if isinstance(event, Token) and event.index == AT - 1:
            engine.adjust("one", forbid)

    engine = Engine(registry, emit)
    engine.submit(request)
    engine.run_until_idle()
    tokens = [event.token for event in events if isinstance(event, Token)]
    assert tokens[:AT] == [ord("a")] * AT
    assert ord("a") not in tokens[AT:]
    assert [event.index for event in events if isinstance(event, Adjusted)] == [AT]
    stats = Stats(request=request)
    for event in events:
        stats.fold(event)
    record = stats.record()
    assert record.request.sampler == request.sampler, "the request stays as it was sent"
    assert [one.sampler for one in record.adjusted] == [forbid]
    engine.close()
    engine.run_until_idle()


def test_an_adjustment_after_the_end_or_out_of_range_hurts_nobody(
    registry: Registry, board: Callable[..., Switchboard]
) -> None:
    """An unknown turn is passed over; a bad value fails the one row it was for."""
    made = board()
    request = made.plan("me", [Message("user", "hello")], datetime(2026, 1, 1)).freeze("two", 0)
    events: list[AnyEvent] = []
    engine = Engine(registry, events.append)
    engine.adjust("nobody", request.sampler)
    engine.submit(request)
    engine.run_until_idle()
    assert isinstance(events[-1], Finished)
    engine.close()
    engine.run_until_idle()
