"""Samplers that steer by what they chose before: mirostat 1 and 2, adaptive-p. They make the draw themselves.

Know their own running state; one object serves one reply.
"""

from __future__ import annotations

import math

import numpy as np

from .candidates import Candidates
from .cuts import top_k
from .numbers import draw

WIDTH, PEAK, SHARPNESS = 0.3, 5.0, 10.0
"""Shape of adaptive-p's preference for its target probability."""


class Mirostat:
    """Keep the surprise of the reply, in bits, near tau (Basu et al., "Mirostat", 2021). Version 1 or 2."""

    def __init__(self, version: int, tau: float, eta: float, vocabulary: int, m: int = 100) -> None:
        self.version = version
        self.tau = tau
        self.eta = eta
        self.vocabulary = vocabulary
        self.m = m
        self.mu = 2.0 * tau

    def cut(self, c: Candidates) -> Candidates:
        """Return what may be drawn."""
        if self.version == 1:
            return top_k(c, max(self._k(c), 1)).by_id()
        with np.errstate(divide="ignore"):
            surprise = -np.log2(c.probabilities())
        places = np.flatnonzero(surprise <= self.mu)
        return c.keep(places if len(places) else np.array([c.scores.argmax()]))

    def _k(self, c: Candidates) -> int:
        """Return k from the Zipf exponent of the m most likely."""
        p = np.sort(c.probabilities())[::-1][: self.m].astype(np.float64)
        p = p[p > 0]
        if len(p) < 2:
            return 1
        ranks = np.arange(1, len(p))
        t = np.log((ranks + 1) / ranks)
        b = np.log(p[:-1] / p[1:])
        s = float((t * b).sum() / (t * t).sum())
        epsilon = s - 1
        try:
            k = ((epsilon * 2**self.mu) / (1 - float(self.vocabulary) ** -epsilon)) ** (1 / s)
        except (ZeroDivisionError, OverflowError):
            return len(c.tokens)
        return int(min(k.real, len(c.tokens))) if isinstance(k, float) else 1

    def choose(self, c: Candidates, number: float) -> tuple[int, float]:
        """Return the place that is drawn and its probability; learn from it."""
        place, p = _drawn(c, number)
        self.mu -= self.eta * (-math.log2(p) - self.tau)
        return place, p


class AdaptiveP:
    """Prefer tokens whose probability is near a target that makes up for what came before (llama.cpp #17927)."""

    def __init__(self, target: float, decay: float) -> None:
        self.target = target
        self.decay = decay
        self.sum = target / (1.0 - decay)
        self.weight = 1.0 / (1.0 - decay)

    def cut(self, c: Candidates) -> Candidates:
        """Return all candidates with scores by their distance from the adapted target."""
        aim = min(max(2.0 * self.target - self.sum / self.weight, 0.0), 1.0)
        distance = np.abs((c.probabilities() - np.float32(aim)) / np.float32(WIDTH))
        scores = np.float32(PEAK) - np.float32(SHARPNESS) * distance * distance / (1 + distance)
        return Candidates(c.tokens, np.where(c.scores > -np.inf, scores, c.scores))

    def choose(self, c: Candidates, number: float) -> tuple[int, float]:
        """Return the place that is drawn and its probability after the change; learn from the one before it."""
        place, p = _drawn(self.cut(c), number)
        self.sum = float(c.probabilities()[place]) + self.decay * self.sum
        self.weight = 1.0 + self.decay * self.weight
        return place, p


def _drawn(c: Candidates, number: float) -> tuple[int, float]:
    odds = c.odds()
    place, total = draw(odds, number)
    return place, float(odds[place]) / total
