"""Prints rows in columns.

Knows text widths, not what the rows are about.
"""

from __future__ import annotations

from collections.abc import Sequence

import click


def show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head; the last column is not padded."""
    click.echo(table(head, rows))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under a head as lines; the last column is not padded."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head) - 1)]
    lines = []
    for row in [head, *rows]:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines)
