"""What people are told of events that end nothing: a plugin that failed, messages that were left out, a compiler.

Knows events, not who shows the notice.
"""

from __future__ import annotations

from fader_backends.errors import Failure
from fader_plugins.turn import AnyEvent, PluginFault, Trimmed

from .metrics import Stats

NOTICE = "Notice"
"""`Failure.kind` of what is no failure, but must be seen."""


def notice_of(event: AnyEvent) -> Failure | None:
    """Return what an event says to people, None for most."""
    if isinstance(event, PluginFault):
        detail = f"{event.hook}: {event.detail}"
        step = "It is switched off until Fader starts again."
        return Failure(f"Plugin {event.plugin!r} failed.", detail, step, "PluginFailed", event.plugin)
    return left_out(event) if isinstance(event, Trimmed) else None


def compiled(stats: Stats) -> Failure | None:
    """Return why a stopped turn took so long to stop, where a compiler kept it."""
    loading, end = stats.loading, stats.finished
    if end is None or end.reason != "cancelled" or loading is None or not loading.compiling or stats.facts is not None:
        return None
    seconds = (end.at_ns - loading.at_ns) * 1e-9
    return Failure(
        f"The model's steps were being compiled, which took {seconds:,.1f} s and cannot be stopped half-way.",
        "Then the turn was stopped.",
        "Switch graph off, or set graph.mode to static, for turns that begin at once.",
        NOTICE,
    )


def left_out(event: Trimmed) -> Failure:
    """Return the notice that messages were left out to fit the context."""
    plural = "" if event.messages == 1 else "s"
    return Failure(
        f"{event.messages:,} oldest message{plural} left out to fit the context ({event.tokens:,} tokens).",
        "The conversation keeps them; the model does not see them.",
        "",
        NOTICE,
    )
