"""What may lie in an engine's inbox beside turns.

Knows requests only.
"""

from __future__ import annotations

from typing import NamedTuple

from fader_plugins.turn import GenerationRequest


class Wish(NamedTuple):
    """A turn to prepare for, not to run."""

    request: GenerationRequest


class Look(NamedTuple):
    """A turn whose model and context are to be looked into, not to run."""

    request: GenerationRequest
