"""One turn on a profile, to show that it stands as it is said to and works.

Knows switchboards and engines, not why anybody asks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from fader_backends.base import Message
from fader_backends.errors import FaderError
from fader_plugins.turn import GenerationRequest, Numbers

from ..headless import Headless
from ..metrics import Stats
from ..switchboard import Switchboard
from .evidence import Variable
from .experiment import CLOCK, settings, valued

PROMPT = "Say hello."
TOKENS = 8
ENOUGH = 512
"""Tokens of context such a turn cannot outgrow."""


class NotProved(FaderError):
    """The turn did not show what it was to show."""


def prove(board: Switchboard, variables: Sequence[Variable]) -> Numbers:
    """Run one short turn and return its numbers. Raises NotProved where a setting is not `before`, or the turn fails."""
    here = settings(board)
    for one in variables:
        if here.get(one.key) != one.before:
            raise NotProved(
                f"{one.key} is {valued(here.get(one.key))}, not {valued(one.before)}.", "", "Look at the profile."
            )
    draft = board.plan("proof", [Message("user", PROMPT)], CLOCK)
    draft.max_tokens, draft.ignore_end = TOKENS, True
    draft.context = msgspec.structs.replace(draft.context, rows=1, enough=ENOUGH)
    request = draft.freeze("proof", time.perf_counter_ns())
    for one in variables:
        if (acted := _acted(request, one)) != one.before and acted is not one:
            raise NotProved(
                f"The turn ran with {one.key} {valued(acted)}, not {valued(one.before)}.", "", "Look at the profile."
            )
    stats = Stats(request=request)
    with Headless(board.registry) as engine:
        for event in engine.run(request):
            stats.fold(event)
    if stats.failure is not None:
        raise NotProved(f"The turn failed: {stats.failure.title}", stats.failure.detail, stats.failure.next_step)
    return stats.numbers()


def _acted(request: GenerationRequest, one: Variable) -> Any:
    """Return what a setting is in the frozen request; the variable itself where a request does not say."""
    plugin, dot, key = one.key.partition(".")
    if plugin not in request.plugins:
        return one
    state = request.plugins[plugin]
    return state.settings.get(key) if dot else state.on
