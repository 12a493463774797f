"""A report as text: for a terminal, as Markdown, and its figures as CSV.

Knows reports and characters.
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Sequence

from ..commands.table import table
from .figures import statistic
from .plot import Look, curves, stacked
from .statistics import ENOUGH
from .values import Compared, Figure, Part, Report, Summary
from .words import named, quantity, ratio

HEAD = ("", "BASELINE p50", "p50", "p95", "p99", "n", "RATIO (95 %)", "p", "A/A", "")
ALONE = ("", "p50", "p95", "p99", "n")
LEGEND = (
    f"(…): below {ENOUGH['p95']} samples for a p95, {ENOUGH['p99']} for a p99, so a guess. A/A: the baseline over itself. "
    "~: cannot be told from noise. The prefill rate is that of the tokens that were evaluated; few make it low."
)
PLOTTED = ("ttft_ms", "itl_ms")
CSV_HEAD = (
    *(
        "metric",
        "unit",
        "sample",
        "condition",
        "case",
        "statistic",
        "a",
        "b",
        "n_a",
        "n_b",
        "ratio",
        "low",
        "high",
        "p",
    ),
    *("aa", "verdict"),
)


def text(report: Report, look: Look, width: int) -> str:
    """Return the whole report for a terminal of `width` columns."""
    blocks = [
        *(_wrapped(f"! {mark}", width) for mark in report.marks),
        _wrapped(report.conclusion, width),
        figures(report),
        _wrapped(LEGEND, width),
        *plots(report, look, width),
    ]
    for heading, lines in sections(report):
        if lines:
            blocks.append("\n".join([heading, *(_wrapped(line, width, "- ", "  ") for line in lines)]))
    return "\n\n".join(block for block in blocks if block)


def sections(report: Report) -> list[tuple[str, Sequence[str]]]:
    """Return the report's lists of sentences under their headings."""
    return [
        ("What the data carry", report.findings),
        ("Which phase it came from", report.phase_answer),
        ("Where the cost went", report.cost_answer),
        ("How it stops and rolls back", report.stop_answer),
        ("Tails and peaks", report.tails),
        ("Odd inputs, failures and recovery", report.odd),
        ("Gates", [one.said or one.gate for one in report.gates]),
        ("Limits of this claim", report.limits),
        ("Method", report.method),
        ("What was measured", [f"{label}: {said}" for label, said in report.about.items() if label != "how"]),
    ]


def _wrapped(line: str, width: int, first: str = "", later: str = "") -> str:
    return textwrap.fill(line, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


def figures(report: Report) -> str:
    """Return the figures in columns; `LEGEND` explains their signs."""
    rows = [one for one in report.figures if one.a is not None or one.b is not None]
    if any(one.b for one in rows):
        return table(HEAD, [_row(one) for one in rows])
    return table(ALONE, [(named(one), *_spread(one.a, one.unit)) for one in rows])


def _row(figure: Figure) -> tuple[str, ...]:
    compared = statistic(figure, "p50")
    base = quantity(figure.a.p50, figure.unit) if figure.a else "—"
    return (named(figure), base, *_spread(figure.b, figure.unit), *_ratio(figure, compared))


def _spread(side: Summary | None, unit: str) -> tuple[str, ...]:
    if side is None:
        return ("—", "", "", "")
    p95, p99 = (
        quantity(value, unit) if side.n >= enough else f"({quantity(value, unit)})"
        for value, enough in ((side.p95, ENOUGH["p95"]), (side.p99, ENOUGH["p99"]))
    )
    return (quantity(side.p50, unit), p95, p99, f"{side.n:,}")


def _ratio(figure: Figure, compared: Compared | None) -> tuple[str, str, str, str]:
    if compared is None:
        return ("", "", "", "")
    aa = "" if compared.aa is None else f"× {ratio(compared.aa)}"
    p = "" if compared.p is None else f"{compared.p:.2g}"
    tails = [
        f"{one.statistic} {one.verdict}"
        for one in figure.compared
        if one.statistic in ("p95", "p99") and one.verdict != "~"
    ]
    said = ", ".join([compared.verdict, *tails])
    return (f"× {ratio(compared.ratio)} ({ratio(compared.low)} to {ratio(compared.high)})", p, aa, said)


def plots(report: Report, look: Look, width: int) -> list[str]:
    """Return curves of TTFT and ITL, and the parts of TTFT as bars."""
    blocks = []
    for one in report.figures:
        if one.metric in PLOTTED and not one.case:
            sides = {side: found.curve for side, found in (("a", one.a), ("b", one.b)) if found is not None}
            drawn = curves(sides, min(width, 72), 8, one.unit, look)
            blocks.append("\n".join([f"{named(one)}: share of samples below", *drawn]))
    for condition in ("cold", "warm"):
        parts = [one for one in report.parts if (one.whole, one.condition) == ("ttft", condition)]
        bars = {side: _stack(parts, side) for side in ("a", "b")}
        bars = {side: values for side, values in bars.items() if values}
        if bars:
            blocks.append("\n".join([f"TTFT ({condition}) by part", *stacked(bars, min(width, 72), "ms", look)]))
    return blocks


def _stack(parts: Sequence[Part], side: str) -> dict[str, float]:
    values = {one.name: getattr(one, side) for one in parts}
    return {name: value for name, value in values.items() if value is not None}


def markdown(report: Report) -> str:
    """Return the report as Markdown."""
    blocks = [f"# {report.what}", *(f"**{mark}**" for mark in report.marks), f"> {report.conclusion}"]
    blocks += [report.why] if report.why else []
    compared = any(one.b for one in report.figures)
    head = HEAD if compared else ALONE
    rows = [_row(one) if compared else (named(one), *_spread(one.a, one.unit)) for one in report.figures]
    lines = [head, ("---",) * len(head), *rows]
    blocks.append("\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in lines))
    blocks.append(LEGEND)
    for heading, said in sections(report):
        if said:
            blocks.append("\n".join([f"## {heading}\n", *(f"- {line}" for line in said)]))
    return "\n\n".join(blocks) + "\n"


def comma_separated(report: Report) -> str:
    """Return the figures as CSV: a line per statistic."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for one in report.figures:
        for name in ("p50", "mean", "p95", "p99"):
            found = statistic(one, name)
            sides = [getattr(side, name) if side else "" for side in (one.a, one.b)]
            counts = [side.n if side else "" for side in (one.a, one.b)]
            tested = ["" if value is None else value for value in _tested(found)]
            writer.writerow([one.metric, one.unit, one.sample, one.condition, one.case, name, *sides, *counts, *tested])
    return out.getvalue()


def _tested(found: Compared | None) -> tuple[float | str | None, ...]:
    if found is None:
        return ("",) * 6
    return (found.ratio, found.low, found.high, found.p, found.aa, found.verdict)
