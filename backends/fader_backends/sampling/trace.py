"""`Trace`: follows the likeliest tokens of one position through a chain, to say afterwards who removed which.

Knows candidates and the names of samplers, not what samplers do. One pass over the scores gives the log-probabilities
and the entropy before the chain; of what the chain leaves it uses the sum that the draw needs anyway.
"""

from __future__ import annotations

import math

import numpy as np

from ..base import FORBIDDEN
from ..odds import REMOVERS, Odds
from .candidates import Candidates, Floats, Tokens
from .cuts import best_places

FLOOR = np.float32(-200.0)
"""Distances to the best score below it count as it: their share is zero in float32."""
NUMBER = {name: place for place, name in enumerate(REMOVERS)}


class Trace:
    """One position. `row`: raw scores, shape (vocabulary,); `best`: its largest; `count`: how many tokens to follow."""

    def __init__(self, row: Floats, best: float, count: int) -> None:
        self.row = row
        self.best = best
        self.count = count
        aside = np.maximum(row - np.float32(best), FLOOR)
        odds = np.exp(aside)
        total = float(odds.sum(dtype=np.float64))
        aside *= odds
        self.log_total = math.log(total)
        self.entropy = max(self.log_total - float(aside.sum(dtype=np.float64)) / total, 0.0)
        likeliest = best_places(row, min(count, len(row)))
        self.tokens = likeliest[row[likeliest] > -np.inf]
        self.removed = np.zeros(len(self.tokens), dtype=np.uint8)

    def follow(self, name: str, left: Candidates) -> None:
        """Note whom the sampler `name` removed, `left` being what it left."""
        still = np.zeros(len(self.tokens), dtype=np.bool_)
        places, there = left.places(self.tokens)
        still[there] = left.scores[places] > FORBIDDEN / 2
        self.removed[(self.removed == 0) & ~still] = NUMBER[name]

    def odds(self, chosen: int, left: Candidates, total: float | None = None) -> Odds:
        """Return what there was to choose from. `total`: sum of `left.odds()`, where it is known."""
        if total is None:
            total = float(left.odds().sum(dtype=np.float64))
        possible = left.scores > FORBIDDEN / 2
        likeliest = best_places(left.scores, min(self.count, len(left.tokens)))
        more = [*left.tokens[likeliest[possible[likeliest]]].tolist(), chosen]
        tokens = np.array(list(dict.fromkeys([*self.tokens.tolist(), *more])), dtype=np.intp)
        removed = np.concatenate((self.removed, np.zeros(len(tokens) - len(self.tokens), dtype=np.uint8)))
        before = self._before(tokens)
        order = np.argsort(-before, kind="stable")
        tokens, removed = tokens[order], removed[order]
        after = np.full(len(tokens), np.nan)
        places, there = left.places(tokens)
        after[there] = left.scores[places].astype(np.float64) - float(left.scores.max()) - math.log(total)
        after[removed != 0] = np.nan
        return Odds(
            logprob=float(self._before(np.array([chosen]))[0]),
            entropy=self.entropy,
            left=int(np.count_nonzero(possible)),
            tokens=tokens.astype("<u4").tobytes(),
            before=before[order].astype("<f4").tobytes(),
            after=after.astype("<f4").tobytes(),
            removed=removed.tobytes(),
        )

    def _before(self, tokens: Tokens) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        raw: np.ndarray[tuple[int], np.dtype[np.float64]] = self.row[tokens].astype(np.float64)
        return raw - self.best - self.log_total
