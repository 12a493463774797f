"""Reuse what the conversation's session already holds of the next prompt. Off: every turn evaluates the whole prompt."""

from __future__ import annotations

from fader_backends.base import Session

from .calls import common
from .hookspecs import hookimpl
from .turn import GenerationRequest, PluginInfo

info = PluginInfo(
    name="prefix_cache",
    summary="Evaluate only what is new in a prompt (off: all of it, every turn)",
    needs=frozenset({"rewind"}),
)


@hookimpl
def restore_prefix(request: GenerationRequest, session: Session, prompt: list[int]) -> int | None:
    """Keep the common beginning of what is held and what is asked."""
    if not request.keep_state:
        return None
    shared = min(common(session.tokens, prompt), len(prompt) - 1)
    session.rewind(shared)
    return shared
