"""`Kept`: a turn as it is kept for evidence: what was asked, how all switches stood, and every event; packed for the store.

Knows no screen and no file. The words of the prompt are not in it, for the tree holds them: their digest is.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING

import msgspec
from fader_plugins.turn import AnyEvent, GenerationRequest

from .metrics import Stats
from .profiles import Profile

if TYPE_CHECKING:
    from .turns import Turn

LEVEL = 1
"""Of compression: a turn's end must not be felt."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """One turn with its events."""

    profile: Profile
    """All switches and settings as they stood when it was sent."""
    prompt: str
    """SHA-256 of what was asked; the system prompt is a setting."""
    messages: int
    """How many were said, the question included and the system prompt not."""
    request: GenerationRequest
    """Without its messages."""
    events: tuple[AnyEvent, ...]

    @property
    def stats(self) -> Stats:
        """The fold of its events."""
        stats = Stats(request=self.request)
        for event in self.events:
            stats.fold(event)
        return stats


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Kept)


def kept(turn: Turn) -> Kept:
    """Return a turn that has ended as it is kept."""
    return of(turn.request, turn.profile, turn.events)


def of(request: GenerationRequest, profile: Profile, events: list[AnyEvent]) -> Kept:
    """Return what is kept of a request and its events."""
    said = [message for message in request.messages if message.role != "system"]
    return Kept(
        profile=profile,
        prompt=hashlib.sha256(msgspec.json.encode((said, request.begin))).hexdigest(),
        messages=len(said),
        request=msgspec.structs.replace(request, messages=(), begin=None),
        events=tuple(events),
    )


def packed(one: Kept) -> bytes:
    """Return it for the store."""
    return zlib.compress(_encoder.encode(one), LEVEL)


def unpacked(data: bytes) -> Kept | None:
    """Undo `packed`; None for what cannot be read."""
    try:
        return _decoder.decode(zlib.decompress(data))
    except (zlib.error, msgspec.MsgspecError):
        return None
