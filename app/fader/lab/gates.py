"""Gates: limits on figures, such as `ttft_p95 <= 300 ms` or `tpot <= 1.02 x baseline`: read, and judged.

Knows names of figures, not how they are measured. A gate on what was not measured neither holds nor fails.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from fader_backends.errors import BadValue, UnknownName

from .values import GateResult

Kind: TypeAlias = Literal["time", "rate", "bytes", "ratio", "nats", "joules", "count"]
UNITS: dict[Kind, dict[str, float]] = {
    "time": {"ms": 1, "s": 1000, "us": 0.001, "µs": 0.001},
    "rate": {"tok/s": 1, "t/s": 1},
    "bytes": {
        "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30,
    },
    "ratio": {"": 1, "%": 0.01},
    "nats": {"": 1, "nats": 1},
    "joules": {"j": 1},
    "count": {"": 1},
}  # fmt: skip
"""Kind -> unit in small letters -> how much of the kind's own unit (ms, tok/s, bytes, …) it is."""
SPREADS = ("p50", "p95", "p99", "mean", "max")


class Known(NamedTuple):
    """A figure that a gate may name."""

    metric: str
    """As in a report's figures."""
    kind: Kind
    spread: bool
    """Whether it has percentiles: its name may end in _p50, _p95, _p99, _mean or _max; without one it is the median."""


FIGURES = {
    "ttft": Known("ttft_ms", "time", True),
    "ttfv": Known("ttfv_ms", "time", True),
    "tpot": Known("tpot_ms", "time", True),
    "itl": Known("itl_ms", "time", True),
    "e2e": Known("e2e_ms", "time", True),
    "load": Known("load_ms", "time", True),
    "prefill": Known("prefill_tps", "rate", True),
    "decode": Known("decode_tps", "rate", True),
    "reuse": Known("reuse", "ratio", True),
    "acceptance": Known("acceptance", "ratio", True),
    "energy": Known("energy_j", "joules", True),
    "kv_peak": Known("kv_bytes", "bytes", False),
    "rss_peak": Known("rss_peak_bytes", "bytes", False),
    "device_peak": Known("device_peak_bytes", "bytes", False),
    "kl": Known("kl_mean", "nats", False),
    "kl_p95": Known("kl_p95", "nats", False),
    "kl_max": Known("kl_max", "nats", False),
    "same_best": Known("same_best", "ratio", False),
    "failed": Known("failed", "count", False),
}
HOLDS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
FORM = re.compile(rf"([a-z][a-z0-9_]*)\s*(<=|>=|<|>)\s*({NUMBER})\s*(.*)", re.IGNORECASE)
BASELINE = re.compile(r"(?:x|×|\*|times)\s*baseline", re.IGNORECASE)
EXAMPLES = "Write for example 'ttft_p95 <= 300 ms' or 'tpot <= 1.02 x baseline'."


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One limit."""

    text: str
    """As it was written, spaces tidied."""
    figure: str
    """The name of the figure, with its spread: `ttft_p95`; a key of what `judge` is given."""
    metric: str
    statistic: str
    """p50, p95, p99, mean, max; empty where the figure is one number."""
    sign: str
    limit: float
    """In the unit of the figure's kind (ms, tok/s, bytes), or in times the baseline."""
    of_baseline: bool = False


def parse(text: str, where: str = "", examples: str = EXAMPLES) -> Gate:
    """Return the gate a line says. Raises BadValue or UnknownName; `where` names its place in a file."""
    place = f"{where}: " if where else ""
    found = FORM.fullmatch(text.strip())
    if found is None:
        raise BadValue(f"{place}gate {text!r} is not FIGURE <= LIMIT.", "", examples)
    name, sign, number, rest = found[1].lower(), found[2], found[3], found[4].strip()
    known, statistic = _figure(name, where)
    of_baseline = bool(BASELINE.fullmatch(rest))
    units = UNITS[known.kind]
    if not of_baseline and rest.lower() not in units:
        wanted = " or ".join(repr(unit) for unit in units if unit) or "none"
        said = f"the unit {rest!r} does not fit {name}" if rest else f"{name} needs a unit"
        raise BadValue(f"{place}gate {text!r}: {said}.", "", f"Its units: {wanted}; or 'x baseline'.")
    limit = float(number) * (1 if of_baseline else units[rest.lower()])
    if not math.isfinite(limit):
        raise BadValue(f"{place}gate {text!r}: {number} is more than a number can hold.", "", examples)
    return Gate(
        text=" ".join(text.split()),
        figure=f"{known.metric}_{statistic}" if statistic else known.metric,
        metric=known.metric,
        statistic=statistic,
        sign=sign,
        limit=limit,
        of_baseline=of_baseline,
    )


def _figure(name: str, where: str) -> tuple[Known, str]:
    if name in FIGURES:
        known = FIGURES[name]
        return known, "p50" if known.spread else ""
    base, _, statistic = name.rpartition("_")
    if statistic in SPREADS and base in FIGURES and FIGURES[base].spread:
        return FIGURES[base], statistic
    names = [*FIGURES, *(f"{base}_{end}" for base, known in FIGURES.items() if known.spread for end in SPREADS)]
    raise UnknownName("figure in a gate", name, names, where)


def judge(
    gates: Iterable[Gate], after: Mapping[str, float | None], before: Mapping[str, float | None]
) -> tuple[GateResult, ...]:
    """Return for each gate whether `after` keeps it. Both map `Gate.figure` to a number in the figure's unit."""
    return tuple(_judged(gate, after.get(gate.figure), before.get(gate.figure)) for gate in gates)


def _judged(gate: Gate, value: float | None, base: float | None) -> GateResult:
    if value is None:
        return GateResult(gate=gate.text, holds=None, said=f"{gate.text}: not measured")
    if gate.of_baseline and base is None:
        said = f"{gate.text}: {shown(gate, value)}, but there is no baseline"
        return GateResult(gate=gate.text, holds=None, value=value, said=said)
    limit = gate.limit * (base or 0) if gate.of_baseline else gate.limit
    holds = HOLDS[gate.sign](value, limit)
    times = f" = {gate.limit:g} x {shown(gate, base or 0)}" if gate.of_baseline else ""
    said = f"{gate.text}: {'holds' if holds else 'fails'}, {shown(gate, value)} against {shown(gate, limit)}{times}"
    return GateResult(gate=gate.text, holds=holds, value=value, said=said)


def shown(gate: Gate, value: float) -> str:
    """Return a value of the gate's figure with its unit, for people."""
    kind = next(known.kind for known in FIGURES.values() if known.metric == gate.metric)
    if kind == "bytes":
        return f"{value / 1e9:.2f} GB" if value >= 1e9 else f"{value / 1e6:.1f} MB"
    if kind == "ratio":
        return f"{value:.1%}"
    unit = {"time": " ms", "rate": " tok/s", "joules": " J", "nats": " nats"}.get(kind, "")
    return f"{value:.4g}{unit}"
