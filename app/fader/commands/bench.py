"""`fader bench`: runs a workload on one side or two, keeps the evidence, and prints what it comes to.

Knows the lab and text streams; its numbers are the bundle's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TextIO, TypeAlias

import click
import msgspec
from fader_backends.errors import BadValue

from .. import profiles
from ..lab import experiment, gates, table, workload
from ..lab.plot import look
from ..lab.values import Report
from ..paths import Paths
from ..switchboard import Switchboard
from .compare import makers
from .plain import plain
from .recording import recorded, surroundings
from .run import tell
from .setup import plugins_for, with_model
from .table import show_table

Form: TypeAlias = Literal["text", "json", "csv", "md"]


class Benched(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said."""

    workload: str
    baseline: str = ""
    model: str | None = None
    changes: Sequence[str] = ()
    both: Sequence[str] = ()
    allow_many: bool = False
    rounds: int | None = None
    aa_rounds: int | None = None
    output: int | None = None
    seed: int = 1
    gate: bool = False
    limits: Sequence[str] = ()
    why: str = ""
    share: str = "private"
    quality: bool = True
    form: Form = "text"
    against: Sequence[Path] = ()
    """Files of `llama-bench -o json`."""


def bench(asked: Benched, paths: Paths) -> int:
    """Run, print, and return the exit code: 1 where a gate fails, 130 after Ctrl+C. Raises FaderError."""
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        return _bench_on(out, asked, paths)


def _bench_on(out: TextIO, asked: Benched, paths: Paths) -> int:
    from ..lab.foreign import foreign_rows, read_llama_bench

    foreign = [row for path in asked.against for row in read_llama_bench(_text(path), str(path))]
    wanted, limits = prepared(asked, paths)
    around = surroundings(paths, asked.why, share=asked.share, gates=limits)
    made, found = recorded(wanted, around, paths, asked.quality)
    show(found, asked.form, out)
    if foreign:
        click.echo("\nmeasured by other programs, elsewhere or otherwise: no baseline of this run", file=out)
        for row in foreign_rows(foreign):
            click.echo("  ".join(row), file=out)
    tell(f"kept as {made.manifest.id}: fader lab show {made.manifest.id}, or fader lab open {made.manifest.id}")
    return _code(found, asked.gate, made.manifest.state == "partial", made.manifest.stopped)


def _code(found: Report, gated: bool, partial: bool, stopped: str) -> int:
    if partial:
        tell(f"partial: {stopped}; no claim may rest on it.")
        return 130 if stopped == "it was interrupted" else 1
    failed = [one for one in found.gates if not one.holds]
    for one in failed:
        tell(f"gate {'not judged' if one.holds is None else 'failed'}: {one.said or one.gate}")
    return 1 if gated and failed else 0


def prepared(asked: Benched, paths: Paths) -> tuple[experiment.Experiment, tuple[str, ...]]:
    """Return what to run and the limits that are not the workload's own. Raises FaderError before anything starts."""
    load = workload.load(asked.workload, paths)
    if asked.output is not None:
        load = msgspec.structs.replace(load, output=asked.output)
    profile = profiles.load(asked.baseline, paths)
    registry, profile = plugins_for(profile, paths)
    board = Switchboard(registry, profile)
    board.backend()
    limits = (*profile.gates, *asked.limits)
    for text in (*load.gates, *limits):
        gates.parse(text)
    if asked.gate and not (load.gates or limits):
        step = 'Add --limit "tpot <= 1.02 x baseline", or `gates` to the workload or the profile.'
        raise BadValue("--gate: there is no limit to keep.", "", step)
    board.profile = with_model(profile, asked.model, paths, os.environ, Path.home())
    wanted = experiment.build(
        load,
        board,
        asked.changes,
        makers(registry, paths),
        both=asked.both,
        many=asked.allow_many,
        seed=asked.seed,
        rounds=asked.rounds,
        aa_rounds=asked.aa_rounds,
    )
    return wanted, limits


def show(found: Report, form: Form, out: TextIO) -> None:
    """Print a report on `out`."""
    if form == "json":
        click.echo(msgspec.json.encode(found).decode(), file=out)
    elif form == "csv":
        click.echo(table.comma_separated(found), file=out, nl=False)
    elif form == "md":
        click.echo(plain(table.markdown(found), out), file=out, nl=False)
    else:
        terminal = out.isatty()
        width = min(shutil.get_terminal_size((100, 24)).columns, 120) if terminal else 110
        seen = look(os.environ, terminal, getattr(out, "encoding", None))
        click.echo(table.text(found, seen, width), file=out)


def list_workloads(paths: Paths) -> None:
    """Print the workloads there are."""
    rows = []
    for name in workload.names(paths):
        one = workload.load(name, paths)
        rows.append((name, f"{one.rounds} x {one.turns}", f"{one.output}", one.summary))
    show_table(("WORKLOAD", "TURNS", "TOKENS", "WHAT IT DOES"), rows)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadValue(f"{path} cannot be read: {error}.", "", "Name what llama-bench -o json wrote.") from error
