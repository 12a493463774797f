"""The one sampler chain: from a row of scores to a token, in numpy.

Knows nothing of models or turns. Order: penalties, top-k, top-p, min-p, temperature, draw. Formulas are those of
llama.cpp's samplers of the same names; the draw differs on purpose. Its random number depends only on (seed, row,
position) and it is an inverse CDF over candidates in token-id order, so nothing that merely reorders or drops
candidates shifts the stream.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .base import Pick, SamplerSettings
from .errors import BadScores, BadValue

Floats: TypeAlias = npt.NDArray[np.float32]
Tokens: TypeAlias = npt.NDArray[np.intp]
Sampler: TypeAlias = Callable[[Floats, Sequence[int]], Pick]
"""(scores of one position, shape (vocabulary,); the tokens before it) -> the chosen token."""

ORDER = ("penalties", "top_k", "top_p", "min_p", "temperature", "draw")
STRIDE = 64
"""Scores per group when looking for a lower bound of the k-th largest."""
SPAN = 256
"""Candidates per group when the running sum is searched."""
MOST = float(np.finfo(np.float32).max)
COLD = 1e-3
"""Temperatures below it divide the distances to the best score, which cannot overflow upwards."""
COLDEST = 1e-30
"""Lower ones act like this one: below it a float32 becomes zero."""
DEPTH = 12.0
"""Nucleus candidates are first looked for among scores at most this far below the best."""


def uniform(seed: int, row: int, position: int) -> float:
    """Return the number in [0, 1) that belongs to (seed, row, position).

    Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) as numpy ships it, keyed by seed
    and row, counting positions.
    """
    bits = np.random.Philox(key=np.array([seed, row], dtype=np.uint64), counter=position).random_raw()
    return (int(bits) >> 11) * 2.0**-53


def check(settings: SamplerSettings) -> None:
    """Raise BadValue for settings outside their range; NaN is outside every range."""
    ranges: tuple[tuple[str, float, float], ...] = (
        ("temperature", 0.0, 100.0),
        ("top_k", 0, 2**31),
        ("top_p", 0.0, 1.0),
        ("min_p", 0.0, 1.0),
        ("repeat_penalty", 0.01, 100.0),
        ("frequency_penalty", -100.0, 100.0),
        ("presence_penalty", -100.0, 100.0),
        ("penalty_window", -1, 2**31),
        ("seed", 0, 2**64 - 1),
        ("row", 0, 2**32),
    )
    for name, low, high in ranges:
        value = getattr(settings, name)
        if not low <= value <= high:
            raise BadValue(f"{name} = {value} is out of range.", "", f"Use a value from {low:g} to {high:g}.")


def chain(settings: SamplerSettings) -> Sampler:
    """Build the sampler of one row. Raises BadValue for settings outside their range."""
    check(settings)

    def sample(scores: Floats, history: Sequence[int]) -> Pick:
        tokens, kept = candidates(scores, history, settings)
        if len(tokens) == 1:
            return Pick(int(tokens[0]), 0.0)
        best = kept.max()
        chosen, total = draw(np.exp(kept - best), uniform(settings.seed, settings.row, len(history)))
        return Pick(int(tokens[chosen]), float(kept[chosen] - best) - math.log(total))

    return sample


def candidates(scores: Floats, history: Sequence[int], settings: SamplerSettings) -> tuple[Tokens, Floats]:
    """Return what the chain leaves: tokens in id order and their final scores, both shape (candidates,).

    Raises BadScores when a score is NaN or none is finite.
    """
    scores = penalised(scores, history, settings)
    best = float(scores.max())
    if not math.isfinite(best):
        raise BadScores(
            "The model's scores cannot be sampled.",
            "They hold NaN or infinity, or no token is possible.",
            "Try another quantisation of the model, or the exact profile.",
        )
    if settings.temperature <= 0.0:
        return np.array([scores.argmax()], dtype=np.intp), np.zeros(1, dtype=np.float32)
    floor = best + math.log(settings.min_p) if settings.min_p > 0.0 else -math.inf
    if 0 < settings.top_k < len(scores):
        tokens = top_k(scores, settings.top_k)
    else:
        tokens = np.flatnonzero(scores >= (floor if settings.top_p >= 1.0 else -MOST))
    kept = scores[tokens]
    if settings.top_p < 1.0:
        keep = top_p(kept, settings.top_p)
        tokens, kept = tokens[keep], kept[keep]
    if settings.min_p > 0.0:
        keep = np.flatnonzero(kept >= floor)
        tokens, kept = tokens[keep], kept[keep]
    if settings.temperature < COLD:
        with np.errstate(over="ignore"):  # to -inf, which is what such a temperature means
            return tokens, (kept - np.float32(best)) / np.float32(max(settings.temperature, COLDEST))
    return tokens, kept / np.float32(settings.temperature)


def penalised(scores: Floats, history: Sequence[int], settings: SamplerSettings) -> Floats:
    """Return the scores with repeat, frequency and presence penalties on tokens of the window.

    Repeat divides positive scores and multiplies others (Keskar et al., "CTRL", 2019, with llama.cpp's handling of the
    sign); frequency takes its value per occurrence, presence once.
    """
    s = settings
    if s.penalty_window == 0 or (s.repeat_penalty == 1.0 and not s.frequency_penalty and not s.presence_penalty):
        return scores
    start = 0 if s.penalty_window < 0 else max(0, len(history) - s.penalty_window)
    counts = Counter(islice(history, start, None))
    tokens = np.fromiter(counts.keys(), dtype=np.intp, count=len(counts))
    times = np.fromiter(counts.values(), dtype=np.float32, count=len(counts))
    inside = tokens < len(scores)
    tokens, times = tokens[inside], times[inside]
    hit = scores[tokens]
    hit = np.where(hit <= 0, hit * np.float32(s.repeat_penalty), hit / np.float32(s.repeat_penalty))
    hit -= times * np.float32(s.frequency_penalty) + np.float32(s.presence_penalty)
    changed = scores.copy()
    changed[tokens] = hit
    return changed


def top_k(scores: Floats, k: int) -> Tokens:
    """Return the ids of the k largest scores in id order, 0 < k < len(scores); of equal ones the lower ids.

    The scores are split into groups; the k-th largest group maximum bounds the k-th largest score from below, so only
    a few candidates are ever sorted.
    """
    groups = len(scores) // STRIDE
    few = np.arange(len(scores), dtype=np.intp)
    if groups > k:
        peaks = scores[: groups * STRIDE].reshape(STRIDE, groups).max(axis=0)
        bound = np.partition(peaks, groups - k)[groups - k]
        few = np.flatnonzero(scores >= bound)
    best = few[np.argsort(-scores[few], kind="stable")[:k]]
    best = best[scores[best] >= -MOST]
    best.sort()
    return best


def top_p(kept: Floats, p: float) -> Tokens:
    """Return the indices, in order, of the smallest set of best candidates whose probability reaches p.

    Nucleus sampling (Holtzman et al., "The curious case of neural text degeneration", 2020). At least one stays. Only
    candidates near the best are sorted, unless their mass falls short of p.
    """
    odds = np.exp(kept - kept.max())
    wanted = p * float(odds.sum(dtype=np.float64))
    near = np.flatnonzero(odds >= math.exp(-DEPTH))
    if len(near) < len(odds) and float(odds[near].sum(dtype=np.float64)) < wanted:
        near = np.arange(len(odds))
    order = near[np.argsort(-odds[near], kind="stable")]
    mass = np.cumsum(odds[order], dtype=np.float64)
    keep = order[: int(np.searchsorted(mass, wanted, side="left")) + 1]
    keep.sort()
    return keep


def draw(odds: Floats, number: float) -> tuple[int, float]:
    """Return the index at which the running sum of odds passes `number` times their sum, and that sum.

    Sums are taken per group first: one pass that vectorises, then two short searches.
    """
    groups = -(-len(odds) // SPAN)
    padded = np.zeros(groups * SPAN, dtype=np.float32)
    padded[: len(odds)] = odds
    heaps = padded.reshape(groups, SPAN)
    mass = np.cumsum(heaps.sum(axis=1, dtype=np.float64))
    total = float(mass[-1])
    wanted = number * total
    group = min(int(np.searchsorted(mass, wanted, side="right")), groups - 1)
    before = float(mass[group - 1]) if group else 0.0
    inner = np.cumsum(heaps[group], dtype=np.float64)
    chosen = group * SPAN + int(np.searchsorted(inner, wanted - before, side="right"))
    chosen = min(chosen, len(odds) - 1)
    while odds[chosen] == 0.0:  # rounding at a border must not pick what cannot be
        chosen -= 1
    return chosen, total
