"""`Odds`: what one token was chosen from, small enough to be kept for every token of every reply.

Knows no sampler but by name, and needs no numpy: a screen reads it, too.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from .sampler_settings import ORDER

REMOVERS = ("", "logit_bias", "grammar", *ORDER, "mirostat")
"""Who can remove a candidate, by the number that is stored; nobody is "". Stored records need it: append only."""


class Candidate(NamedTuple):
    """A token that could have been chosen."""

    token: int
    logprob: float
    """Natural log of its probability before the chain, -inf where the model itself rules it out."""
    chain_logprob: float | None
    """The same among the candidates the chain left; None when it was removed."""
    removed_by: str
    """Name of the sampler that removed it; "" when it was left."""


class Odds(msgspec.Struct, frozen=True, array_like=True):
    """One position of a reply. Four packed columns of equal length hold its candidates, likeliest (before) first."""

    logprob: float
    """Natural log of the chosen token's probability before the chain."""
    entropy: float
    """Of all tokens before the chain, in nats."""
    left: int
    """How many candidates the chain left."""
    tokens: bytes
    """uint32, little-endian, as all columns: the likeliest before the chain, the likeliest left by it, and the chosen."""
    before: bytes
    """float32: log-probabilities before the chain."""
    after: bytes
    """float32: log-probabilities among what the chain left; NaN for what it removed."""
    removed: bytes
    """One byte each: place in `REMOVERS`."""

    def candidates(self) -> list[Candidate]:
        """Unpack the columns. Raises ValueError when they do not fit together."""
        columns = zip(
            unpacked("I", self.tokens), unpacked("f", self.before), unpacked("f", self.after), self.removed, strict=True
        )
        return [
            Candidate(token, before, None if math.isnan(after) else after, REMOVERS[by] if by < len(REMOVERS) else "?")
            for token, before, after, by in columns
        ]

    def ids(self) -> array[int]:
        """Return the candidates' tokens."""
        return unpacked("I", self.tokens)


def bits(logprob: float) -> float:
    """Return the surprise of a token of that log-probability, in bits."""
    return -logprob / math.log(2) + 0.0


def packed(kind: str, column: Iterable[float]) -> bytes:
    """Return a column of 32-bit numbers, little-endian; `kind` as in `array`."""
    made = array(kind, column)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def unpacked(kind: str, data: bytes) -> array[int]:
    """Return a packed column. Raises ValueError when it ends in the middle of an entry."""
    column: array[int] = array(kind)
    column.frombytes(data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
