"""What people are told of events that end nothing: a plugin that failed, messages that were left out.

Knows events, not who shows the notice.
"""

from __future__ import annotations

from fader_backends.errors import Failure
from fader_plugins.turn import AnyEvent, PluginFault, Trimmed

NOTICE = "Notice"
"""`Failure.kind` of what is no failure, but must be seen."""


def notice_of(event: AnyEvent) -> Failure | None:
    """Return what an event says to people, None for most."""
    if isinstance(event, PluginFault):
        detail = f"{event.hook}: {event.detail}"
        step = "It is switched off until Fader starts again."
        return Failure(f"Plugin {event.plugin!r} failed.", detail, step, "PluginFailed", event.plugin)
    return left_out(event) if isinstance(event, Trimmed) else None


def left_out(event: Trimmed) -> Failure:
    """Return the notice that messages were left out to fit the context."""
    plural = "" if event.messages == 1 else "s"
    return Failure(
        f"{event.messages:,} oldest message{plural} left out to fit the context ({event.tokens:,} tokens).",
        "The conversation keeps them; the model does not see them.",
        "",
        NOTICE,
    )
