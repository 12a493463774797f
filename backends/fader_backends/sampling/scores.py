"""Samplers that change scores and drop nothing: logit bias, penalties, DRY, temperature.

Know the tokens before the position, not how the rest of the chain goes on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ..base import SamplerSettings
from .candidates import Candidates, Fresh, Ranked

COLD = 1e-3
"""Temperatures below it divide the distances to the best score, which cannot overflow upwards."""
COLDEST = 1e-30
"""Lower ones act like this one: below it a float32 becomes zero."""
LARGEST_EXPONENT = 88.7228391
"""Natural log of the largest float32."""
ROUNDS = 24
"""Lengths up to which `repeats` compares all copies at once."""

Breakers: TypeAlias = Mapping[int, Sequence[tuple[int, ...]]]
"""A token that begins a DRY sequence breaker -> what must follow it; () when it is one by itself."""


def biased(c: Candidates, bias: Mapping[int, float]) -> Candidates:
    """Add a bias to the scores of single tokens; -inf forbids one."""
    return _changed(c, {token: np.float32(value) for token, value in bias.items()}) if bias else c


def _changed(c: Candidates, added: Mapping[int, np.float32]) -> Candidates:
    places, there = c.places(np.fromiter(added, dtype=np.intp, count=len(added)))
    scores = c.changeable()
    scores[places] += np.fromiter(added.values(), dtype=np.float32, count=len(added))[there]
    return Fresh(c.tokens, scores)


def window(history: Sequence[int], size: int) -> Sequence[int]:
    """Return the last `size` tokens; all for -1."""
    return list(history[0 if size < 0 else max(0, len(history) - size) :])


def penalised(c: Candidates | Ranked, history: Sequence[int], s: SamplerSettings) -> Candidates | Ranked:
    """Apply repeat, frequency and presence penalties to tokens of the window.

    Repeat divides positive scores and multiplies others (Keskar et al., "CTRL", 2019, with llama.cpp's handling of the
    sign); frequency takes its value per occurrence, presence once.
    """
    c = c.by_id()
    counts = Counter(window(history, s.penalty_window))
    tokens = np.fromiter(counts.keys(), dtype=np.intp, count=len(counts))
    times = np.fromiter(counts.values(), dtype=np.float32, count=len(counts))
    places, there = c.places(tokens)
    times = times[there]
    hit = c.scores[places]
    hit = np.where(hit <= 0, hit * np.float32(s.repeat_penalty), hit / np.float32(s.repeat_penalty))
    hit -= times * np.float32(s.frequency_penalty) + np.float32(s.presence_penalty)
    scores = c.changeable()
    scores[places] = hit
    return Fresh(c.tokens, scores)


def dry(c: Candidates | Ranked, history: Sequence[int], s: SamplerSettings, breakers: Breakers) -> Candidates | Ranked:
    """Take multiplier * base ** (length - allowed) from each token that would prolong a repetition of that length.

    "Don't repeat yourself" by p-e-w (text-generation-webui #5677), with the sequence breakers of pi6am (koboldcpp #982):
    a repetition does not reach over a breaker, and a token that is one by itself is never penalised.
    """
    tail = window(history, s.dry_window)
    if len(tail) <= s.dry_allowed_length:
        return c
    limit = _unbroken(tail, breakers)
    if limit < s.dry_allowed_length:
        return c
    highest = int(LARGEST_EXPONENT / math.log(s.dry_base)) if s.dry_base > 1.000001 else 0
    lengths = repeats(tail, min(limit, s.dry_allowed_length + highest) if highest else limit)
    added = {}
    for token, length in lengths.items():
        if length >= s.dry_allowed_length and () not in breakers.get(token, ()):
            exponent = length - s.dry_allowed_length
            exponent = min(exponent, highest) if highest else exponent
            added[token] = np.float32(-s.dry_multiplier * s.dry_base**exponent)
    return _changed(c.by_id(), added) if added else c


def _unbroken(tail: Sequence[int], breakers: Breakers) -> int:
    """Return how many of the last tokens lie behind the last sequence breaker."""
    if not breakers:
        return len(tail)
    for back, token in enumerate(reversed(tail)):
        if token not in breakers:
            continue
        after = len(tail) - back
        fitting = [len(rest) for rest in breakers[token] if tuple(tail[after : after + len(rest)]) == rest]
        if fitting:
            return back - max(fitting)
    return len(tail)


def repeats(tail: Sequence[int], limit: int) -> dict[int, int]:
    """Return, for each token that followed an earlier copy of the text's end, the longest such copy (at most `limit`).

    All ends are compared at once, one token further back per round, so the cost grows with the longest copy only; copies
    longer than `ROUNDS` are measured one by one, which costs the same for each.
    """
    text = np.asarray(tail, dtype=np.int64)
    last = len(text) - 1
    ends = np.flatnonzero(text[:last] == text[last])
    longest: dict[int, int] = {}
    length = 1
    while len(ends) and length <= min(limit, ROUNDS):
        for token in text[ends + 1].tolist():
            longest[token] = length
        ends = ends[ends >= length]
        ends = ends[text[ends - length] == text[last - length]]
        length += 1
    if len(ends) and limit > ROUNDS:
        copies = common_ends(tail)
        for end in ends.tolist():
            token = tail[end + 1]
            longest[token] = max(longest.get(token, 0), min(copies[end], limit))
    return longest


def common_ends(text: Sequence[int]) -> list[int]:
    """Return, for each place, how many tokens up to it equal the text's last ones (the Z function, read backwards)."""
    back = text[::-1]
    size = len(back)
    found = [0] * size
    left = right = 0
    for place in range(1, size):
        length = min(right - place, found[place - left]) if place < right else 0
        while place + length < size and back[length] == back[place + length]:
            length += 1
        found[place] = length
        if place + length > right:
            left, right = place, place + length
    return found[::-1]


def tempered(c: Candidates | Ranked, s: SamplerSettings) -> Candidates | Ranked:
    """Divide scores by the temperature; 0 keeps only the best.

    Dynamic temperature (kalomaze, koboldcpp): between temperature - range and temperature + range, by the entropy of
    what is left over its maximum, to the power of the exponent.
    """
    temperature = s.temperature
    if s.dynatemp_range > 0:
        if len(c.tokens) <= 1:
            return c
        share = _entropy(c) / math.log(len(c.tokens))
        low, high = max(0.0, temperature - s.dynatemp_range), temperature + s.dynatemp_range
        temperature = low + (high - low) * max(share, 0.0) ** s.dynatemp_exponent
    if isinstance(c, Ranked):
        if temperature <= 0.0:
            return c.first(1)
        best = c.scores[0] if temperature < COLD else 0.0
        divisor = max(temperature, COLDEST)
        return Ranked(c.tokens, [(score - best) / divisor for score in c.scores])
    if temperature <= 0.0:
        best_place = int(c.scores.argmax())
        return Candidates(c.tokens[best_place : best_place + 1], c.scores[best_place : best_place + 1])
    if temperature < COLD:
        with np.errstate(over="ignore"):  # to -inf, which is what such a temperature means
            return Candidates(c.tokens, (c.scores - c.scores.max()) / np.float32(max(temperature, COLDEST)))
    return Candidates(c.tokens, c.scores / np.float32(temperature))


def _entropy(c: Candidates | Ranked) -> float:
    """Return the entropy of what is left, in nats."""
    if isinstance(c, Ranked):
        odds = c.odds()
        total = sum(odds)
        return -sum(one / total * math.log(one / total) for one in odds if one)
    p = c.probabilities()
    p = p[p > 0]
    return float(-(p * np.log(p)).sum(dtype=np.float64))
