"""Figures out of runs: samples per metric, side and condition; their summaries, and what differs.

Knows folds of runs (`fader.metrics` defines every number) and the lab's statistics; says nothing in words.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple

import msgspec
from fader_plugins.turn import Numbers

from ..metrics import percentile
from . import paired, statistics
from .evidence import Condition, Phase, Side
from .raw import Measured
from .statistics import Statistic
from .values import Compared, Figure, Summary, Verdict

CURVE = range(0, 101, 5)
TAILS: tuple[Statistic, ...] = ("p50", "mean", "p95", "p99")


class Metric(NamedTuple):
    """One figure to be made."""

    name: str
    label: str
    unit: str
    better: Literal["lower", "higher", "neither"]
    of: Callable[[Measured], Sequence[float]]
    """The samples that a run gives."""
    sample: Literal["run", "gap"] = "run"
    by_condition: bool = False
    """Whether cold and warm are kept apart: what depends on the prompt's evaluation."""
    statistics: tuple[Statistic, ...] = ("p50",)


class Samples(NamedTuple):
    """Values of one side, and for each its run and what it was measured with."""

    values: list[float]
    rounds: list[int]
    groups: list[Hashable]
    """Case and turn: what may be compared."""

    def by_round(self, values: Sequence[float]) -> dict[int, list[float]]:
        """Return values, one for each sample, round by round."""
        found: dict[int, list[float]] = {}
        for value, number in zip(values, self.rounds, strict=True):
            found.setdefault(number, []).append(value)
        return found


def one(name: str) -> Callable[[Measured], Sequence[float]]:
    """Return how a number of `Numbers` becomes samples: one per run, none where it is not known."""

    def of(measured: Measured) -> Sequence[float]:
        value = getattr(measured.stats.numbers(), name)
        return () if value is None else (float(value),)

    return of


def acceptance(numbers: Numbers) -> float | None:
    """Return drafted tokens kept / proposed; None without drafts."""
    return numbers.drafted_tokens / numbers.proposed_tokens if numbers.proposed_tokens else None


def _accepted(measured: Measured) -> Sequence[float]:
    share = acceptance(measured.stats.numbers())
    return () if share is None else (share,)


def _reused(measured: Measured) -> Sequence[float]:
    numbers = measured.stats.numbers()
    if not numbers.prompt_tokens or numbers.reused_tokens is None:
        return ()
    return (numbers.reused_tokens / numbers.prompt_tokens,)


def _energy(measured: Measured) -> Sequence[float]:
    joules, tokens = measured.run.energy_j, measured.stats.output
    return () if joules is None or not tokens else (joules / tokens,)


METRICS = (
    Metric("ttft_ms", "TTFT", "ms", "lower", one("ttft_ms"), by_condition=True, statistics=TAILS),
    Metric("ttfv_ms", "TTFV", "ms", "lower", one("ttfv_ms"), by_condition=True, statistics=()),
    Metric("tpot_ms", "TPOT", "ms", "lower", one("tpot_ms"), statistics=TAILS),
    Metric("itl_ms", "ITL", "ms", "lower", lambda run: run.stats.gaps_ms, "gap", statistics=TAILS),
    Metric("e2e_ms", "E2E", "ms", "lower", one("e2e_ms"), by_condition=True, statistics=TAILS),
    Metric("prefill_tps", "prefill", "tok/s", "neither", one("prefill_tps"), by_condition=True),
    Metric("decode_tps", "decode", "tok/s", "higher", one("decode_tps")),
    Metric("reuse", "reused", "of prompt", "neither", _reused, by_condition=True, statistics=()),
    Metric("acceptance", "acceptance", "of drafted", "neither", _accepted, statistics=()),
    Metric("energy_j", "energy", "J/token", "lower", _energy),
)
BY_NAME = {metric.name: metric for metric in METRICS}
DETAIL = ("ttft_ms", "tpot_ms")
"""What is shown case by case, where there are several."""


def figures(runs: Sequence[Measured]) -> list[Figure]:
    """Return all figures: by condition where that matters, then case by case where there are several cases."""
    counted = [measured for measured in runs if measured.run.counted]
    found = []
    for metric in METRICS:
        conditions: tuple[Condition | Literal[""], ...] = ("cold", "warm") if metric.by_condition else ("",)
        found += [figure(metric, counted, condition) for condition in conditions]
    cases = list(dict.fromkeys(measured.run.case for measured in counted))
    for case in cases if len(cases) > 1 else ():
        for name in DETAIL:
            metric = BY_NAME[name]._replace(statistics=("p50",))
            found.append(figure(metric, counted, "", case))
    return [one for one in found if one.a is not None or one.b is not None]


def figure(metric: Metric, runs: Sequence[Measured], condition: Condition | Literal[""] = "", case: str = "") -> Figure:
    """Return one metric's figure over counted runs."""
    chosen = [
        one for one in runs if (not condition or one.run.condition == condition) and (not case or one.run.case == case)
    ]
    a, b = samples(metric, chosen, "ab", "a"), samples(metric, chosen, "ab", "b")
    first, second = samples(metric, chosen, "aa", "a"), samples(metric, chosen, "aa", "b")
    compared = [_compared(metric, statistic, (a, b), (first, second)) for statistic in metric.statistics]
    return Figure(
        metric=metric.name,
        label=metric.label,
        unit=metric.unit,
        better=metric.better,
        sample=metric.sample,
        condition=condition,
        case=case,
        a=summary(a.values),
        b=summary(b.values),
        compared=tuple(one for one in compared if one is not None),
    )


def samples(metric: Metric, runs: Sequence[Measured], phase: Phase, side: Side) -> Samples:
    """Return a metric's samples of one side in one phase."""
    found = Samples([], [], [])
    for measured in runs:
        run = measured.run
        if (run.phase, run.side) == (phase, side):
            values = metric.of(measured)
            found.values.extend(values)
            found.rounds.extend([run.round] * len(values))
            found.groups.extend([(run.case, run.turn)] * len(values))
    return found


def summary(values: Sequence[float]) -> Summary | None:
    """Return what is said of samples; None without any."""
    if not values:
        return None
    at = {percent: percentile(values, percent) or 0.0 for percent in {*CURVE, 99}}
    return Summary(
        n=len(values),
        mean=sum(values) / len(values),
        p50=at[50],
        p95=at[95],
        p99=at[99],
        low=at[0],
        high=at[100],
        curve=tuple(at[percent] for percent in CURVE),
    )


def _compared(
    metric: Metric, statistic: Statistic, sides: tuple[Samples, Samples], self_sides: tuple[Samples, Samples]
) -> Compared | None:
    """Return how one statistic of b stands to that of a; None where too few samples could tell.

    Medians and means compare each sample with others of its own case and turn; tails are those of all samples together.
    Only rounds in which both sides have samples count.
    """
    if min(len(side.values) for side in sides) < max(2, statistics.ENOUGH[statistic]):
        return None
    aa = paired.ratio(*_rounds(metric, statistic, self_sides), statistic)
    judged = paired.compare(
        *_rounds(metric, statistic, sides), statistic, statistics.distance(aa.value) if aa else None
    )
    if judged.ratio is None:
        return None
    return Compared(
        statistic=statistic,
        ratio=judged.ratio.value,
        low=judged.ratio.low,
        high=judged.ratio.high,
        p=judged.p,
        aa=aa.value if aa else None,
        aa_low=aa.low if aa else None,
        aa_high=aa.high if aa else None,
        verdict=_verdict(metric, judged.ratio.value) if judged.different else "~",
        doubt=judged.doubt,
    )


def _rounds(
    metric: Metric, statistic: Statistic, sides: tuple[Samples, Samples]
) -> tuple[list[list[float]], list[list[float]]]:
    a, b = sides
    values = a.values, b.values
    if metric.sample == "run" and statistic in ("p50", "mean"):
        values = statistics.aligned(a.values, b.values, (a.groups, b.groups))
    before, after = a.by_round(values[0]), b.by_round(values[1])
    both = sorted(before.keys() & after.keys())
    return [before[number] for number in both], [after[number] for number in both]


def _verdict(metric: Metric, ratio: float) -> Verdict:
    if metric.better == "neither":
        return ""
    return "better" if (ratio < 1) == (metric.better == "lower") else "worse"


def alone(found: Sequence[Figure]) -> list[Figure]:
    """Return figures side by side, without what b is over a."""
    return [msgspec.structs.replace(one, compared=()) for one in found]


def find(
    found: Sequence[Figure], metric: str, condition: Condition | Literal[""] = "", case: str = ""
) -> Figure | None:
    """Return a figure; None where there is none."""
    for one in found:
        if (one.metric, one.condition, one.case) == (metric, condition, case):
            return one
    return None


def statistic(figure: Figure, name: str) -> Compared | None:
    """Return how one statistic of a figure compares; None where it was not compared."""
    return next((one for one in figure.compared if one.statistic == name), None)
