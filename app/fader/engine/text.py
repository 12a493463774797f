"""Token bytes to text: characters across tokens, stop strings across tokens.

Knows no tokens, only the bytes they stand for.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """Turns pieces of bytes into text that never has to be taken back.

    Concatenating what `feed` and `flush` return gives the whole text, for every way of splitting the bytes. Stop strings
    are looked for in bytes; the longest tail that could begin one is held back. Of several the one that is complete first
    counts, of those that end together the longest. Invalid bytes become U+FFFD.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self.stops = [text.encode() for text in stop if text]
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.held = b""
        self.stopped = False
        """A stop string was met; everything from it on is dropped."""
        self.kept = 0
        """How many of the bytes fed so far belong to the text (all of them, unless stopped)."""

    def feed(self, piece: bytes) -> str:
        """Take the bytes of one token; return the text that is certain now."""
        if self.stopped:
            return ""
        self.kept += len(piece)
        if not self.stops:
            return self.decoder.decode(piece)
        self.held += piece
        found = [(at + len(stop), at) for stop in self.stops if (at := self.held.find(stop)) >= 0]
        if found:
            _, at = min(found)
            self.stopped = True
            self.kept -= len(self.held) - at
            self.held = self.held[:at]
            return ""
        free = len(self.held) - self._doubtful()
        ready, self.held = self.held[:free], self.held[free:]
        return self.decoder.decode(ready)

    def flush(self) -> str:
        """Return what was held back; the text is over."""
        ready, self.held = self.held, b""
        return self.decoder.decode(ready, final=True)

    def _doubtful(self) -> int:
        """Length of the longest tail that is a proper beginning of a stop string."""
        longest = max((len(stop) for stop in self.stops), default=0)
        for size in range(min(longest - 1, len(self.held)), 0, -1):
            if any(stop.startswith(self.held[-size:]) for stop in self.stops):
                return size
        return 0
