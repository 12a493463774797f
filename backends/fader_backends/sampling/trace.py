"""`Trace`: follows the likeliest tokens of one position through a chain, to say afterwards who removed which.

Knows candidates and the names of samplers, not what samplers do. One pass over the scores gives the log-probabilities
and the entropy before the chain; what the chain works out anyway (maxima of groups, the sum of the draw) is taken from it.
"""

from __future__ import annotations

import math

import numpy as np

from ..base import FORBIDDEN
from ..odds import REMOVERS, Odds, packed
from .candidates import Candidates, Floats, Ranked
from .cuts import best_places

FLOOR = np.float32(-200.0)
"""Distances to the best score below it count as it: their share is zero in float32."""
FEW = 256
"""Up to so many candidates plain Python is quicker than numpy."""
NUMBER = {name: place for place, name in enumerate(REMOVERS)}


class Room:
    """Two arrays of a vocabulary's size, used anew for each position: making them costs as much as filling them."""

    def __init__(self, size: int) -> None:
        self.aside: Floats = np.empty(size, dtype=np.float32)
        self.odds: Floats = np.empty(size, dtype=np.float32)


class Trace:
    """One position. `every`: all candidates; `best`: their largest score; `count`: how many tokens to follow."""

    def __init__(self, every: Candidates, best: float, count: int, room: Room) -> None:
        self.row = every.scores
        self.best = best
        self.count = min(count, len(self.row))
        likeliest = best_places(self.row, self.count, every.peaks)
        self.removed = dict.fromkeys(likeliest[self.row[likeliest] > -np.inf].tolist(), 0)
        """Token -> place in REMOVERS, likeliest first."""
        aside, odds = room.aside, room.odds
        np.subtract(self.row, np.float32(best), out=aside)
        np.maximum(aside, FLOOR, out=aside)
        np.exp(aside, out=odds)
        total = float(odds.sum())  # numpy sums pairwise: an error of about 1e-6
        np.multiply(aside, odds, out=aside)
        self.log_total = math.log(total)
        self.entropy = max(self.log_total - float(aside.sum()) / total, 0.0)

    def follow(self, name: str, left: Candidates | Ranked) -> None:
        """Note whom the sampler `name` removed, `left` being what it left."""
        watched = [token for token, by in self.removed.items() if not by]
        there = _possible(left, watched)
        for token in watched:
            if token not in there:
                self.removed[token] = NUMBER[name]

    def odds(self, chosen: int, left: Candidates, total: float | None = None) -> Odds:
        """Return what there was to choose from. `total`: sum of `left.odds()`, where it is known."""
        if total is None:
            total = float(left.odds().sum(dtype=np.float64))
        removed = self.removed
        likeliest = best_places(left.scores, min(self.count, len(left.tokens)))
        likeliest = likeliest[left.scores[likeliest] > FORBIDDEN / 2]
        for token in (*left.tokens[likeliest].tolist(), chosen):
            removed.setdefault(token, 0)
        shift = float(left.scores.max()) + math.log(total)
        raw = self.row[list(removed)].tolist()
        before = {token: score - self.best - self.log_total for token, score in zip(removed, raw, strict=True)}
        after = _possible(left, list(removed))
        tokens = sorted(removed, key=before.__getitem__, reverse=True)
        return Odds(
            logprob=before[chosen],
            entropy=self.entropy,
            left=int(np.count_nonzero(left.scores > FORBIDDEN / 2)),
            tokens=packed("I", tokens),
            before=packed("f", map(before.__getitem__, tokens)),
            after=packed("f", [after[token] - shift if token in after else math.nan for token in tokens]),
            removed=bytes(map(removed.__getitem__, tokens)),
        )


def _possible(left: Candidates | Ranked, tokens: list[int]) -> dict[int, float]:
    """Return token -> score of those among `tokens` that are left and possible."""
    if isinstance(left, Ranked):
        found = dict(zip(left.tokens, left.scores, strict=True))
    elif len(left.tokens) <= FEW:
        found = dict(zip(left.tokens.tolist(), left.scores.tolist(), strict=True))
    else:
        wanted = np.array(tokens, dtype=np.intp)
        places, there = left.places(wanted)
        found = dict(zip(wanted[there].tolist(), left.scores[places].tolist(), strict=True))
    return {token: found[token] for token in tokens if found.get(token, -math.inf) > FORBIDDEN / 2}
