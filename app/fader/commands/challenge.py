"""`fader challenge`: searches inputs that overturn a bundle's claim, and puts what it finds into the bundle.

Knows the lab and text streams.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

import click
import msgspec
from fader_backends.errors import BadValue

from ..lab import bundle
from ..lab.chat_words import bench_hint
from ..lab.counter import Challenge
from ..lab.search import Tried
from ..paths import Paths
from .compare import makers
from .recording import seats, surroundings
from .replay import restored
from .run import quiet, stopped_by_interrupt, tell


class Challenged(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said."""

    bundle: str
    model: str | None = None
    trials: int = 24
    seed: int = 1
    as_json: bool = False


def challenge(asked: Challenged, paths: Paths) -> int:
    """Search, keep, print; return 1 where a counter-example was found, 130 after Ctrl+C. Raises FaderError."""
    if asked.bundle.lower().endswith(".zip"):
        raise BadValue(
            "A zip is only read; what is found has to go into a folder.", "", "Unpack it, and name the folder."
        )
    out, err = sys.stdout, sys.stderr
    with contextlib.redirect_stdout(sys.stderr), bundle.opened(asked.bundle, paths.lab) as one:
        if one.manifest.origin == "chat":
            step = f"Measure it first: {bench_hint(one.manifest)}"
            raise BadValue(
                f"{one.manifest.id} was made from a chat and claims nothing that could be overturned.", "", step
            )
        from ..lab.challenge import Bench, claim_of, dimensions_of
        from ..lab.challenge import challenge as search

        claim, wanted = claim_of(one), restored(one, asked.model, paths)
        around = surroundings(paths, f"does {claim.told()} of {one.manifest.id} hold here?")
        bench = Bench(
            claim,
            wanted,
            msgspec.structs.replace(around, lab=paths.lab / ".challenge"),
            seats(paths),
            makers(wanted.boards["a"].registry, paths),
            asked.seed,
            heard=lambda tried, count: _tell(tried, count, asked.trials, err),
            checking=lambda point: tell(f"measured in full, which takes minutes: {point.told()}", err),
        )
        tell(f"the claim: {claim.told()}")
        began = time.perf_counter()
        with quiet(paths.log), stopped_by_interrupt(bench.stop):
            made, found = search(one, bench, asked.trials, dimensions_of(claim, wanted))
    _show(found, time.perf_counter() - began, asked.as_json, out)
    tell(f"kept in {made.manifest.id}: fader lab show {made.manifest.id}")
    return 130 if found.stopped else 1 if found.counter else 0


def _tell(tried: Tried, count: int, of: int, err: TextIO) -> None:
    said = f"× {tried.ratio:.2f}" if tried.ratio is not None else f"not run: {tried.why}"
    tell(f"{count} of {of}  {said}  {tried.point.told()}", err)


def _show(found: Challenge, seconds: float, as_json: bool, out: TextIO) -> None:
    if as_json:
        click.echo(msgspec.json.encode(found).decode(), file=out)
        return
    ended = ", broken off" if found.stopped else ""
    did = f"{len(found.tried)} inputs tried, {found.checked} of them measured in full, in {seconds:,.0f} s{ended}"
    if found.counter is None:
        click.echo(f"No counter-example to the claim ({found.claim}). {did}.", file=out)
        return
    word = "turned round" if found.counter.grade == "reversed" else "gone"
    click.echo(f"A counter-example: the claim ({found.claim}) is {word}.\n\n{found.counter.said}\n\n{did}.", file=out)
    click.echo(f"Its evidence: {found.counter.folder} in the bundle.", file=out)
