"""What every benchmark shares: its declaration, interleaved runs, and the result with its card and its line.

Knows no model and no screen.
"""

from __future__ import annotations

import importlib
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import psutil

T = TypeVar("T")
QUIET = 0.12
"""Cores that other programs may use during a run before it counts as disturbed."""


class Missing(Exception):
    """The benchmark cannot run here; the text says what is missing."""


class Options(NamedTuple):
    """How long to measure."""

    quick: bool = False
    runs: int | None = None
    """Runs of each side; None is the benchmark's own number."""

    def pairs(self, full: int, quick: int) -> int:
        """Return how many runs of each side to make."""
        return self.runs or (quick if self.quick else full)


class Outcome(NamedTuple):
    """What was measured: a value per run. No `b`: the bound is one on `a` itself."""

    a: Sequence[float]
    b: Sequence[float] | None
    method: str
    notes: Sequence[str] = ()
    """Further lines for the card."""


class Bench(NamedTuple):
    """A benchmark as it is declared."""

    name: str
    a: str
    b: str
    """Empty where the bound is one on `a` itself."""
    unit: str
    bound: float
    bounded: Literal["ratio", "a"]
    """What must not exceed `bound`."""
    place: str
    """`module:function` below `tests.bench`; the function takes Options and returns an Outcome."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The last line of a run. This form holds for every benchmark."""

    bench: str
    a: float | None
    """Median of the side under test; None when it could not be measured."""
    b: float | None
    """Median of what it is compared with; None where the bound is one on `a` itself."""
    ratio: float | None
    """a / b."""
    bound: float
    ok: bool | None
    """None: not measured; `method` says why."""
    n: int
    """Runs of each side."""
    unit: str
    """Of a and b."""
    method: str


Measure: TypeAlias = Callable[[int], float]
"""Run number -> value. Warm-up runs have numbers below 0."""


def alternate(a: Measure, b: Measure, pairs: int, warm: int = 1) -> tuple[list[float], list[float], str]:
    """Run a and b in turn; return the values of undisturbed pairs (`undisturbed`), and a sentence on how they were chosen."""
    for number in range(-warm, 0):
        print(f"warm-up ({a(number):.4g}, {b(number):.4g})", file=sys.stderr, flush=True)
    numbers = itertools.count()

    def pair() -> tuple[float, float]:
        number = next(numbers)
        return a(number), b(number)

    kept, said = undisturbed(pair, pairs)
    return [one for one, _ in kept], [two for _, two in kept], f"ABAB, {warm} warm-up pair(s), {said}"


def undisturbed(measure: Callable[[], T], count: int) -> tuple[list[T], str]:
    """Call `measure` until `count` calls were undisturbed and return those results; after twice as many calls, return all.

    A call is disturbed when other programs used the processor meanwhile, which is read from the system's counters and
    not from the result. The sentence says how many were left out, or how loud it was.
    """
    made: list[tuple[float, T]] = []
    while len(made) < 2 * count and sum(others <= QUIET for others, _ in made) < count:
        watch = Others()
        value = measure()
        made.append((watch.cores(), value))
        said = f"({', '.join(f'{one:.4g}' for one in value)})" if isinstance(value, tuple) else ""
        print(f"run {len(made)} {said} other programs: {made[-1][0]:.2f} cores", file=sys.stderr, flush=True)
    calm = [one for one in made if one[0] <= QUIET]
    if len(calm) >= count:
        return [value for _, value in calm], f"{count} undisturbed of {len(made)} runs"
    noise = statistics.median(others for others, _ in made)
    return [value for _, value in made], (
        f"all of {len(made)} runs, because fewer than {count} were undisturbed: other programs used {noise:.2f} cores"
    )


class Others:
    """How many cores other programs use, from its making on. Processes of ours must have ended before it is asked."""

    def __init__(self) -> None:
        self.begin = self._now()

    def cores(self) -> float:
        """Return the mean number of cores."""
        (wall, busy, own), (wall0, busy0, own0) = self._now(), self.begin
        return max(0.0, (busy - busy0) - (own - own0)) / max(wall - wall0, 1e-9)

    @staticmethod
    def _now() -> tuple[float, float, float]:
        total, own = psutil.cpu_times(), os.times()
        idle = total.idle + getattr(total, "iowait", 0.0)
        twice = getattr(total, "guest", 0.0) + getattr(total, "guest_nice", 0.0)
        return time.perf_counter(), sum(total) - idle - twice, sum(own[:4])


def result(bench: Bench, outcome: Outcome) -> Result:
    """Return medians and verdict."""
    a = statistics.median(outcome.a)
    b = statistics.median(outcome.b) if outcome.b is not None else None
    ratio = a / b if b else None
    value = a if bench.bounded == "a" else ratio
    return Result(
        bench=bench.name,
        a=_round(a),
        b=_round(b),
        ratio=_round(ratio),
        bound=bench.bound,
        ok=None if value is None else value <= bench.bound,
        n=len(outcome.a),
        unit=bench.unit,
        method=outcome.method,
    )


def missing(bench: Bench, why: str) -> Result:
    """Return the result of a benchmark that could not run."""
    return Result(
        bench=bench.name, a=None, b=None, ratio=None, bound=bench.bound, ok=None, n=0, unit=bench.unit, method=why
    )


def card(bench: Bench, outcome: Outcome, found: Result) -> str:
    """Return the result for people."""
    lines = [f"{bench.name}: {bench.a}" + (f" / {bench.b}" if bench.b else "")]
    lines.append(f"  a       {_spread(outcome.a)} {bench.unit}")
    if outcome.b is not None:
        lines.append(f"  b       {_spread(outcome.b)} {bench.unit}")
        lines.append(f"  ratio   {found.ratio}")
    verdict = {True: "held", False: "MISSED", None: "not measured"}[found.ok]
    lines.append(f"  bound   {bench.bounded} <= {bench.bound:g}: {verdict}")
    lines += [f"  {note}" for note in outcome.notes]
    lines.append(f"  {outcome.method}")
    return "\n".join(lines)


def run(bench: Bench, options: Options) -> tuple[str, Result]:
    """Run a benchmark; return its card and its result."""
    module, _, function = bench.place.partition(":")
    try:
        outcome: Outcome = getattr(importlib.import_module(f"tests.bench.{module}"), function)(options)
    except Missing as error:
        return f"{bench.name}: not measured. {error}", missing(bench, str(error))
    found = result(bench, outcome)
    return card(bench, outcome, found), found


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _spread(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{statistics.median(values):9.4g}   ({low:.4g} to {high:.4g}, n = {len(values)})"
