"""A turn in numbers, and a row of the overlay: what `readings` gets and returns.

Knows how nothing is measured; `fader.metrics` defines it.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Difference(msgspec.Struct, frozen=True):
    """Where a prompt stops being an extension of what the session held."""

    position: int
    """Index of the first token that differs."""
    held: str
    """Text the session held from there on (a few tokens)."""
    wanted: str
    """Text the prompt has there (a few tokens); empty when the prompt simply ends."""


class DraftNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """What one plugin's drafts came to in a turn. Tokens and milliseconds are sums over its steps."""

    steps: int = 0
    """Evaluations that checked its guesses."""
    proposed: int = 0
    kept: int = 0
    draft_ms: float = 0.0
    """Time it took to guess, also where it made no guess in the end."""
    verify_ms: float = 0.0
    note: str = ""
    """What it last had to say."""


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """A turn in numbers, as `fader.metrics.Stats` defines them. None: not known (yet), or undefined."""

    prompt_tokens: int | None = None
    reused_tokens: int | None = None
    processed_tokens: int = 0
    """New prompt tokens evaluated so far."""
    output_tokens: int = 0
    steps: int = 0
    ttft_ms: float | None = None
    ttft_parts: dict[str, float] = {}
    """queue, encode, restore, prefill, first_sample: milliseconds, adding up to ttft_ms."""
    ttfv_ms: float | None = None
    tpot_ms: float | None = None
    itl_p50_ms: float | None = None
    itl_p95_ms: float | None = None
    itl_n: int = 0
    e2e_ms: float | None = None
    prefill_tps: float | None = None
    decode_tps: float | None = None
    drafted_tokens: int = 0
    """Drafted tokens that were kept."""
    proposed_tokens: int = 0
    draft_ms: float = 0.0
    """Time spent on guesses."""
    verify_ms: float = 0.0
    """Time of the evaluations that checked guesses."""
    single_ms: float | None = None
    """Median time of an evaluation without guesses in this turn: what a token costs without drafts."""
    singles: int = 0
    """How many such evaluations there were."""
    drafts: dict[str, DraftNumbers] = {}
    """By plugin."""
    reuse_tier: str = ""
    reuse_note: str = ""
    load_ms: float | None = None
    kv_bytes: int | None = None
    rss_peak_bytes: int | None = None
    context_used: int | None = None
    context_length: int | None = None
    difference: Difference | None = None
    finish_reason: str | None = None
    """A FinishReason, or "failed"; None while the turn runs."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the overlay, as data."""

    key: str
    """Stable identity, for comparing with an earlier turn."""
    label: str
    value: float | str | None
    """None is shown as a dash."""
    unit: str = ""
    digits: int = 0
    better: Literal["lower", "higher", "neither"] = "neither"
    doubtful: bool = False
    """True: too few samples; shown greyed."""
    help: str = ""
    """The definition, as F1 shows it."""
