"""A comparison as one HTML file that needs nothing else: no script, no font, no network.

Knows reports.
"""

from __future__ import annotations

from html import escape

from .differ import words
from .figures import lines
from .report import ColumnReport, Report

STYLE = """
:root { color-scheme: light dark; --ink: #22262d; --paper: #fbfaf7; --line: #d8d5cc; --new: #d8efd3; --gone: #f6d9d5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #d5d9df; --paper: #15171b; --line: #343a43; --new: #21402a; --gone: #4a2724; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; padding: 0 1rem;
  max-width: 110rem; }
blockquote { border-left: 4px solid var(--line); margin: 1rem 0; padding-left: 1rem; white-space: pre-wrap; }
.columns { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); }
section { border: 1px solid var(--line); border-radius: 6px; padding: 0 1rem 1rem; min-width: 0; }
h2 { font-size: 1rem; } code { overflow-wrap: anywhere; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; }
.note { font-style: italic; opacity: .8; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 0 1rem; font-variant-numeric: tabular-nums; font-size: .9rem; }
dd { margin: 0; } ins { background: var(--new); } del { background: var(--gone); }
""".strip()


def page(report: Report) -> str:
    """Return the file's text. A word that column A lacks is marked as inserted, one that only A has as deleted."""
    about = [report.model, f"profile {report.profile}", f"{report.created:%Y-%m-%d %H:%M}", f"run {report.mode}"]
    first = report.columns[0].text if report.columns else ""
    sections = "\n".join(_section(column, first, column.letter == report.kept) for column in report.columns)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Comparison</title>
<style>
{STYLE}
</style>
<h1>Comparison</h1>
<blockquote>{escape(report.prompt)}</blockquote>
<p>{escape(" · ".join(part for part in about if part))}</p>
<div class="columns">
{sections}
</div>
</html>
"""


def _section(column: ColumnReport, first: str, kept: bool) -> str:
    notes = [column.note, column.alone, column.failure and f"Failed: {column.failure}"]
    notes += [f"Against A it {column.parts.line}."] if column.parts else []
    figures = lines(column.figures) if column.figures else []
    shown = "".join(f"<dt>{escape(label)}<dd>{escape(value)}" for label, value in figures)
    said = "".join(f'<p class="note">{escape(note)}</p>' for note in notes if note)
    plain = column.letter == "A" or not first
    body = escape(column.text) if plain else "".join(_marked(kind, text) for kind, text in words(first, column.text))
    return (
        f"<section><h2>{column.letter}: <code>{escape(column.title)}</code>{' (kept)' if kept else ''}</h2>"
        f'<dl>{shown}</dl>{said}<div class="text">{body}</div></section>'
    )


def _marked(kind: str, text: str) -> str:
    tag = {"same": "", "gone": "del", "new": "ins"}[kind]
    return f"<{tag}>{escape(text)}</{tag}>" if tag else escape(text)
