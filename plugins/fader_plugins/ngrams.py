"""Where the end of a text has been before: an index of runs of tokens that grows with the text.

Knows tokens only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

LONGEST = 32
"""Matches are measured up to this length; a longer one promises no more."""


class Match(NamedTuple):
    """An earlier place that went like the end of the text."""

    place: int
    """Where it went on."""
    length: int
    """Tokens that agree before it, at most LONGEST."""


class Index:
    """Where each run of `low` to `high` tokens was last followed by something. Grows with the text, token by token."""

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self._places: dict[tuple[int, ...], int] = {}
        self._done = low

    def find(self, history: Sequence[int]) -> Match | None:
        """Return the last one of the longest matches of the text's end, taking in what is new of the text."""
        length = len(history)
        for end in range(self._done, length):
            for size in range(self.low, min(self.high, end) + 1):
                self._places[tuple(history[end - size : end])] = end
        self._done = max(self._done, length)
        for size in range(min(self.high, length), self.low - 1, -1):
            place = self._places.get(tuple(history[length - size :]))
            if place is not None:
                while size < min(LONGEST, place) and history[place - 1 - size] == history[length - 1 - size]:
                    size += 1
                return Match(place, size)
        return None


def kind(length: int) -> int:
    """Return the class of matches of about this length: half octaves."""
    return int(2 * math.log2(min(length, LONGEST)))


def belief(kind: int) -> float:
    """Return what is thought of a class of matches at first: 0.4 for two tokens, 0.9 for 32."""
    length: float = 2 ** (kind / 2)
    return length / (length + 3)
