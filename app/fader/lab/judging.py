"""What gates are held against: a side's figures by the names that gates use.

Knows folds of runs; how a gate is written is `gates`' business.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..metrics import percentile
from . import gates
from .evidence import Kl, Manifest, Side
from .figures import METRICS, one, samples, summary
from .raw import Measured
from .values import GateResult

Numbers = dict[str, float | None]


def judged(manifest: Manifest, runs: Sequence[Measured], kl: Kl | None) -> tuple[GateResult, ...]:
    """Return whether the bundle's gates hold: of side b where there is one, else of side a without a baseline."""
    wanted = [gates.parse(text) for text in manifest.gates]
    if not manifest.variables:
        return gates.judge(wanted, numbers(runs, "a", None), {})
    return gates.judge(wanted, numbers(runs, "b", kl), numbers(runs, "a", None))


def numbers(runs: Sequence[Measured], side: Side, kl: Kl | None) -> Numbers:
    """Return every number that a gate may name, as `gates.Gate.figure` -> value in the figure's unit; all conditions together."""
    chosen = [run for run in runs if run.run.phase == "ab" and run.run.side == side]
    counted = [run for run in chosen if run.run.counted]
    found: Numbers = {"failed": float(sum(run.run.state != run.run.expected for run in chosen))}
    for metric in METRICS:
        said = summary(samples(metric, counted, "ab", side).values)
        if said is not None:
            values = {"p50": said.p50, "p95": said.p95, "p99": said.p99, "mean": said.mean, "max": said.high}
            found.update({f"{metric.name}_{name}": value for name, value in values.items()})
    for name in ("kv_bytes", "load_ms"):
        known = [value for run in counted for value in one(name)(run)]
        found[name] = max(known, default=None)
    found["load_ms_p50"] = next((run.stats.load_ms for run in runs if run.run.side == side and run.stats.load_ms), None)
    found["rss_peak_bytes"] = max((run.run.rss_peak_bytes or 0 for run in counted), default=0) or None
    found["device_peak_bytes"] = max((run.run.device_peak_bytes or 0 for run in counted), default=0) or None
    if kl is not None and kl.kl:
        found.update(
            {
                "kl_mean": sum(kl.kl) / len(kl.kl),
                "kl_p95": percentile(kl.kl, 95),
                "kl_max": max(kl.kl),
                "same_best": sum(kl.same_best) / len(kl.same_best),
            }
        )
    return found
