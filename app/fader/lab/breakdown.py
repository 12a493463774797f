"""Where time went and what a change costs: parts of TTFT and of a decode step, memory, work, words, outcomes.

Knows folds of runs; says nothing in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Literal

from ..metrics import Stats, percentile
from .evidence import Condition, Kl, Output, Run, Side
from .figures import acceptance
from .raw import Measured
from .values import Cost, Part, Same, Trial

PARTS = {
    "queue": "waiting",
    "encode": "template and encoding",
    "restore": "bringing back a prefix",
    "prefill": "evaluating the prompt",
    "first_sample": "first token",
}
SIDES: tuple[Side, Side] = ("a", "b")
Of = Callable[[Measured], float | None]


def parts(runs: Sequence[Measured]) -> list[Part]:
    """Return the parts of TTFT by condition, and of a decode step: medians over the counted runs of phase ab."""
    chosen = _counted(runs)
    found = []
    conditions: tuple[Condition, ...] = ("cold", "warm")
    for condition in conditions:
        found += _ttft([one for one in chosen if one.run.condition == condition], condition)
    return _known([*found, *_step(chosen)])


def between(before: Stats, after: Stats) -> list[Part]:
    """Return the parts of TTFT and of a decode step of two turns, whatever was known of their prompts."""
    sides: list[tuple[Side, Stats]] = [("a", before), ("b", after)]
    turns = [Measured(_run(side, stats), stats) for side, stats in sides]
    return _known([*_ttft(turns, ""), *_step(turns)])


def _run(side: Side, stats: Stats) -> Run:
    """Return the place of a single turn, of which only the side counts."""
    request = stats.request
    return Run(
        index=0, phase="ab", side=side, round=0, case="", turn=0, condition="warm", seed=request.sampler.seed,
        request_id=request.id, state="ok", wall_start=0.0,
    )  # fmt: skip


def _ttft(runs: Sequence[Measured], condition: Literal["cold", "warm", ""]) -> list[Part]:
    return [_part("ttft", name, runs, _ttft_part(key), condition) for key, name in PARTS.items()]


def _step(chosen: Sequence[Measured]) -> list[Part]:
    found = []
    found.append(_part("step", "one step", chosen, _step_ms))
    found.append(_part("step", "  drafting", chosen, lambda one: _per_step(one, one.stats.draft_ns * 1e-6)))
    found.append(_part("step", "  evaluating drafts", chosen, lambda one: _per_step(one, one.stats.verify_ns * 1e-6)))
    found.append(
        _part("step", "  evaluating single tokens", chosen, lambda one: _per_step(one, sum(one.stats.singles_ms)))
    )
    found.append(_part("step", "tokens per step", chosen, _tokens_per_step, unit="tokens"))
    return found


def _known(parts: Sequence[Part]) -> list[Part]:
    return [one for one in parts if one.a is not None or one.b is not None]


def _part(
    whole: Literal["ttft", "step"],
    name: str,
    runs: Sequence[Measured],
    of: Of,
    condition: Literal["cold", "warm", ""] = "",
    unit: str = "ms",
) -> Part:
    a, b = (_median(runs, side, of) for side in SIDES)
    return Part(whole=whole, condition=condition, name=name, unit=unit, a=a, b=b)


def _ttft_part(key: str) -> Of:
    return lambda one: one.stats.numbers().ttft_parts.get(key)


def _step_ms(one: Measured) -> float | None:
    stats = one.stats
    if stats.steps < 2 or stats.first_ns is None or stats.last_ns is None:
        return None
    return (stats.last_ns - stats.first_ns) * 1e-6 / (stats.steps - 1)


def _per_step(one: Measured, total_ms: float) -> float | None:
    """Return milliseconds per step; None where no plugin drafts, for then steps are not timed part by part."""
    drafts = one.stats.singles_ms or one.stats.verify_ns
    return total_ms / (one.stats.steps - 1) if drafts and one.stats.steps > 1 else None


def _tokens_per_step(one: Measured) -> float | None:
    return (one.stats.output - 1) / (one.stats.steps - 1) if one.stats.steps > 1 else None


def costs(runs: Sequence[Measured], kl: Kl | None, same: Same | None) -> list[Cost]:
    """Return what each side takes: memory, load, work, and how far the words moved."""
    chosen = _counted(runs)
    found = [
        _cost("KV buffers", "MiB", chosen, lambda one: _mib(one.stats.numbers().kv_bytes), max),
        _cost("resident memory, peak", "MiB", chosen, lambda one: _mib(one.run.rss_peak_bytes), max),
        _cost("device memory, peak", "MiB", chosen, lambda one: _mib(one.run.device_peak_bytes), max),
        _loads(runs),
        _cost("prompt tokens evaluated", "tokens a run", chosen, lambda one: float(one.stats.processed), _mean),
        _cost("drafted in vain", "tokens a run", chosen, _vain, _mean),
        _cost("time to draft", "ms a run", chosen, lambda one: one.stats.draft_ns * 1e-6 or None, _mean),
    ]
    if kl is not None:
        worst = percentile(kl.kl, 95)
        floor = f"rounding alone: mean {sum(kl.floor) / len(kl.floor):.2g}" if kl.floor else ""
        found += [
            Cost(name="KL of next tokens, mean", unit="nats", a=0.0, b=sum(kl.kl) / len(kl.kl), note=floor),
            Cost(name="KL of next tokens, p95", unit="nats", a=0.0, b=worst),
            _greedy(kl),
            Cost(name="likeliest token the same", unit="of positions", a=1.0, b=sum(kl.same_best) / len(kl.same_best)),
        ]
    if same is not None and same.pairs:
        note = f"baseline against itself: {same.aa_equal} of {same.aa_pairs}" if same.aa_pairs else ""
        found.append(Cost(name="replies equal", unit="of pairs", a=1.0, b=same.equal / same.pairs, note=note))
    return [one for one in found if one.a is not None or one.b is not None]


def _greedy(kl: Kl) -> Cost:
    gap = (
        "" if kl.divergence_gap is None else f"the baseline's two best were {kl.divergence_gap:.2f} logits apart there"
    )
    equal = kl.greedy_tokens if kl.divergence is None else kl.divergence
    return Cost(name="greedy words equal", unit="tokens", a=float(kl.greedy_tokens), b=float(equal), note=gap)


def _cost(name: str, unit: str, runs: Sequence[Measured], of: Of, how: Callable[[list[float]], float]) -> Cost:
    values = {
        side: [value for one in runs if one.run.side == side and (value := of(one)) is not None] for side in SIDES
    }
    a, b = (how(values[side]) if values[side] else None for side in SIDES)
    return Cost(name=name, unit=unit, a=a, b=b)


def _loads(runs: Sequence[Measured]) -> Cost:
    """Return the load times: of the warm-ups that stand before rounds of phase ab."""
    begin = max((one.run.index for one in runs if one.run.phase == "aa"), default=-1)
    loads: dict[str, list[float]] = {}
    for one in runs:
        if one.run.phase == "warm-up" and one.run.index > begin and one.stats.load_ms:
            loads.setdefault(one.run.side, []).append(one.stats.load_ms)
    a, b = (percentile(loads.get(side, ()), 50) for side in SIDES)
    count = min(map(len, loads.values()), default=0)
    return Cost(
        name="load", unit="ms", a=a, b=b, note=f"median of {count} loads of each, so how far they vary is not known"
    )


def _vain(one: Measured) -> float | None:
    numbers = one.stats.numbers()
    return float(numbers.proposed_tokens - numbers.drafted_tokens) if acceptance(numbers) is not None else None


def same(runs: Sequence[Measured], words: Mapping[int, Output]) -> Same | None:
    """Return whether the sides' replies are equal, id for id; None where there is one side only.

    A conversation counts up to its first difference: what follows has another prompt.
    """
    pairs, equal, firsts = _agreement(runs, words, "ab")
    if not pairs:
        return None
    aa_pairs, aa_equal, _ = _agreement(runs, words, "aa")
    return Same(
        pairs=pairs, equal=equal, first=round(median(firsts)) if firsts else None, aa_pairs=aa_pairs, aa_equal=aa_equal
    )


def _agreement(runs: Sequence[Measured], words: Mapping[int, Output], phase: str) -> tuple[int, int, list[int]]:
    said: dict[tuple[int, str], dict[str, dict[int, tuple[int, ...]]]] = {}
    for one in runs:
        run = one.run
        if run.phase == phase and run.counted and run.index in words:
            said.setdefault((run.round, run.case), {}).setdefault(run.side, {})[run.turn] = words[run.index].ids
    pairs = equal = 0
    firsts: list[int] = []
    for sides in said.values():
        a, b = sides.get("a", {}), sides.get("b", {})
        for turn in sorted(a.keys() & b.keys()):
            pairs += 1
            if a[turn] != b[turn]:
                firsts.append(_first(a[turn], b[turn]))
                break
            equal += 1
    return pairs, equal, firsts


def _first(one: Sequence[int], other: Sequence[int]) -> int:
    for place, (x, y) in enumerate(zip(one, other, strict=False)):
        if x != y:
            return place
    return min(len(one), len(other))


def trials(runs: Sequence[Measured]) -> list[Trial]:
    """Return what came of each case on each side, in phase ab."""
    found = []
    chosen = [one for one in runs if one.run.phase == "ab"]
    for case in dict.fromkeys(one.run.case for one in chosen):
        for side in SIDES:
            mine = [one for one in chosen if (one.run.case, one.run.side) == (case, side)]
            these = [one.run for one in mine]
            if not these:
                continue
            said = dict.fromkeys(run.failure.title for run in these if run.failure is not None)
            short = [one.stats.output for one in mine if one.stats.finished and one.stats.finished.reason == "context"]
            if short:
                said[f"The context ended {len(short)} of them, after {min(short)} tokens or more."] = None
            states = [run.state for run in these]
            found.append(
                Trial(
                    case=case,
                    side=side,
                    runs=len(these),
                    ok=states.count("ok"),
                    failed=states.count("failed"),
                    cancelled=states.count("cancelled"),
                    unexpected=sum(run.state != run.expected for run in these),
                    said=" ".join(said),
                )
            )
    return found


def _counted(runs: Sequence[Measured]) -> list[Measured]:
    return [one for one in runs if one.run.phase == "ab" and one.run.counted]


def _median(runs: Sequence[Measured], side: Side, of: Of) -> float | None:
    values = [value for one in runs if one.run.side == side and (value := of(one)) is not None]
    return median(values) if values else None


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _mib(size: int | None) -> float | None:
    return None if size is None else size / 2**20
