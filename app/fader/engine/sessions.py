"""`Sessions`: the sessions kept between turns, one per conversation owner.

Knows nothing of what they hold; the least recently used idle one makes room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from fader_backends.base import Backend, Session
from fader_backends.errors import OutOfMemory


class Sessions:
    """Idle sessions by owner, least recently used first. A session that is in use is not in here."""

    def __init__(self) -> None:
        self._idle: OrderedDict[str, Session] = OrderedDict()

    def take(self, backend: Backend, owner: str, make_room: Callable[[], bool]) -> Session:
        """Return the owner's session, or an empty one. Raises OutOfMemory when all rows are in use.

        `make_room` is asked last; it closes a session that somebody else holds, or returns False.
        """
        held = self._idle.pop(owner, None)
        while held is None:
            try:
                held = backend.open()
            except OutOfMemory:
                if not (self.drop_oldest() or make_room()):
                    raise
        return held

    def keep(self, owner: str, session: Session) -> None:
        """Keep a session for the owner's next turn, in place of one kept before."""
        former = self._idle.pop(owner, None)
        if former is not None:
            former.close()
        self._idle[owner] = session

    def drop_oldest(self) -> bool:
        """Close the least recently used one; False when there is none."""
        if not self._idle:
            return False
        self._idle.popitem(last=False)[1].close()
        return True

    def forget(self) -> None:
        """Close all."""
        while self.drop_oldest():
            pass
