"""Turns of one conversation that run together read what their prompts share once: the later one takes it over.

Knows rows by what they hold, and nothing of what takes a turn into work. A plugin that reuses nothing still reuses nothing:
what is taken over is offered to `restore_prefix` like any session of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence

from fader_backends.base import Session
from fader_backends.errors import NotSupported, OutOfMemory
from fader_plugins.calls import common
from fader_plugins.turn import GenerationRequest

from .row import Row


def awaits(request: GenerationRequest, rows: Sequence[Row]) -> bool:
    """Whether a turn does well to wait: a row of its conversation is reading a prompt that it may take over."""
    return request.keep_state and any(
        row.prefilling and row.request.keep_state and row.request.owner == request.owner for row in rows
    )


def take_over(session: Session, request: GenerationRequest, prompt: Sequence[int], rows: Sequence[Row]) -> None:
    """Let a turn's session hold what a running row of its conversation holds, where that is more of its prompt."""
    if not request.keep_state:
        return
    kin = [row.session for row in rows if row.request.owner == request.owner]
    nearest = max(kin, key=lambda held: common(held.tokens, prompt), default=session)
    length = common(nearest.tokens, prompt)
    if length <= common(session.tokens, prompt):
        return
    try:
        session.copy(nearest)
        session.rewind(length)  # the row's own reply is none of this turn's business
    except (NotSupported, OutOfMemory):  # it costs time only: the turn evaluates its prompt itself
        session.rewind(0)
