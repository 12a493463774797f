"""The numbers under a column: those of the turn (`fader.metrics`), and what its words are like.

Knows ids and log-probabilities, not where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import fmean, median

import msgspec
from fader_plugins.turn import Numbers

NEAR = 32
"""How many tokens back a repetition counts."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One column in numbers. None: not known yet, or undefined."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    output_tokens: int = 0
    finish_reason: str | None = None
    mean_logprob: float | None = None
    """Mean natural log of the chosen tokens' probabilities, among the candidates that the sampler chain left."""
    distinct_1: float | None = None
    distinct_2: float | None = None
    """Share of different n-grams among all of the reply's (Li et al., 2016)."""
    repeat_rate: float | None = None
    """Share of tokens found among the 32 before them (rep-32 of Welleck et al., 2020)."""
    acceptance: float | None = None
    """Drafted tokens kept / proposed; None without drafts."""
    prompt_tokens: int | None = None
    reused_tokens: int | None = None
    processed_tokens: int = 0
    runs: int = 1
    """How many runs TTFT and TPOT are the median of."""


def figures(numbers: Numbers, ids: Sequence[int], logprobs: Sequence[float], rounds: Sequence[Numbers] = ()) -> Figures:
    """Return a column's figures; `rounds` are further runs of it for the sake of timing."""
    runs = [numbers, *rounds]
    return Figures(
        ttft_ms=_median([run.ttft_ms for run in runs]),
        tpot_ms=_median([run.tpot_ms for run in runs]),
        output_tokens=numbers.output_tokens,
        finish_reason=numbers.finish_reason,
        mean_logprob=fmean(logprobs) if logprobs else None,
        distinct_1=distinct(ids, 1),
        distinct_2=distinct(ids, 2),
        repeat_rate=repeat_rate(ids),
        acceptance=numbers.drafted_tokens / numbers.proposed_tokens if numbers.proposed_tokens else None,
        prompt_tokens=numbers.prompt_tokens,
        reused_tokens=numbers.reused_tokens,
        processed_tokens=numbers.processed_tokens,
        runs=len(runs),
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def distinct(ids: Sequence[Hashable], n: int) -> float | None:
    """Return different n-grams / all n-grams; None when there is none."""
    grams = list(zip(*(ids[start:] for start in range(n)), strict=False))
    return len(set(grams)) / len(grams) if grams else None


def repeat_rate(ids: Sequence[Hashable]) -> float | None:
    """Return the share of tokens that occur among the `NEAR` tokens before them; None without tokens."""
    if not ids:
        return None
    return sum(one in ids[max(0, place - NEAR) : place] for place, one in enumerate(ids)) / len(ids)


def lines(found: Figures) -> list[tuple[str, str]]:
    """Return the figures for people, as (label, value); what is undefined is left out."""
    rows = [
        ("TTFT", found.ttft_ms, "{:,.0f} ms"),
        ("TPOT", found.tpot_ms, "{:.1f} ms"),
        ("tokens", found.output_tokens, "{:,}"),
        ("finish", found.finish_reason, "{}"),
        ("mean logp", found.mean_logprob, "{:.3f}"),
        ("distinct-1", found.distinct_1, "{:.2f}"),
        ("distinct-2", found.distinct_2, "{:.2f}"),
        ("repeats", found.repeat_rate, "{:.0%}"),
        ("accepted", found.acceptance, "{:.0%}"),
        ("reused", found.reused_tokens, "{:,}"),
    ]
    shown = [(label, form.format(value)) for label, value, form in rows if value is not None]
    if found.reused_tokens is not None and found.prompt_tokens is not None:
        shown[-1] = ("reused", f"{found.reused_tokens:,} of {found.prompt_tokens:,}")
    return shown


def percent(logprob: float) -> str:
    """Return a log-probability as a percentage of three significant digits at the most."""
    return f"{math.exp(logprob):.3g}" if logprob < -9 else f"{100 * math.exp(logprob):.3g} %"
