"""Sentences of a report: each is printed only where the figures carry it.

Knows figures, parts and costs; computes nothing that is not in them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .claims import MAIN, Claim, claims, torn
from .evidence import Manifest
from .experiment import worded
from .figures import find, statistic
from .statistics import ENOUGH
from .values import Compared, Cost, Figure, Part, Same, Summary, Trial

BUFFERS = "KV buffers"
MEMORY = (BUFFERS, "resident memory, peak", "device memory, peak")
NOTICED = 0.02
"""Share by which a size must change to be called changed."""


def conclusion(manifest: Manifest, figures: Sequence[Figure], about: dict[str, str], costs: Sequence[Cost] = ()) -> str:
    """Return the one sentence a report begins with."""
    where = f"measured with {about['model']}, on {about['hardware']}; {about['versions']}; {about['how']}"
    if not manifest.variables:
        shown = [one for one in figures if one.metric in ("ttft_ms", "tpot_ms") and not one.case and one.a]
        values = ", ".join(f"{named(one)} {ms(one.a.p50)} (p50, n = {one.a.n})" for one in shown if one.a)
        return f"On {manifest.workload}, profile {manifest.profiles[0]} has {values or 'no figures'}; {where}."
    changed = f"On {manifest.workload}, {' and '.join(worded(one) for one in manifest.variables)}"
    found, pairs = claims(figures), torn(figures)
    if pairs:
        gain, loss = pairs[0]
        said = f"helps the middle and hurts the tail: it {told(gain)}, but {told(loss)}"
    elif not found:
        verb = "makes" if len(manifest.variables) == 1 else "make"
        said = (
            f"was run too few times to tell what it does from noise{_nearest(figures)}"
            if _too_few(figures)
            else f"{verb} no difference to TTFT, TPOT, ITL or E2E that can be told from noise{_nearest(figures)}"
        )
    else:
        gains, losses = _leading(found, True), _leading(found, False)
        said = ", ".join(map(told, gains[:2] or losses[:2])) + (f", but {told(losses[0])}" if gains and losses else "")
    return f"{changed} {said}{_exact(costs)}; {where}."


def _exact(costs: Sequence[Cost]) -> str:
    """Return what changed and has no noise: the size of the KV buffers, and how far next tokens moved."""
    said = ""
    for one in costs:
        if one.name == BUFFERS and one.a and one.b and abs(one.b / one.a - 1) >= NOTICED:
            said += f"; {one.name} {quantity(one.a, one.unit)} → {quantity(one.b, one.unit)} ({one.b / one.a - 1:+.0%})"
        elif one.name.startswith("KL") and "mean" in one.name and one.b is not None:
            said += f"; KL of next tokens {quantity(one.b, one.unit)} on average ({one.note})"
    return said


def _leading(found: Sequence[Claim], better: bool) -> list[Claim]:
    """Return the claims to name: per figure one, the median before the mean before tails."""
    order = {"p50": 0, "mean": 1, "p95": 2, "p99": 3}
    chosen: dict[tuple[str, str], Claim] = {}
    for claim in sorted(found, key=lambda one: order[one.compared.statistic]):
        if claim.better == better:
            chosen.setdefault((claim.figure.metric, claim.figure.condition), claim)
    return sorted(chosen.values(), key=found.index)


def _too_few(figures: Sequence[Figure]) -> bool:
    """Whether no figure could have carried a claim."""
    doubts = [one.doubt for figure in figures if figure.metric in MAIN and not figure.case for one in figure.compared]
    return bool(doubts) and all(doubt.startswith("too few") for doubt in doubts)


def _nearest(figures: Sequence[Figure]) -> str:
    tpot = find(figures, "tpot_ms")
    compared = statistic(tpot, "p50") if tpot else None
    return (
        f" (TPOT × {compared.ratio:.3f}, 95 % interval {compared.low:.3f} to {compared.high:.3f}"
        + (f"; {compared.doubt})" if compared.doubt.startswith("too few") else ")")
        if compared
        else ""
    )


def told(claim: Claim) -> str:
    """Return a claim: lowers TPOT p50 from 14.2 to 6.1 ms (× 0.43, 95 % interval 0.40 to 0.47, n = 16 and 16)."""
    figure, compared = claim.figure, claim.compared
    assert figure.a is not None
    assert figure.b is not None
    a, b = (getattr(side, compared.statistic) for side in (figure.a, figure.b))
    verb = "lowers" if compared.ratio < 1 else "raises"
    return (
        f"{verb} {named(figure)} {compared.statistic} from {ms(a, figure.unit)} to {ms(b, figure.unit)} "
        f"(× {ratio(compared.ratio)}, "
        f"95 % interval {ratio(compared.low)} to {ratio(compared.high)}, n = {figure.a.n} and {figure.b.n}"
        + (f", baseline against itself × {ratio(compared.aa)}" if compared.aa is not None else "")
        + ")"
    )


def findings(figures: Sequence[Figure]) -> list[str]:
    """Return a sentence for each figure of which something can be told from noise, and what is torn first."""
    said = [
        f"The {_of(gain)} gains and the {_of(loss)} loses: whether that is a gain depends on which of the two is felt."
        for gain, loss in torn(figures)[:1]
    ]
    return [*said, *(f"{'Better' if claim.better else 'Worse'}: {told(claim)}." for claim in claims(figures))]


def _of(claim: Claim) -> str:
    statistic = {"p50": "median"}.get(claim.compared.statistic, claim.compared.statistic)
    return f"{statistic} of {named(claim.figure)}"


def phase(figures: Sequence[Figure], parts: Sequence[Part]) -> list[str]:
    """Return which phase a gain or a loss came from."""
    said = []
    for condition in ("cold", "warm"):
        compared = _verdict(find(figures, "ttft_ms", condition))
        if compared is None:
            continue
        if compared.verdict == "~":
            said.append(f"Prefill, {condition} prompts: TTFT cannot be told from noise (× {ratio(compared.ratio)}).")
            continue
        said.append(_moved(condition, [one for one in parts if (one.whole, one.condition) == ("ttft", condition)]))
    compared = _verdict(find(figures, "tpot_ms"))
    if compared is not None:
        said.append(_decode(compared, {one.name: one for one in parts if one.whole == "step"}))
    return said


def _verdict(figure: Figure | None) -> Compared | None:
    return statistic(figure, "p50") if figure is not None else None


def _moved(condition: str, parts: Sequence[Part]) -> str:
    moved = [(one, one.b - one.a) for one in parts if one.a is not None and one.b is not None]
    total = sum(by for _, by in moved)
    part, by = max(moved, key=lambda pair: abs(pair[1]))
    return (
        f"Prefill, {condition} prompts: TTFT changed by {total:+,.1f} ms (sum of the parts' medians), of which {by:+,.1f} ms in "
        f"{part.name} ({ms(part.a)} → {ms(part.b)})."
    )


def _decode(compared: Compared, step: dict[str, Part]) -> str:
    if compared.verdict == "~":
        return f"Decode: TPOT cannot be told from noise (× {ratio(compared.ratio)})."
    one, tokens = step.get("one step"), step.get("tokens per step")
    said = f"Decode: TPOT × {ratio(compared.ratio)}"
    if one and one.a and one.b:
        said += f"; a step takes {ms(one.a)} → {ms(one.b)}"
    if tokens and tokens.a and tokens.b:
        said += f" and gives {tokens.a:.2f} → {tokens.b:.2f} tokens"
    drafting = step.get("  drafting")
    if drafting and drafting.b:
        said += f"; of it {ms(drafting.b)} for making drafts"
    return said + "."


def cost(costs: Sequence[Cost], manifest: Manifest) -> list[str]:
    """Return where the cost went, item by item."""
    said = []
    for one in costs:
        note = f" ({one.note})" if one.note else ""
        if not manifest.variables:
            said += [f"{one.name}: {quantity(one.a, one.unit)}{note}."] if one.a is not None else []
        elif one.name in MEMORY and one.a and one.b and abs(one.b / one.a - 1) < NOTICED:
            said.append(f"{one.name}: the same, {quantity(one.a, one.unit)}{note}.")
        else:
            change = f", {one.b / one.a - 1:+.0%}" if one.a and one.b is not None and one.name in MEMORY else ""
            said.append(f"{one.name}: {quantity(one.a, one.unit)} → {quantity(one.b, one.unit)}{change}{note}.")
    return said


def tails(figures: Sequence[Figure]) -> list[str]:
    """Return the tails with their n; one that so few samples cannot show is left out and named."""
    said, few = [], []
    for figure in figures:
        if figure.metric not in MAIN or figure.case or figure.a is None:
            continue
        sides = [side for side in (figure.a, figure.b) if side is not None]
        n = min(side.n for side in sides)
        if n < ENOUGH["p95"]:
            few.append(f"{named(figure)} ({n})")
            continue
        shown = [f"p95 {_both(sides, 'p95')}", *([f"p99 {_both(sides, 'p99')}"] if n >= ENOUGH["p99"] else [])]
        verdicts = [
            f"{one.statistic} {'cannot be told from noise' if one.verdict == '~' else one.verdict} (× {ratio(one.ratio)})"
            for one in figure.compared
            if one.statistic in ("p95", "p99")
        ]
        said.append(
            f"{named(figure)}: {', '.join(shown)}, highest {_both(sides, 'high')}; {'; '.join(verdicts)}".rstrip("; ")
            + f" (n = {n})."
        )
    if few:
        said.append(f"Too few samples for a p95 ({ENOUGH['p95']} on each side): {', '.join(few)}.")
    return said


def _both(sides: Sequence[Summary], name: str) -> str:
    return " → ".join(ms(getattr(side, name)) for side in sides)


def odd(trials: Sequence[Trial]) -> list[str]:
    """Return what failed, what was stopped, and what did otherwise than it was to."""
    said = []
    for one in trials:
        if one.unexpected:
            said.append(
                f"UNEXPECTED: {one.case}, side {one.side}: {one.unexpected} of {one.runs} runs. {one.said}".rstrip()
            )
        elif one.failed or one.cancelled:
            ended = f"{one.failed} failed" if one.failed else f"{one.cancelled} stopped"
            said.append(
                f"{one.case}, side {one.side}: {ended} as provoked, {one.ok} of {one.runs} runs whole, the turn after "
                f"included. {one.said}".rstrip()
            )
        elif one.said:
            said.append(f"{one.case}, side {one.side}: {one.ok} of {one.runs} runs whole. {one.said}")
    if not any(one.unexpected or one.failed or one.cancelled for one in trials):
        total = sum(one.runs for one in trials)
        said.append(f"All {total} runs of the comparison ended as they were to; none failed, none was stopped.")
    cases = list(dict.fromkeys(one.case for one in trials))
    if len(cases) > 1:
        said.append(f"Tried: {', '.join(cases)}.")
    return said


def words_same(same: Same | None) -> list[str]:
    """Return whether the change moved the words."""
    if same is None or not same.pairs:
        return []
    if same.equal == same.pairs:
        return [f"The replies are equal, id for id, in all {same.pairs} pairs."]
    against = f"; of the baseline against itself {same.aa_equal} of {same.aa_pairs} are" if same.aa_pairs else ""
    return [
        f"{same.equal} of {same.pairs} pairs of replies are equal{against}. Where they part, it is after "
        f"{same.first} tokens (median)."
    ]


def named(figure: Figure) -> str:
    """Return a figure's name with its condition or case."""
    of = f" ({figure.condition})" if figure.condition else ""
    return f"{figure.label}{of}" + (f" of {figure.case}" if figure.case else "")


def ratio(value: float) -> str:
    """Return a ratio with two significant digits, three near 1."""
    return f"{value:.3f}" if 0.9 < value < 1.1 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def ms(value: float | None, unit: str = "ms") -> str:
    """Return a time with three significant digits."""
    return quantity(value, unit)


def quantity(value: float | None, unit: str) -> str:
    """Return a value with its unit; a dash where there is none."""
    if value is None:
        return "—"
    if unit.startswith("of "):
        return f"{value:.1%} {unit}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 or value == 0 else 4
    return f"{value:,.{digits}f} {unit}"
