"""A report as one HTML file that needs nothing else: no script, no font, no network; light and dark.

Knows reports. Everything that comes from a bundle is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from .svg import bars, curves
from .values import Compared, Figure, Report, Summary
from .words import named, quantity, ratio

STYLE = """
:root { color-scheme: light dark; --ink: #22262d; --paper: #fbfaf7; --line: #d8d5cc; --a: #2563a8; --b: #b3541e; --bad: #a32c2c;
  --good: #2c7a3f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #d5d9df; --paper: #15171b; --line: #343a43; --a: #7fb2ea; --b: #e79a63; --bad: #ee8d84; --good: #83cf95; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; padding: 0 1rem;
  max-width: 62rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
.conclusion { font-size: 1.15rem; border-left: 4px solid var(--line); padding-left: 1rem; }
.mark { border: 1px solid var(--bad); color: var(--bad); border-radius: 6px; padding: .4rem .8rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { text-align: left; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.worse { color: var(--bad); } .better { color: var(--good); } .few { opacity: .55; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 0 1rem; font-size: .9rem; } dd { margin: 0; overflow-wrap: anywhere; }
.plots { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); }
figure { margin: 0; } figcaption { font-size: .9rem; } svg { width: 100%; height: auto; }
svg text { fill: var(--ink); font: 11px system-ui; }
.a { stroke: var(--a); fill: none; } .b { stroke: var(--b); fill: none; stroke-dasharray: 5 3; } .axis { stroke: var(--line); }
.key-a { color: var(--a); } .key-b { color: var(--b); } .part { stroke: var(--paper); fill: var(--ink); }
""".strip()
FEW, FEW_99 = 20, 100
"""Samples below which a p95 and a p99 are greyed."""
PLOTTED = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
HEAD = [
    "Figure",
    "Baseline p50",
    "p50",
    "p95",
    "p99",
    "n",
    "Ratio of p50 (95 % interval)",
    "p",
    "Baseline against itself",
    "",
]


def page(report: Report) -> str:
    """Return the file's text."""
    title = escape(f"{report.what} ({report.id})")
    answers = (
        ("Which phase it came from", report.phase_answer),
        ("Where the cost went", report.cost_answer),
        ("How it stops and rolls back", report.stop_answer),
        ("Tails and peaks", report.tails),
        ("Odd inputs, failures and recovery", report.odd),
    )
    parts = [
        f"<h1>{escape(report.what)}</h1>",
        *(f'<p class="mark">{escape(mark)}</p>' for mark in report.marks),
        f'<p class="conclusion">{escape(report.conclusion)}</p>',
        f"<p>{escape(report.why)}</p>" if report.why else "",
        _listed("What else the data carry", report.findings),
        *(_listed(heading, lines) for heading, lines in answers),
        _plots(report),
        _section("Figures", _figures(report.figures)),
        _section("Costs", _costs(report)),
        _section("Gates", _gates(report)),
        _listed("Limits of this claim", report.limits),
        _listed("Method", report.method),
        _section(
            "About", "<dl>" + "".join(f"<dt>{escape(k)}<dd>{escape(v)}" for k, v in report.about.items()) + "</dl>"
        ),
    ]
    body = "\n".join(part for part in parts if part)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
{STYLE}
</style>
{body}
<p><small>{escape(report.id)} · {escape(report.created)}</small></p>
</html>
"""


def _section(heading: str, inside: str) -> str:
    return f"<h2>{escape(heading)}</h2>\n{inside}" if inside else ""


def _listed(heading: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}" for line in lines)
    return _section(heading, f"<ul>{items}</ul>" if items else "")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already."""
    made = "".join("<tr>" + "".join(f"<td>{cell}" for cell in row) for row in rows)
    names = "".join(f"<th>{escape(name)}" for name in head)
    return f'<div class="wide"><table><tr>{names}{made}</table></div>' if made else ""


def _figures(figures: Sequence[Figure]) -> str:
    return _table(HEAD, (_row(figure) for figure in sorted(figures, key=lambda one: bool(one.case))))


def _row(figure: Figure) -> list[str]:
    side = figure.b or figure.a
    compared = next((one for one in figure.compared if one.statistic == "p50"), None)
    base = quantity(figure.a.p50, figure.unit) if figure.a and figure.b else "—"
    return [escape(named(figure)), escape(base), *_percentiles(side, figure.unit), *_compared(compared)]


def _percentiles(side: Summary | None, unit: str) -> list[str]:
    if side is None:
        return ["—"] * 4
    shown = [escape(quantity(value, unit)) for value in (side.p50, side.p95, side.p99)]
    grey = [False, side.n < FEW, side.n < FEW_99]
    return [f'<span class="few">{one}</span>' if few else one for one, few in zip(shown, grey, strict=True)] + [
        f"{side.n:,}"
    ]


def _compared(compared: Compared | None) -> list[str]:
    if compared is None:
        return [""] * 4
    found = f"× {ratio(compared.ratio)} ({ratio(compared.low)} to {ratio(compared.high)})"
    p = "" if compared.p is None else f"{compared.p:.2g}"
    aa = "" if compared.aa is None else f"× {ratio(compared.aa)}"
    return [found, p, aa, f'<span class="{escape(compared.verdict)}">{escape(compared.verdict)}</span>']


def _costs(report: Report) -> str:
    rows = [(one.name, quantity(one.a, one.unit), quantity(one.b, one.unit), one.note) for one in report.costs]
    return _table(("Cost", "a", "b", "Note"), (tuple(map(escape, row)) for row in rows))


def _gates(report: Report) -> str:
    words = {True: ("better", "holds"), False: ("worse", "fails"), None: ("few", "not judged")}
    rows = [(escape(one.gate), f'<span class="{words[one.holds][0]}">{words[one.holds][1]}</span>', escape(one.said))
            for one in report.gates]  # fmt: skip
    return _table(("Gate", "", ""), rows)


def _plots(report: Report) -> str:
    key = '<p><span class="key-a">━ a: baseline</span> &nbsp; <span class="key-b">╍ b: with the change</span></p>'
    figures = [
        f"<figure>{drawn}<figcaption>{escape(named(figure))}: share of samples below</figcaption></figure>"
        for figure in report.figures
        if figure.metric in PLOTTED
        and not figure.case
        and (
            drawn := curves(
                {"a": figure.a.curve if figure.a else (), "b": figure.b.curve if figure.b else ()}, figure.unit
            )
        )
    ]
    for condition in ("cold", "warm"):
        parts = [one for one in report.parts if (one.whole, one.condition) == ("ttft", condition)]
        sides = {"a": {one.name: one.a or 0.0 for one in parts}, "b": {one.name: one.b or 0.0 for one in parts}}
        if not any(one.b is not None for one in parts):
            del sides["b"]
        if drawn := bars(sides, "ms"):
            figures.append(f"<figure>{drawn}<figcaption>Parts of TTFT ({condition}), medians</figcaption></figure>")
    return _section("Plots", f'{key}<div class="plots">{"".join(figures)}</div>' if figures else "")
