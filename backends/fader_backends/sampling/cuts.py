"""Samplers that drop candidates: top-n-sigma, top-k, typical, top-p, min-p, XTC.

Know only what is left when their turn comes, not which of them are off (`chain.acting`). All keep at least one candidate.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from itertools import accumulate

import numpy as np

from ..base import FORBIDDEN
from .candidates import Candidates, Floats, Fresh, Ranked, Tokens, group_maxima

FAR = -1e20
"""A mean below it has -inf or `FORBIDDEN` in it."""
FEW = 256
"""How many of the best are sorted and then handled one by one."""


def best_places(scores: Floats, k: int, peaks: Floats | None = None) -> Tokens:
    """Return the places of the k largest scores, best first, 0 < k; of equal ones the lower places.

    The k-th largest of the groups' maxima bounds the k-th largest score from below, so only a few are ever sorted.
    """
    peaks = group_maxima(scores) if peaks is None else peaks
    few: Tokens | None = None
    if k < len(peaks) < len(scores):
        bound = peaks[-k]
        few = (scores >= bound).nonzero()[0] if bound > -np.inf else None
    order: Tokens = (-(scores if few is None else scores.take(few))).argsort(kind="stable")[:k]
    return order if few is None else few.take(order)


def largest(values: Floats, k: int) -> Tokens:
    """Return the places of the k largest values in rising order, 0 < k; of equal ones the lower places.

    For large k: it sorts values, which is much faster than sorting places.
    """
    bound = np.partition(values, len(values) - k)[len(values) - k]
    equal = np.flatnonzero(values == bound)
    above = np.flatnonzero(values > bound)
    return np.sort(np.concatenate((above, equal[: k - len(above)])))


def top_n_sigma(c: Candidates | Ranked, n: float) -> Candidates | Ranked:
    """Mask scores more than n standard deviations below the best (Tang et al., "Top-nσ", 2024)."""
    if len(c.tokens) <= 1:
        return c
    c = c.by_id()
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


def ranked(c: Candidates | Ranked, k: int) -> Ranked:
    """Return the k best, or all when there are fewer."""
    if isinstance(c, Ranked):
        return c.first(k)
    places = best_places(c.scores, k, c.peaks)
    return Ranked(c.tokens.take(places).tolist(), c.scores.take(places).tolist())


def top_k(c: Candidates | Ranked, k: int) -> Candidates | Ranked:
    """Keep the k best."""
    if k >= len(c.tokens):
        return c
    return c.keep(largest(c.scores, k)) if isinstance(c, Candidates) and k > FEW else ranked(c, k)


def top_p(c: Candidates | Ranked, p: float, min_keep: int) -> Candidates | Ranked:
    """Keep the smallest set of best candidates whose probability reaches p.

    Nucleus sampling (Holtzman et al., "The curious case of neural text degeneration", 2020).
    """
    if isinstance(c, Ranked):
        mass = list(accumulate(c.odds()))
        return c.first(_enough(mass, p * mass[-1], min_keep))
    best = ranked(c, max(FEW, min_keep))
    mass = list(accumulate(best.odds()))
    odds = c.odds()
    wanted = p * float(odds.sum(dtype=np.float64))
    if mass[-1] >= wanted or len(best.tokens) == len(c.tokens):
        return best.first(_enough(mass, wanted, min_keep))
    every = np.cumsum(np.sort(odds)[::-1].astype(np.float64)).tolist()  # a flat distribution
    return c.keep(largest(odds, _enough(every, wanted, min_keep)))


def _enough(mass: list[float], wanted: float, min_keep: int) -> int:
    """Return how many of the best reach the mass that is wanted."""
    return min(max(bisect_left(mass, wanted) + 1, min_keep), len(mass))


def min_p(c: Candidates | Ranked, p: float, min_keep: int) -> Candidates | Ranked:
    """Drop candidates below p times the best one's probability (Nguyen et al., "Min-p", 2024)."""
    if isinstance(c, Ranked):
        floor = c.scores[0] + math.log(p)
        return c.first(max(sum(score >= floor for score in c.scores), min_keep))
    bound = c.scores.max() + np.float32(math.log(p))
    places = np.flatnonzero(c.scores >= bound)
    if len(places) < min(min_keep, len(c.tokens)):
        return ranked(c, min_keep)
    return c.keep(places)


def typical(c: Candidates | Ranked, p: float, min_keep: int) -> Candidates | Ranked:
    """Keep those whose surprise is nearest the entropy, up to mass p.

    Meister et al., "Locally typical sampling", 2023.
    """
    if isinstance(c, Ranked):
        return _typical_of_few(c, p, min_keep)
    odds = c.probabilities()
    possible = np.flatnonzero(odds)
    kept = _most_typical(odds[possible], p, min_keep)
    if len(kept) < len(possible) or len(possible) == len(odds):
        return c.keep(np.sort(possible[kept]))
    return c.keep(np.sort(_most_typical(odds, p, min_keep)))


def _typical_of_few(c: Ranked, p: float, min_keep: int) -> Ranked:
    odds = c.odds()
    total = sum(odds)
    surprises = [-math.log(one / total) if one else math.inf for one in odds]
    entropy = sum(one * surprise for one, surprise in zip(odds, surprises, strict=True) if one) / total
    order = sorted(range(len(odds)), key=lambda place: (abs(surprises[place] - entropy), c.tokens[place]))
    mass = list(accumulate(odds[place] / total for place in order))
    kept = sorted(order[: max(bisect_right(mass, p) + 1, min_keep)])
    return Ranked([c.tokens[place] for place in kept], [c.scores[place] for place in kept])


def _most_typical(odds: Floats, p: float, min_keep: int) -> Tokens:
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(odds)
        entropy = np.nansum(odds * surprise, dtype=np.float64)
        order = np.argsort(np.abs(surprise - np.float32(entropy)), kind="stable")
    mass = np.cumsum(odds[order], dtype=np.float64)
    return order[: max(int(np.searchsorted(mass, p, side="right")) + 1, min_keep)]


def xtc(c: Candidates | Ranked, threshold: float, min_keep: int) -> Candidates | Ranked:
    """Drop all but the least likely of the candidates that reach the threshold (p-e-w, text-generation-webui #6335).

    The coin has been thrown already. Nothing happens when fewer than two reach it.
    """
    if threshold > 0.5 or len(c.tokens) < 2:
        return c
    if isinstance(c, Ranked):
        shares = c.odds()
        floor = threshold * sum(shares)
        dropped = max(sum(share >= floor for share in shares) - 1, 0)
        return Ranked(c.tokens[dropped:], c.scores[dropped:]) if len(shares) - dropped >= min_keep else c
    odds = c.probabilities()
    above = np.flatnonzero(odds >= np.float32(threshold))
    dropped = max(len(above) - 1, 0)
    if not dropped or len(c.tokens) - dropped < min_keep:
        return c
    gone = above[np.argsort(-odds[above], kind="stable")[:dropped]]
    return c.keep(np.setdiff1d(np.arange(len(c.tokens)), gone, assume_unique=True))
