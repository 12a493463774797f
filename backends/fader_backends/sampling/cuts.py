"""Samplers that drop candidates: top-n-sigma, top-k, typical, top-p, min-p, XTC.

Know only what is left when their turn comes. All keep token-id order and at least one candidate.
"""

from __future__ import annotations

import math

import numpy as np

from ..base import FORBIDDEN
from .candidates import Candidates, Floats, Fresh, Tokens

STRIDE = 64
"""Scores per group when looking for a lower bound of the k-th largest."""
FAR = -1e20
"""A mean below it has -inf or `FORBIDDEN` in it."""
FEW = 256
"""How many of the best top-p sorts at first."""


def best_places(scores: Floats, k: int) -> Tokens:
    """Return the places of the k largest scores, best first, 0 < k; of equal ones the lower places.

    The scores are split into groups; the k-th largest group maximum bounds the k-th largest score from below, so only
    a few are ever sorted.
    """
    groups = len(scores) // STRIDE
    bound = -np.inf
    if groups > k:
        peaks = scores[: groups * STRIDE].reshape(STRIDE, groups).max(axis=0)
        bound = np.partition(peaks, groups - k)[groups - k]
    few = np.flatnonzero(scores >= bound) if bound > -np.inf else np.arange(len(scores), dtype=np.intp)
    return few[np.argsort(-scores[few], kind="stable")[:k]]


def largest(values: Floats, k: int) -> Tokens:
    """Return the places of the k largest values in rising order, 0 < k; of equal ones the lower places.

    For large k: it sorts values, which is much faster than sorting places.
    """
    bound = np.partition(values, len(values) - k)[len(values) - k]
    equal = np.flatnonzero(values == bound)
    above = np.flatnonzero(values > bound)
    return np.sort(np.concatenate((above, equal[: k - len(above)])))


def top_n_sigma(c: Candidates, n: float) -> Candidates:
    """Mask scores more than n standard deviations below the best (Tang et al., "Top-nσ", 2024); 0 is off."""
    if n <= 0.0 or len(c.tokens) <= 1:
        return c
    finite, mean = c.scores, c.scores.mean()
    if mean < FAR:  # masked or forbidden ones say nothing about the spread of the others
        finite = c.scores[c.scores > FORBIDDEN / 2]
        mean = finite.mean()
    aside = finite - mean
    with np.errstate(over="ignore"):  # a huge penalty makes the spread infinite, and then nothing is dropped
        bound = finite.max() - np.float32(n * math.sqrt(float(np.dot(aside, aside)) / len(aside)))
    places = np.flatnonzero(c.scores >= bound)
    scores = np.full(len(c.scores), -np.inf, dtype=np.float32)
    scores[places] = c.scores[places]
    return Fresh(c.tokens, scores)


def top_k(c: Candidates, k: int) -> Candidates:
    """Keep the k best; 0 is off."""
    if k <= 0 or k >= len(c.tokens):
        return c
    return c.keep(np.sort(best_places(c.scores, k)))


def top_p(c: Candidates, p: float, min_keep: int) -> Candidates:
    """Keep the smallest set of best candidates whose probability reaches p; 1 is off.

    Nucleus sampling (Holtzman et al., "The curious case of neural text degeneration", 2020).
    """
    if p >= 1.0:
        return c
    odds = c.odds()
    wanted = p * float(odds.sum(dtype=np.float64))
    count = min(max(FEW, min_keep), len(odds))
    order = best_places(odds, count)
    mass = np.cumsum(odds[order].astype(np.float64))
    few = mass[-1] >= wanted or count == len(odds)
    if not few:
        mass = np.cumsum(np.sort(odds)[::-1].astype(np.float64))
    kept = min(max(int(np.searchsorted(mass, wanted, side="left")) + 1, min_keep), len(odds))
    return c.keep(np.sort(order[:kept]) if few else largest(odds, kept))


def min_p(c: Candidates, p: float, min_keep: int) -> Candidates:
    """Drop candidates below p times the best one's probability (Nguyen et al., "Min-p", 2024); 0 is off."""
    if p <= 0.0:
        return c
    places = np.flatnonzero(c.scores >= c.scores.max() + np.float32(math.log(p)))
    if len(places) < min(min_keep, len(c.tokens)):
        places = np.sort(best_places(c.scores, min_keep))
    return c.keep(places)


def typical(c: Candidates, p: float, min_keep: int) -> Candidates:
    """Keep those whose surprise is nearest the entropy, up to mass p; 1 is off.

    Meister et al., "Locally typical sampling", 2023.
    """
    if p >= 1.0:
        return c
    odds = c.probabilities()
    possible = np.flatnonzero(odds)
    kept = _most_typical(odds[possible], p, min_keep)
    if len(kept) < len(possible) or len(possible) == len(odds):
        return c.keep(np.sort(possible[kept]))
    return c.keep(np.sort(_most_typical(odds, p, min_keep)))


def _most_typical(odds: Floats, p: float, min_keep: int) -> Tokens:
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(odds)
        entropy = np.nansum(odds * surprise, dtype=np.float64)
        order = np.argsort(np.abs(surprise - np.float32(entropy)), kind="stable")
    mass = np.cumsum(odds[order], dtype=np.float64)
    return order[: max(int(np.searchsorted(mass, p, side="right")) + 1, min_keep)]


def xtc(c: Candidates, threshold: float, min_keep: int) -> Candidates:
    """Drop all but the least likely of the candidates that reach the threshold (p-e-w, text-generation-webui #6335).

    The coin has been thrown already. Nothing happens when fewer than two reach it.
    """
    if threshold > 0.5 or len(c.tokens) < 2:
        return c
    odds = c.probabilities()
    above = np.flatnonzero(odds >= np.float32(threshold))
    dropped = max(len(above) - 1, 0)
    if not dropped or len(c.tokens) - dropped < min_keep:
        return c
    gone = above[np.argsort(-odds[above], kind="stable")[:dropped]]
    return c.keep(np.setdiff1d(np.arange(len(c.tokens)), gone, assume_unique=True))
