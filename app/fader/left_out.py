"""How people are told that messages were left out of a request to fit the context.

Knows the event, not who shows it.
"""

from __future__ import annotations

from fader_backends.errors import Failure
from fader_plugins.turn import Trimmed

NOTICE = "Notice"
"""`Failure.kind` of what is no failure, but must be seen."""


def left_out(event: Trimmed) -> Failure:
    """Return the notice."""
    plural = "" if event.messages == 1 else "s"
    return Failure(
        f"{event.messages:,} oldest message{plural} left out to fit the context ({event.tokens:,} tokens).",
        "The conversation keeps them; the model does not see them.",
        "",
        NOTICE,
    )
