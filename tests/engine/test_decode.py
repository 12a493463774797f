"""Laws 3 and 4 on toy models: drafts and caches change how many steps it takes, never which tokens come."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from fader.engine.decode import Propose, decode, nothing
from fader_backends.base import SamplerSettings, Scores
from fader_backends.sampling import Sampler, chain
from hypothesis import given, settings
from hypothesis import strategies as st

SIZE = 6
PROMPT = (3, 1, 4)
FEW = settings(max_examples=60, deadline=None)


class Toy:
    """A model whose scores depend on the last `order` tokens, and which counts what it evaluates."""

    def __init__(self, seed: int, order: int = 2) -> None:
        self.seed = seed
        self.order = order
        self.held: list[int] = []
        self.evaluated = 0

    def scores_after(self, tokens: Sequence[int]) -> Scores:
        return toy_scores((self.seed, *tokens[-self.order :]))

    def evaluate(self, keep: int, tokens: Sequence[int], rows: int) -> Scores:
        assert keep <= len(self.held), "a step may only rewind"
        assert 0 <= rows <= len(tokens)
        self.held = [*self.held[:keep], *tokens]
        self.evaluated += len(tokens)
        count = len(self.held)
        return np.array([self.scores_after(self.held[:end]) for end in range(count - rows + 1, count + 1)])


@cache
def toy_scores(key: tuple[int, ...]) -> Scores:
    return np.random.default_rng(key).normal(0, 1.5, SIZE).astype(np.float32)


def write(
    model: Toy, sample: Sampler, length: int, propose: Propose = nothing, keep_state: bool = True, held: int = 0
) -> tuple[list[int], int]:
    """Drive the generator by hand; return `length` tokens and the number of evaluations."""
    model.held = list(PROMPT[:held])
    generator = decode(PROMPT, held, sample, keep_state, propose)
    tokens: list[int] = []
    step, steps = next(generator), 0
    while len(tokens) < length:
        assert step.tokens, "a step evaluates something"
        if steps:
            assert [*PROMPT, *tokens][: step.keep] == model.held[: step.keep], "only right tokens are kept"
        step = generator.send(model.evaluate(step.keep if steps else held, step.tokens, step.rows))
        steps += 1
        tokens += [pick.token for pick in step.picks]
    generator.close()
    return tokens[:length], steps


def guesses(kind: str, seed: int, answer: Sequence[int]) -> Propose:
    """A proposer: `perfect` knows the answer, `wrong` never hits, `random` sometimes does, with varying length."""
    luck = random.Random(seed)

    def propose(history: Sequence[int]) -> Sequence[int]:
        done = len(history) - len(PROMPT)
        right = list(answer[done : done + 4])
        if kind == "perfect":
            return right
        if kind == "wrong":
            return [(token + 1) % SIZE for token in right]
        return [luck.randrange(SIZE) for _ in range(luck.randrange(5))]

    return propose


@FEW
@given(
    st.integers(0, 10**6),
    st.sampled_from(["perfect", "wrong", "random"]),
    st.sampled_from([0.0, 0.7, 1.0]),
    st.booleans(),
    st.integers(0, 2),
)
def test_drafts_change_no_token(seed: int, kind: str, temperature: float, keep_state: bool, held: int) -> None:
    """Any proposer gives the tokens of none, greedy and sampled, with kept state or without, after reuse too."""
    sample = chain(SamplerSettings(temperature=temperature, seed=seed, repeat_penalty=1.2, penalty_window=8))
    want, plain_steps = write(Toy(seed), sample, 24)
    got, steps = write(Toy(seed), sample, 24, guesses(kind, seed, want), keep_state, held)
    assert want == got
    assert steps <= plain_steps, "a draft never costs a step"


def test_perfect_drafts_save_steps() -> None:
    """Four right guesses a step give five tokens a step: 25 tokens in 6 evaluations after the prompt's own."""
    sample = chain(SamplerSettings())
    want, plain_steps = write(Toy(1), sample, 26)
    got, steps = write(Toy(1), sample, 26, guesses("perfect", 0, want))
    assert want == got
    assert (plain_steps, steps) == (26, 6)


def test_wrong_drafts_cost_work_but_no_steps() -> None:
    """Every guess wrong: as many steps as without, and each step evaluated its guesses in vain."""
    sample = chain(SamplerSettings())
    plain, other = Toy(1), Toy(1)
    want, plain_steps = write(plain, sample, 10)
    got, steps = write(other, sample, 10, guesses("wrong", 0, want))
    assert want == got
    assert plain_steps == steps
    assert other.evaluated > plain.evaluated


def test_kept_state_evaluates_each_position_once() -> None:
    """With state: the prompt once and each token but the last once; what is held already is not evaluated at all."""
    for held in range(len(PROMPT)):
        model = Toy(2)
        write(model, chain(SamplerSettings()), 8, held=held)
        assert len(PROMPT) - held + 7 == model.evaluated


def test_without_state_everything_is_evaluated_each_step() -> None:
    """Without state: step n evaluates prompt and n tokens, from the start."""
    model = Toy(2)
    write(model, chain(SamplerSettings()), 8, keep_state=False)
    assert sum(len(PROMPT) + n for n in range(8)) == model.evaluated


def test_each_pick_is_the_samplers_own() -> None:
    """The picks of a step are the sampler's at consecutive positions, with its log-probabilities."""
    sample = chain(SamplerSettings(temperature=1.0, seed=3))
    want, _ = write(Toy(4), sample, 6)
    model, history = Toy(4), list(PROMPT)
    generator = decode(PROMPT, 0, sample, True, lambda _: want[:3])
    first = next(generator)
    assert first.picks == ()
    step = generator.send(model.evaluate(0, first.tokens, first.rows))
    assert len(step.picks) == 1, "the first step has no draft"
    for pick in step.picks:
        assert sample(model.scores_after(history), history) == pick
        history.append(pick.token)
    assert step.rows == 1 + 3, "one row for the last token and one for each guess"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "perfect", "random"])
def test_drafted_tokens_follow_the_distribution(kind: str) -> None:
    """Law 4: third tokens at temperature 1 over 1,500 seeds pass a chi-square test against the exact distribution."""
    n, model = 1500, Toy(11, order=1)
    first = softmax(model.scores_after(PROMPT))
    chances = np.array([softmax(model.scores_after([token])) for token in range(SIZE)])
    exact = first @ chances @ chances
    counts: Counter[int] = Counter()
    for seed in range(n):
        sample = chain(SamplerSettings(temperature=1.0, seed=seed))
        propose: Propose = nothing
        if kind != "none":
            answer = [(seed + at) % SIZE for at in range(8)]
            propose = guesses("perfect", seed, answer) if kind == "perfect" else guesses("random", seed, answer)
        tokens, _ = write(Toy(11, order=1), sample, 3, propose)
        counts[tokens[2]] += 1
    chi = sum((counts[token] - n * p) ** 2 / (n * p) for token, p in enumerate(exact))
    assert chi < 20.5, "the 0.999 quantile of chi-square with 5 degrees of freedom"


def softmax(scores: Scores) -> npt.NDArray[np.float64]:
    odds = np.exp(scores.astype(np.float64) - float(scores.max()))
    return np.asarray(odds / odds.sum())
