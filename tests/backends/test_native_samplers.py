"""Law 5: the chain leaves the candidates and probabilities that llama.cpp's own samplers leave, on fixed scores."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from fader_backends.base import BREAKERS, ORDER, ContextSpec, ModelSpec, SamplerSettings
from fader_backends.llamacpp import load
from fader_backends.sampling import Candidates, Chain, Floats
from fader_backends.sampling.numbers import draw
from fader_backends.sampling.targets import AdaptiveP, Mirostat

L = pytest.importorskip("llama_cpp", reason="a dependency of the project; absent only in half an installation")

SIZE = 2000
TRIALS = 400
TOLERANCE = 1e-5


class Array:
    """A llama_token_data_array over all tokens, and native samplers applied to it."""

    def __init__(self, scores: Floats) -> None:
        self.data = (L.llama_token_data * len(scores))()
        for token, score in enumerate(scores):
            self.data[token].id, self.data[token].logit, self.data[token].p = token, float(score), 0.0
        self.array = L.llama_token_data_array(self.data, len(scores), -1, False)

    def apply(self, sampler: Any, history: Sequence[int] = ()) -> None:
        """Tell a sampler the history, apply it, free it."""
        for token in history:
            L.llama_sampler_accept(sampler, token)
        L.llama_sampler_apply(sampler, ctypes.byref(self.array))
        L.llama_sampler_free(sampler)

    def left(self) -> dict[int, float]:
        """Return token -> probability of what is left."""
        entries = [self.array.data[place] for place in range(self.array.size)]
        return shares([entry.id for entry in entries], np.array([entry.logit for entry in entries]))


def shares(tokens: Sequence[int], scores: Any) -> dict[int, float]:
    """Return token -> probability, without masked tokens."""
    wide = np.asarray(scores, dtype=np.float64)
    odds = np.exp(wide - wide.max())
    odds /= odds.sum()
    return {int(t): float(p) for t, p, s in zip(tokens, odds, wide, strict=True) if s > -np.inf}


def ours(left: Candidates) -> dict[int, float]:
    return shares(left.tokens.tolist(), left.scores)


def assert_same(mine: dict[int, float], theirs: dict[int, float], settings: object) -> None:
    assert set(mine) == set(theirs), f"{len(mine)} and {len(theirs)} candidates with {settings}"
    gap = max(abs(mine[token] - theirs[token]) for token in mine)
    assert gap <= TOLERANCE, f"probabilities differ by {gap} with {settings}"


def native(scores: Floats, history: Sequence[int], s: SamplerSettings) -> dict[int, float]:
    """Apply llama.cpp's samplers in the order of the settings."""
    array = Array(scores)
    penalties = (s.penalty_window, s.repeat_penalty, s.frequency_penalty, s.presence_penalty)
    make = {
        "penalties": lambda: L.llama_sampler_init_penalties(len(scores), *penalties),
        "top_n_sigma": lambda: L.llama_sampler_init_top_n_sigma(s.top_n_sigma),
        "top_k": lambda: L.llama_sampler_init_top_k(s.top_k),
        "typical_p": lambda: L.llama_sampler_init_typical(s.typical_p, s.min_keep),
        "top_p": lambda: L.llama_sampler_init_top_p(s.top_p, s.min_keep),
        "min_p": lambda: L.llama_sampler_init_min_p(s.min_p, s.min_keep),
        "xtc": lambda: L.llama_sampler_init_xtc(s.xtc_probability, s.xtc_threshold, s.min_keep, 1),
        "temperature": lambda: L.llama_sampler_init_temp_ext(s.temperature, s.dynatemp_range, s.dynatemp_exponent),
    }
    for name in s.order:
        array.apply(make[name](), history if name == "penalties" else ())
    return array.left()


def random_settings(dice: random.Random) -> SamplerSettings:
    """Return settings in which each sampler acts about half the time, in any order."""

    def maybe(value: float, off: float, chance: float = 0.5) -> float:
        return value if dice.random() < chance else off

    order = [name for name in ORDER if name != "dry"]
    if dice.random() < 0.7:
        dice.shuffle(order)
    sigma = maybe(dice.uniform(0.5, 4), 0.0, 0.3)
    return SamplerSettings(
        order=tuple(order[: dice.randint(1, len(order))]),
        temperature=dice.choice([0.5, 0.8, 1.0, 2.0]),
        dynatemp_range=maybe(0.4, 0.0, 0.3),
        dynatemp_exponent=dice.choice([1.0, 1.5]),
        top_k=int(maybe(dice.randint(1, 100), 0)),
        top_p=maybe(dice.uniform(0.3, 0.99), 1.0),
        min_p=maybe(dice.uniform(0.001, 0.3), 0.0),
        # the native sampler makes NaN of masked candidates, so the two are not combined
        typical_p=1.0 if sigma else maybe(dice.uniform(0.3, 0.99), 1.0, 0.4),
        top_n_sigma=sigma,
        xtc_probability=maybe(1.0, 0.0, 0.4),
        xtc_threshold=dice.choice([0.02, 0.1]),
        repeat_penalty=maybe(1.3, 1.0),
        frequency_penalty=maybe(0.3, 0.0),
        presence_penalty=maybe(0.4, 0.0),
        penalty_window=dice.choice([8, 64]),
        min_keep=dice.choice([0, 0, 3]),
    )


@pytest.mark.parametrize("seed", range(4))
def test_chains_leave_what_native_chains_leave(seed: int) -> None:
    """Hundreds of random settings and orders: same candidates, probabilities within 1e-5."""
    dice, numbers = random.Random(seed), np.random.default_rng(seed)
    for _ in range(TRIALS // 4):
        scores = numbers.normal(0, dice.choice([1, 2, 4]), SIZE).astype(np.float32)
        history = [dice.randrange(60) for _ in range(100)]
        settings = random_settings(dice)
        assert_same(ours(Chain(settings).candidates(scores, history)), native(scores, history, settings), settings)


@pytest.fixture(scope="module")
def backend() -> Iterator[Any]:
    """SmolLM2, for its vocabulary."""
    loaded = load(ModelSpec(backend="llama.cpp"), ContextSpec(length=256), lambda _: True)
    yield loaded
    loaded.close()


@pytest.mark.slow
def test_dry_takes_what_native_dry_takes(backend: Any) -> None:
    """Repetitive histories with and without breakers, on the real vocabulary."""
    dice, numbers = random.Random(5), np.random.default_rng(5)
    size = backend.facts.vocabulary
    model = L.llama_model_get_vocab(backend._weights.pointer)
    some = backend.encode('a cat: sat on the mat.\nThe "cat" *sat* on a mat, and the mat was flat.')
    for number in range(60):
        history = [dice.choice(some) for _ in range(30)]
        history += history[dice.randrange(20) :] * dice.randint(1, 3)
        settings = SamplerSettings(
            order=("dry",),
            dry_multiplier=dice.choice([0.8, 2.0]),
            dry_base=dice.choice([1.0, 1.75, 3.0]),
            dry_allowed_length=dice.choice([1, 2, 4]),
            dry_window=dice.choice([16, 64, 500]),
            dry_breakers=BREAKERS if number % 2 else ("mat", " on a"),
        )
        scores = numbers.normal(0, 3, size).astype(np.float32)
        texts = [text.encode() for text in settings.dry_breakers]
        array = Array(scores)
        sampler = L.llama_sampler_init_dry(
            model,
            settings.dry_multiplier,
            settings.dry_base,
            settings.dry_allowed_length,
            settings.dry_window,
            (ctypes.c_char_p * len(texts))(*texts),
            len(texts),
        )
        array.apply(sampler, history)
        got = Chain(settings, backend, size).candidates(scores, history)
        assert_same(ours(got), array.left(), settings)


@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_learns_as_native_mirostat_learns(version: int) -> None:
    """Forced to the native sampler's choices, ours leaves the same candidates at every step."""
    numbers = np.random.default_rng(version)
    tau, eta = 4.0, 0.2
    sampler = (
        L.llama_sampler_init_mirostat(SIZE, 7, tau, eta, 100)
        if version == 1
        else L.llama_sampler_init_mirostat_v2(7, tau, eta)
    )
    mine = Mirostat(version, tau, eta, SIZE)
    for _ in range(60):
        scores = numbers.normal(0, 2.5, SIZE).astype(np.float32)
        array = Array(scores)
        L.llama_sampler_apply(sampler, ctypes.byref(array.array))
        chosen = array.array.data[array.array.selected].id
        left = mine.cut(Candidates(np.arange(SIZE), scores))
        assert_same(ours(left), array.left(), mine.mu)
        force(mine, left, chosen)
    L.llama_sampler_free(sampler)


def test_adaptive_p_learns_as_native_adaptive_p_learns() -> None:
    """Forced to the native sampler's choices, ours gives the same probabilities at every step."""
    numbers = np.random.default_rng(3)
    sampler = L.llama_sampler_init_adaptive_p(0.4, 0.8, 7)
    mine = AdaptiveP(0.4, 0.8)
    for _ in range(60):
        scores = numbers.normal(0, 3, 50).astype(np.float32)
        array = Array(scores)
        L.llama_sampler_apply(sampler, ctypes.byref(array.array))
        chosen = array.array.data[array.array.selected].id
        L.llama_sampler_accept(sampler, chosen)
        everything = Candidates(np.arange(50), scores)
        assert_same(ours(mine.cut(everything)), array.left(), mine.sum)
        force(mine, everything, chosen, mine.cut(everything))
    L.llama_sampler_free(sampler)


def force(target: Mirostat | AdaptiveP, left: Candidates, token: int, drawn_from: Candidates | None = None) -> None:
    """Make a steering sampler choose `token`, by the random number that does."""
    odds = (drawn_from or left).odds()
    place = int(np.flatnonzero(left.tokens == token)[0])
    number = float((odds[:place].sum(dtype=np.float64) + odds[place] / 2) / odds.sum(dtype=np.float64))
    assert draw(odds, number)[0] == place
    assert target.choose(left, number)[0] == place


def test_every_sampler_at_its_off_value_is_the_identity() -> None:
    """The defaults, temperature 1: all candidates, scores untouched."""
    scores = np.random.default_rng(1).normal(0, 3, SIZE).astype(np.float32)
    settings = SamplerSettings(temperature=1.0)
    left = Chain(settings).candidates(scores, [1, 2, 3])
    assert left.tokens.tolist() == list(range(SIZE))
    assert np.array_equal(left.scores, scores)
    for name in ORDER:
        alone = Chain(msgspec.structs.replace(settings, order=(name,))).candidates(scores, [1, 2, 3])
        assert np.array_equal(alone.scores, scores), name
