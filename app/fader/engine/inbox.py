"""What may lie in an engine's inbox beside turns.

Knows requests only.
"""

from __future__ import annotations

from typing import NamedTuple

from fader_plugins.turn import GenerationRequest

LOOKING = "\0look"
"""The owner of what a look evaluates; no conversation's."""


class Wish(NamedTuple):
    """A turn to prepare for, not to run."""

    request: GenerationRequest


class Look(NamedTuple):
    """A turn whose model and context are to be looked into, not to run."""

    request: GenerationRequest

    @property
    def id(self) -> str:
        """The request's."""
        return self.request.id


def request_of(asked: GenerationRequest | Look) -> GenerationRequest:
    """Return the request itself."""
    return asked.request if isinstance(asked, Look) else asked
