"""All samplers in the order that is asked for. Knows the vocabulary only as pieces and an encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ..base import FORBIDDEN, Best, Pick, SamplerSettings
from ..constraint import Constraint
from ..errors import BadScores, BadValue
from . import cuts, scores
from .candidates import Candidates, Floats, Ranked, everything
from .limits import check
from .numbers import XTC, uniform
from .targets import AdaptiveP, Mirostat
from .trace import Room, Trace

Sampler: TypeAlias = Callable[[Floats | Best, Sequence[int]], Pick]
"""(scores of one position, shape (vocabulary,), or the best of them; the tokens before it) -> the chosen token."""


Some = TypeVar("Some", bound=Candidates | Ranked)


class Vocabulary(Protocol):
    """What the chain must know of a model's tokens; every `Backend` has it."""

    def piece(self, token: int) -> bytes:
        """Return the bytes a token stands for."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of plain text."""
        ...


class Chain:
    """The sampler of one reply. Call it with scores and history; it keeps what mirostat and adaptive-p have learnt."""

    def __init__(
        self,
        settings: SamplerSettings,
        vocabulary: Vocabulary | None = None,
        size: int = 0,
        constraint: Constraint | None = None,
        watch: int = 0,
    ) -> None:
        check(settings)
        self.watch = watch
        self.trace: Trace | None = None
        self.room: Room | None = None
        self.constraint = constraint
        self.vocabulary = vocabulary
        self.size = size
        self.settings = settings
        self._acting = acting(settings)
        self.breakers = self._breakers()
        self.target = self._target()

    def adjust(self, settings: SamplerSettings) -> None:
        """Use other settings from the next token on. What was learnt stays where its own settings are the same."""
        check(settings)
        former, self.settings = self.settings, settings
        self._acting = acting(settings)
        if former.dry_breakers != settings.dry_breakers or bool(former.dry_multiplier) != bool(settings.dry_multiplier):
            self.breakers = self._breakers()
        if _steering(former) != _steering(settings):
            self.target = self._target()

    @property
    def enough(self) -> int:
        """How many of a row's best scores decide the choice, whatever the others are; 0: any may matter.

        So it is where the first sampler that acts keeps a fixed number and nothing else looks at the row.
        """
        if not self._acting or self.settings.logit_bias or self.constraint is not None or self.watch:
            return 0
        s, first = self.settings, self._acting[0]
        if first == "top_k" and s.top_k <= cuts.FEW:
            return s.top_k
        return 1 if first == "temperature" and s.temperature <= 0.0 and not s.dynatemp_range else 0

    def __call__(self, row: Floats | Best, history: Sequence[int]) -> Pick:
        """Choose one token. `row`: all scores, or the best `enough`. Raises BadScores when one is NaN or none is possible.

        With a constraint the choice is tested; only when it fails, it is made again, with the same random numbers, among
        what is allowed (the order of llama.cpp's `common_sampler_sample`).
        """
        if self.constraint is None:
            return self._choose(self._left(row, history), history)
        learnt = copy(self.target)
        pick = self._choose(self._left(row, history), history)
        if not self.constraint.allows(pick.token):
            self.target = learnt
            pick = self._choose(self._left(row, history, self.constraint), history)
        self.constraint.accept(pick.token)
        return pick

    def _choose(self, left: Candidates | Ranked, history: Sequence[int]) -> Pick:
        s = self.settings
        if self.target is not None and s.temperature > 0.0:
            return self._steered(self.target, left.by_id(), uniform(s.seed, s.row, len(history)))
        if len(left.tokens) == 1:
            return self._pick(int(left.tokens[0]), 0.0, left)
        token, odds, total = left.draw(uniform(s.seed, s.row, len(history)))
        return self._pick(token, math.log(odds / total), left, total)

    def _steered(self, target: Mirostat | AdaptiveP, left: Candidates, number: float) -> Pick:
        if isinstance(target, Mirostat):
            left = self._followed("mirostat", left, target.cut(left))
        seen = target.cut(left) if self.trace is not None and isinstance(target, AdaptiveP) else left
        place, p = target.choose(left, number)
        return self._pick(int(left.tokens[place]), math.log(p), seen)

    def _pick(self, token: int, logprob: float, left: Candidates | Ranked, total: float | None = None) -> Pick:
        return Pick(token, logprob, None if self.trace is None else self.trace.odds(token, left.by_id(), total))

    def _traced(self, every: Candidates, best: float) -> Trace:
        if self.room is None or len(self.room.odds) != len(every.scores):
            self.room = Room(len(every.scores))
        return Trace(every, best, self.watch, self.room)

    def _followed(self, name: str, before: Some, left: Some) -> Some:
        if self.trace is not None and left is not before:
            self.trace.follow(name, left)
        return left

    def candidates(self, row: Floats, history: Sequence[int], constraint: Constraint | None = None) -> Candidates:
        """Return what the chain leaves before mirostat, adaptive-p or the draw; only what `constraint` allows, if given.

        With mirostat only logit bias and temperature act, as in llama.cpp.
        """
        return self._left(row, history, constraint).by_id()

    def _left(
        self, row: Floats | Best, history: Sequence[int], constraint: Constraint | None = None
    ) -> Candidates | Ranked:
        some: Candidates | Ranked
        if isinstance(row, Best):
            _check_finite(row.scores[0])
            some = Ranked(row.tokens, row.scores)
        else:
            some = self._everything(row, len(history), constraint)
        for name in self._acting:
            some = self._followed(name, some, self._apply(name, some, history))
        return some

    def _everything(self, row: Floats, length: int, constraint: Constraint | None) -> Candidates:
        """Return what logit bias and grammar leave of the whole row."""
        s = self.settings
        left = everything(row)
        best = float(left.peaks[-1]) if left.peaks is not None else math.nan
        _check_finite(best)
        self.trace = self._traced(left, best) if self.watch else None
        if s.logit_bias:
            left = self._followed("logit_bias", left, scores.biased(left, self._bias(len(row))))
        if s.logit_bias and float(left.scores.max()) <= FORBIDDEN / 2:
            raise BadScores("No token is left to choose.", "The logit bias forbids all of them.", "Loosen it.")
        if constraint is not None:
            before, left = left, left.keep(np.flatnonzero(constraint.mask(row) > -np.inf))
            if not len(left.tokens) or float(left.scores.max()) <= FORBIDDEN / 2:
                raise BadScores(
                    f"The grammar admits no token after {length:,} tokens.",
                    "Nothing in the vocabulary goes on from here, or the logit bias forbids what would.",
                    "Loosen the grammar, the JSON schema or the logit bias.",
                )
            self._followed("grammar", before, left)
        return left

    def _apply(self, name: str, c: Candidates | Ranked, history: Sequence[int]) -> Candidates | Ranked:
        s = self.settings
        match name:
            case "temperature":
                return scores.tempered(c, s)
            case "top_k":
                return cuts.top_k(c, s.top_k)
            case "top_p":
                return cuts.top_p(c, s.top_p, s.min_keep)
            case "min_p":
                return cuts.min_p(c, s.min_p, s.min_keep)
            case "penalties":
                return scores.penalised(c, history, s)
            case "dry":
                return scores.dry(c, history, s, self.breakers)
            case "top_n_sigma":
                return cuts.top_n_sigma(c, s.top_n_sigma)
            case "typical_p":
                return cuts.typical(c, s.typical_p, s.min_keep)
            case _:
                hit = uniform(s.seed, s.row, len(history), XTC) <= s.xtc_probability
                return cuts.xtc(c, s.xtc_threshold, s.min_keep) if hit else c

    def _bias(self, size: int) -> dict[int, float]:
        bias = self.settings.logit_bias
        unknown = [token for token in bias if token >= size]
        if unknown:
            raise BadValue(
                f"logit_bias names token {unknown[0]}, but the vocabulary ends at {size - 1}.", "", "Remove it."
            )
        return bias

    def _target(self) -> Mirostat | AdaptiveP | None:
        s = self.settings
        if s.mirostat:
            return Mirostat(s.mirostat, s.mirostat_tau, s.mirostat_eta, self.size)
        if s.adaptive_target >= 0.0:
            return AdaptiveP(s.adaptive_target, s.adaptive_decay)
        return None

    def _breakers(self) -> scores.Breakers:
        if not self.settings.dry_multiplier or self.vocabulary is None:
            return {}
        known = _known.setdefault(self.vocabulary, {})
        texts = self.settings.dry_breakers
        if texts not in known:
            known[texts] = breakers_of(self.vocabulary, self.size, texts)
        return known[texts]


_known: WeakKeyDictionary[Vocabulary, dict[tuple[str, ...], scores.Breakers]] = WeakKeyDictionary()
"""Breakers are looked for in the whole vocabulary, so once per model and not once per turn."""


def _check_finite(best: float) -> None:
    if not math.isfinite(best):
        raise BadScores(
            "The model's scores cannot be sampled.",
            "They hold NaN or infinity, or no token is possible.",
            "Try another quantisation of the model, or the exact profile.",
        )


def acting(s: SamplerSettings) -> tuple[str, ...]:
    """Return the samplers, in their order, that are not at their off values; of a greedy chain only those that matter."""
    off = {
        "penalties": s.penalty_window == 0 or (s.repeat_penalty, s.frequency_penalty, s.presence_penalty) == (1, 0, 0),
        "dry": not s.dry_multiplier or s.dry_window == 0,
        "top_n_sigma": s.top_n_sigma <= 0.0,
        "top_k": s.top_k <= 0,
        "typical_p": s.typical_p >= 1.0,
        "top_p": s.top_p >= 1.0,
        "min_p": s.min_p <= 0.0,
        "xtc": s.xtc_probability <= 0.0,
    }
    order = ("temperature",) if s.mirostat else s.order
    names = tuple(name for name in order if not off.get(name))
    greedy = s.temperature <= 0.0 and not s.dynatemp_range and "temperature" in order
    if greedy and not {"typical_p", "xtc"} & set(names):  # the others never drop the best
        return tuple(name for name in names if name in ("penalties", "dry", "temperature"))
    return names


def _steering(s: SamplerSettings) -> tuple[float, ...]:
    return (s.mirostat, s.mirostat_tau, s.mirostat_eta, s.adaptive_target, s.adaptive_decay)


def chain(
    settings: SamplerSettings,
    vocabulary: Vocabulary | None = None,
    size: int = 0,
    constraint: Constraint | None = None,
    watch: int = 0,
) -> Chain:
    """Build the sampler of one reply. `size`: tokens in the vocabulary. Raises BadValue, UnknownName.

    It moves `constraint` forward with each token it chooses; closing it is the caller's. `watch`: how many of the
    likeliest tokens each `Pick.odds` tells of; 0 for none.
    """
    return Chain(settings, vocabulary, size, constraint, watch)


def breakers_of(vocabulary: Vocabulary, size: int, texts: Sequence[str]) -> scores.Breakers:
    """Return the tokens that hold a breaker's text, or begin it, with the tokens that must follow.

    As koboldcpp #982: a token that contains the text is one by itself; one that ends in a beginning of it needs the
    tokens of the rest.
    """
    pieces = [vocabulary.piece(token) for token in range(size)]
    found: dict[int, set[tuple[int, ...]]] = {}
    for text in (text.encode() for text in texts if text):
        for token, piece in enumerate(pieces):
            if text in piece:
                found.setdefault(token, set()).add(())
            elif len(text) > 1:
                for length in range(1, min(len(text) - 1, len(piece)) + 1):
                    if piece.endswith(text[:length]):
                        rest = tuple(vocabulary.encode(text[length:].decode(errors="replace")))
                        found.setdefault(token, set()).add(rest)
    return {token: sorted(rests) for token, rests in found.items()}


def probabilities(left: Candidates) -> dict[int, float]:
    """Return token -> probability of what a chain left, without the impossible ones."""
    p = left.probabilities()
    return {int(token): float(one) for token, one in zip(left.tokens, p, strict=True) if one > 0}
