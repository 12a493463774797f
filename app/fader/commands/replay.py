"""`fader replay`: runs a bundle here, and says figure by figure what held.

Knows the lab and text streams; the new record is a bundle of its own.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TextIO

import click
import msgspec
from fader_backends.errors import BadValue

from ..lab import bundle
from ..lab.bundle import Bundle
from ..lab.experiment import Experiment
from ..lab.replay import Replay, compare
from ..lab.restore import experiment_of, locator
from ..paths import Paths
from .lab import verify_bundle
from .recording import recorded, surroundings
from .run import tell
from .table import table


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said."""

    bundle: str
    model: str | None = None
    rounds: int | None = None
    verify: bool = False
    as_json: bool = False


def replay(asked: Replayed, paths: Paths) -> int:
    """Run, print and return the exit code: 1 where an effect did not hold, 130 after Ctrl+C. Raises FaderError."""
    if asked.verify:
        return verify_bundle(asked.bundle, paths)
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr), bundle.opened(asked.bundle, paths.lab) as then:
        if not then.whole:
            raise BadValue(
                f"{then.manifest.id} is partial: {then.manifest.stopped}.", "", "There is nothing whole to repeat."
            )
        wanted = restored(then, asked.model, paths)
        if asked.rounds is not None:
            wanted = msgspec.structs.replace(wanted, rounds=asked.rounds, aa_rounds=min(wanted.aa_rounds, asked.rounds))
        now, _ = recorded(wanted, surroundings(paths, f"{then.manifest.id} run again"), paths)
        if not now.whole:
            tell(f"partial: {now.manifest.stopped}; what was measured is kept as {now.manifest.id}.")
            tell("nothing was compared. --rounds makes it shorter; below 8 no change can be told from noise.")
            return 130
        found = compare(then, now)
    show(found, asked.as_json, out)
    tell(f"kept as {now.manifest.id}: fader lab show {now.manifest.id}")
    return 0 if found.held else 1


def restored(then: Bundle, model: str | None, paths: Paths) -> Experiment:
    """Return the bundle's experiment with this machine's model and plugins. Raises FaderError."""
    from fader_plugins.registry import build

    locate = locator(then.manifest.model, model, paths, os.environ, Path.home())
    return experiment_of(then, build(paths.plugins), locate)


def show(found: Replay, as_json: bool, out: TextIO) -> None:
    """Print what held."""
    if as_json:
        click.echo(msgspec.json.encode(found).decode(), file=out)
        return
    click.echo(f"{found.bundle}, run again as {found.again}", file=out)
    click.echo("\nDifferences of environment:" if found.environment else "\nThe environment is the same.", file=out)
    for line in found.environment:
        click.echo(f"  {line}", file=out)
    rows = [(row.name, row.then, row.now, row.outcome + (f": {row.why}" if row.why else "")) for row in found.rows]
    click.echo("\n" + table(("FIGURE", "THEN", "NOW", "OUTCOME"), rows), file=out)
    if any(row.kind == "effect" for row in found.rows):
        click.echo(f"\n{summary(found)}", file=out)


def summary(found: Replay) -> str:
    """Return what became of the change's effects, those that were claimed apart from those that noise hid."""
    effects = [row for row in found.rows if row.kind == "effect"]
    claimed = [row for row in effects if not row.then.endswith("~")]
    hidden = [row for row in effects if row not in claimed]
    said = [f"{sum(row.there for row in claimed)} of {len(claimed)} effects of the change are there again."]
    if hidden:
        still = sum(row.there for row in hidden)
        said.append(f"{still} of {len(hidden)} that could not be told from noise still cannot.")
    if apart := sum(row.kind == "value" and row.outcome == "differs" for row in found.rows):
        values = "1 value differs" if apart == 1 else f"{apart} values differ"
        said.append(f"{values} taken alone; what is claimed is the change's effect.")
    return " ".join(said)
