"""A comparison as Markdown and as JSON, and which form a file's name asks for.

Knows reports, not where files go.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from fader_backends.errors import BadValue, StoreError

from .differ import words
from .figures import lines
from .page import page
from .report import ColumnReport, Report

FORMS = (".md", ".json", ".html")


def check(path: Path) -> None:
    """Raise BadValue when a file's name does not say what to write."""
    if path.suffix.lower() not in FORMS:
        raise BadValue(f"{path} does not say what to write.", "", "Let its name end in .md, .json or .html.")


def write(report: Report, path: Path) -> None:
    """Write a report as the file's ending says. Raises BadValue for another ending, StoreError."""
    path = path.expanduser()
    check(path)
    form = {".md": markdown, ".json": json, ".html": page}[path.suffix.lower()]
    try:
        path.write_text(form(report), encoding="utf-8", newline="\n")
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror or error}.", "", "Choose another place.") from error


def json(report: Report) -> str:
    """Return one JSON object."""
    return msgspec.json.encode(report).decode()


def markdown(report: Report) -> str:
    """Return a page of Markdown: the question, a table of numbers, each reply, and where they part."""
    about = [report.model, f"profile {report.profile}", f"{report.created:%Y-%m-%d %H:%M}", f"run {report.mode}"]
    blocks = [
        "# Comparison",
        _quoted(report.prompt),
        " · ".join(part for part in about if part),
        _table(report.columns),
    ]
    for column in report.columns:
        blocks.append(
            f"## {column.letter}: {_code(column.title)}" + (" (kept)" if column.letter == report.kept else "")
        )
        notes = [column.note, column.alone, column.failure and f"Failed: {column.failure}"]
        notes += [f"Against A it {column.parts.line}."] if column.parts else []
        blocks += [f"*{_escaped(note)}*" for note in notes if note]
        if column.text:
            blocks.append(_quoted(column.text))
        if column.parts and report.columns[0].text:
            blocks.append("Against A: " + _diff(report.columns[0].text, column.text))
    return "\n\n".join(blocks) + "\n"


def _table(columns: Sequence[ColumnReport]) -> str:
    found = [dict(lines(column.figures)) if column.figures else {} for column in columns]
    labels = list(dict.fromkeys(label for one in found for label in one))
    rows = [["", *(f"{column.letter}: {_code(column.title)}" for column in columns)]]
    rows.append(["---"] + ["---:"] * len(columns))
    rows += [[label, *(one.get(label, "—") for one in found)] for label in labels]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines() or [""])


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _escaped(text: str) -> str:
    return "".join(f"\\{one}" if one in "\\`*_[]<>" else one for one in text)


def _diff(one: str, other: str) -> str:
    marks = {"same": ("", ""), "gone": ("~~", "~~"), "new": ("**", "**")}
    out = []
    for kind, text in words(one, other):
        flat = _escaped(" ".join(text.split()))
        if flat:
            out.append(f"{marks[kind][0]}{flat}{marks[kind][1]}")
    return " ".join(out)
