"""What is left to choose from. Knows no samplers."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .numbers import draw, draw_of_few

STRIDE = 64
"""Scores per group of `group_maxima`."""

Floats: TypeAlias = npt.NDArray[np.float32]
Tokens: TypeAlias = npt.NDArray[np.intp]


class Candidates(NamedTuple):
    """Tokens in id order and their scores, both shape (candidates,). A score may be -inf: masked, but still counted."""

    tokens: Tokens
    scores: Floats
    peaks: Floats | None = None
    """`group_maxima` of the scores, where they are known already."""

    def places(self, tokens: Tokens) -> tuple[Tokens, npt.NDArray[np.bool_]]:
        """Return where the candidates among `tokens` are, and which of the tokens those are."""
        if int(self.tokens[-1]) == len(self.tokens) - 1:  # all ids from 0 on are there, so each stands at its own place
            there = tokens < len(self.tokens)
            return tokens[there], there
        places = np.searchsorted(self.tokens, tokens)
        there = places < len(self.tokens)
        there[there] = self.tokens[places[there]] == tokens[there]
        return places[there], there

    def changeable(self) -> Floats:
        """Return the scores, or a copy of them where they are not ours to change."""
        return self.scores if isinstance(self, Fresh) else self.scores.copy()

    def keep(self, places: Tokens) -> Candidates:
        """Return those at `places`, which are in rising order."""
        return Candidates(self.tokens[places], self.scores[places])

    def by_id(self) -> Candidates:
        """Return them in id order."""
        return self

    def odds(self) -> Floats:
        """Return probabilities times a common factor, the best being 1."""
        odds: Floats = np.exp(self.scores - self.scores.max())
        return odds

    def draw(self, number: float) -> tuple[int, float, float]:
        """Return the token at which the running sum of odds passes `number` of it; its odds, and the sum."""
        odds = self.odds()
        place, total = draw(odds, number)
        return int(self.tokens[place]), float(odds[place]), total

    def probabilities(self) -> Floats:
        """Return probabilities."""
        odds = self.odds()
        return odds / np.float32(odds.sum(dtype=np.float64))


class Ranked(NamedTuple):
    """Few candidates, best first, of equal ones the lower id, as samplers that cut off a tail leave them to each other.

    Plain numbers, because for few of them Python takes half of numpy's time: right after a model has run through the
    processor's caches, one numpy call costs more than 10 microseconds (measured for 40: 105 against 225 in all).
    """

    tokens: list[int]
    scores: list[float]

    def first(self, count: int) -> Ranked:
        """Return the `count` best."""
        return Ranked(self.tokens[:count], self.scores[:count])

    def odds(self) -> list[float]:
        """Return probabilities times a common factor, the best being 1."""
        best = self.scores[0]
        return [math.exp(score - best) for score in self.scores]

    def by_id(self) -> Candidates:
        """Return them in id order."""
        pairs = sorted(zip(self.tokens, self.scores, strict=True))
        with np.errstate(over="ignore"):  # to -inf, for scores that a tiny temperature divided
            scores = np.array([score for _, score in pairs]).astype(np.float32)
        return Candidates(np.array([token for token, _ in pairs], dtype=np.intp), scores)

    def draw(self, number: float) -> tuple[int, float, float]:
        """Return the token at which the running sum of odds in id order passes `number` of it; its odds, and the sum."""
        best = self.scores[0]
        pairs = sorted(zip(self.tokens, self.scores, strict=True))
        odds = [math.exp(score - best) for _, score in pairs]
        place, total = draw_of_few(odds, number)
        return pairs[place][0], odds[place], total


class Fresh(Candidates):
    """Candidates whose scores were made for this step of a chain alone, so that the next step may change them in place."""


def everything(scores: Floats) -> Candidates:
    """Return all tokens of the vocabulary as candidates."""
    return Candidates(_ids(len(scores)), scores, group_maxima(scores))


def group_maxima(scores: Floats) -> Floats:
    """Return the maxima of many groups that together hold all scores, in rising order; last NaN, if a score is."""
    groups = len(scores) // STRIDE
    whole = groups * STRIDE
    peaks: Floats = np.maximum.reduce(scores[:whole].reshape(STRIDE, groups))
    if whole < len(scores):
        peaks = np.concatenate((peaks, scores[whole:]))
    peaks.sort()
    return peaks


@lru_cache(maxsize=4)
def _ids(count: int) -> Tokens:
    ids = np.arange(count, dtype=np.intp)
    ids.flags.writeable = False
    return ids
