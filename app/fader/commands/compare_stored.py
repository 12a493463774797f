"""`fader compare list`, `show` and `results`: what was compared before, and what won.

Knows the store; runs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO

import click
import msgspec

from ..compare import export
from ..compare.figures import lines
from ..compare.report import Report, report
from ..compare.tally import standings
from ..compare.values import decode
from ..paths import Paths
from ..store import Store
from .plain import plain
from .table import table


@contextmanager
def opened(paths: Paths) -> Iterator[Store]:
    """Give the store. Raises StoreError."""
    store = Store.open(paths.database, lambda: datetime.now().astimezone())
    try:
        if store.notice:
            click.echo(f"fader: {store.notice}", err=True)
        yield store
    finally:
        store.close()


def list_comparisons(count: int, paths: Paths, as_json: bool) -> None:
    """Print stored comparisons, the newest first."""
    with opened(paths) as store:
        found = store.comparisons(count)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    elif not found:
        click.echo('fader: no comparisons yet. Make one: fader compare "question" --sweep "seed x3"', err=True)
    else:
        rows = [[str(one.id), f"{one.created:%Y-%m-%d %H:%M}", str(one.columns), one.title] for one in found]
        click.echo(plain(table(["number", "created", "columns", "question"], rows), sys.stdout))


def show_comparison(number: int, exports: Sequence[Path], paths: Paths, as_json: bool) -> None:
    """Print a stored comparison, or write it to files. Raises UnknownName, StoreError, BadValue."""
    for path in exports:
        export.check(path)
    with opened(paths) as store:
        told = report(decode(store.comparison(number), str(number)))
    for path in exports:
        export.write(told, path)
        click.echo(str(path))
    if as_json:
        click.echo(msgspec.json.encode(told).decode())
    elif not exports:
        print_text(told, sys.stdout)


def show_results(paths: Paths, as_json: bool) -> None:
    """Print which settings won blind choices."""
    with opened(paths) as store:
        rows = standings(store.choices())
    if as_json:
        click.echo(msgspec.json.encode(rows).decode())
    elif not rows:
        click.echo("fader: no blind choices yet. In the chat: /compare, then F9 hides which column is which.", err=True)
    else:
        cells = [
            [
                row.setting,
                str(row.shown),
                str(row.won),
                f"{row.share:.0%}",
                f"{row.low:.0%} to {row.high:.0%}",
                f"{row.expected:.0%}",
            ]
            for row in rows
        ]
        click.echo(plain(table(["setting", "shown", "won", "share", "95 % interval", "by chance"], cells), sys.stdout))


def print_text(told: Report, out: TextIO) -> None:
    """Print a comparison for people: each answer under its column's title, then the numbers, then where they part."""
    blocks = [f"--- {one.letter}: {one.title}\n{one.text.rstrip()}\n" for one in told.columns if one.text]
    shown = [column for column in told.columns if column.figures is not None]
    found = [dict(lines(column.figures)) for column in shown if column.figures is not None]
    labels = list(dict.fromkeys(label for one in found for label in one))
    cells = [[label, *(one.get(label, "—") for one in found)] for label in labels]
    blocks.append(table(["", *(column.letter for column in shown)], cells))
    blocks += [f"{column.letter} {column.parts.line}" for column in told.columns if column.parts is not None]
    blocks += [f"{column.letter} {column.alone}" for column in told.columns if column.alone]
    blocks.append(f"run {told.mode}; {told.model}, profile {told.profile}, seed {told.seed}")
    out.write(plain("\n".join(blocks) + "\n", out))
    out.flush()
