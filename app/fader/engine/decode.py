"""The decode loop of one row, as a generator: it says what to evaluate and is sent the scores.

Knows no backend, no text, no clock and no end: the caller evaluates, shows, times and stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from fader_backends.base import Pick, Scored
from fader_backends.sampling import Sampler


class Step(NamedTuple):
    """What the last scores gave, and what is needed next."""

    picks: tuple[Pick, ...]
    """New tokens in order; empty at the first step. All but the last were drafted."""
    keep: int
    """Rewind the session to this length first."""
    tokens: Sequence[int]
    """Then extend it by these."""
    rows: int
    """And send the scores of the last `rows` of them."""


Propose: TypeAlias = Callable[[Sequence[int]], Sequence[int]]
"""All tokens so far -> guesses at the next ones; may be empty."""


def nothing(history: Sequence[int]) -> Sequence[int]:  # noqa: ARG001 - the signature is the contract
    """Propose no draft."""
    return ()


def decode(
    prompt: Sequence[int], held: int, sample: Sampler, keep_state: bool = True, propose: Propose = nothing
) -> Generator[Step, Scored, None]:
    """Continue `prompt`, of which the session holds the first `held` tokens (fewer than all).

    Every token is the target's own sample at its position; a drafted token is kept while it equals that sample, so drafts
    change nothing but the number of steps (the acceptance rule of llama.cpp's speculative examples). Without
    `keep_state` every step evaluates the whole text again.
    """
    history = list(prompt)
    draft: Sequence[int] = ()
    scores = yield Step((), held, history[held:], 1)
    while True:
        picks = []
        for row, guess in zip_longest(scores, draft):
            pick = sample(row, history)
            history.append(pick.token)
            picks.append(pick)
            if pick.token != guess:
                break
        draft = propose(history)
        keep = len(history) - 1 if keep_state else 0
        scores = yield Step(tuple(picks), keep, [*history[keep:], *draft], 1 + len(draft))
