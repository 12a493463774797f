"""`Report`: what a bundle comes to. Everything in it is computed from the bundle; it can be deleted and made again.

Knows no files, and not how it is shown. Fields are added, never renamed or given another meaning.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Verdict: TypeAlias = Literal["better", "worse", "~", ""]
"""~: cannot be told from noise. Empty: nothing is compared, or neither direction is better."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The samples of one side. Percentiles by linear interpolation between closest ranks."""

    n: int
    mean: float
    p50: float
    p95: float
    """Below 20 samples a guess."""
    p99: float
    """Below 100 samples a guess."""
    low: float
    high: float
    curve: tuple[float, ...]
    """Percentiles 0, 5, 10 … 100, for plots."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One statistic of b over the same of a."""

    statistic: Literal["p50", "mean", "p95", "p99"]
    ratio: float
    low: float
    high: float
    """95 % interval of the ratio, by bootstrap."""
    p: float | None = None
    """Two-sided: Wilcoxon's signed ranks of the rounds' ratios, for tails a test that swaps the sides of rounds."""
    aa: float | None = None
    """The same ratio where both sides had the baseline's settings."""
    aa_low: float | None = None
    aa_high: float | None = None
    verdict: Verdict = ""
    doubt: str = ""
    """Why it is not called better or worse."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of the runs of one condition, or of one case."""

    metric: str
    """As in `fader_plugins.turn.Numbers`, or itl_ms, acceptance, energy_j …"""
    label: str
    unit: str
    better: Literal["lower", "higher", "neither"]
    sample: Literal["run", "gap"]
    """What one sample is."""
    condition: Literal["cold", "warm", ""] = ""
    """Empty: both."""
    case: str = ""
    """Empty: all of them."""
    a: Summary | None = None
    b: Summary | None = None
    compared: tuple[Compared, ...] = ()


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of TTFT or of a decode step, before and after: medians over runs."""

    whole: Literal["ttft", "step"]
    condition: Literal["cold", "warm", ""] = ""
    name: str
    unit: str = "ms"
    a: float | None
    b: float | None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a change may cost: memory, disk, wasted work, quality, load time."""

    name: str
    unit: str
    a: float | None
    b: float | None
    note: str = ""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One case of a workload on one side: what came of it."""

    case: str
    side: Literal["a", "b"]
    runs: int
    ok: int
    failed: int
    cancelled: int
    unexpected: int
    """Runs that ended otherwise than the workload provokes."""
    said: str = ""
    """The failures, in words."""


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """One limit and whether it holds."""

    gate: str
    holds: bool | None
    """None: it could not be judged; `said` says why."""
    value: float | None = None
    said: str = ""


class Same(msgspec.Struct, frozen=True, kw_only=True):
    """Whether both sides said the same, pair by pair (same prompt, seed and round)."""

    pairs: int
    equal: int
    first: int | None = None
    """Median place of the first token that differs, over pairs that differ."""
    aa_pairs: int = 0
    aa_equal: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle comes to."""

    schema: int
    id: str
    created: str
    what: str
    why: str
    reportable: bool
    """Whether a claim may rest on it."""
    marks: tuple[str, ...]
    """What a reader must know first: more than one variable, partial, another order."""
    conclusion: str
    """One sentence."""
    findings: tuple[str, ...]
    """Further sentences that the data carry; the strongest first."""
    phase_answer: tuple[str, ...]
    """Which phase the gain came from."""
    cost_answer: tuple[str, ...]
    """Where the cost went."""
    stop_answer: tuple[str, ...]
    """How it stops and rolls back."""
    tails: tuple[str, ...]
    odd: tuple[str, ...]
    """Odd inputs, failures and recovery."""
    limits: tuple[str, ...]
    """What was not tried."""
    method: tuple[str, ...]
    """How it was measured, so that another person can repeat it."""
    about: dict[str, str]
    """Workload, hardware, model, versions, seeds: label -> text."""
    figures: tuple[Figure, ...]
    parts: tuple[Part, ...]
    costs: tuple[Cost, ...]
    trials: tuple[Trial, ...]
    same: Same | None
    gates: tuple[GateResult, ...] = ()
