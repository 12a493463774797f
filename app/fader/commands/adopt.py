"""`fader adopt` and `fader rollback`: a measured change into a profile while its gates hold, and back, with proof.

Knows the lab and text streams.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
from fader_backends.errors import FaderError

from .. import profiles
from ..lab import adopt as lab
from ..lab import bundle
from ..lab.experiment import valued
from ..paths import Paths
from ..switchboard import Switchboard
from .compare import makers
from .run import quiet, tell
from .setup import plugins_for, with_model


def adopt(name: str, profile: str, limits: Sequence[str], paths: Paths) -> None:
    """Write the bundle's change into a profile, print the gates and the file. Raises FaderError: nothing was written."""
    with bundle.opened(name, paths.lab) as one:
        lab.check(one, results := lab.judged(one, limits))
        wanted = profile or one.manifest.profiles[0]
        registry, loaded = plugins_for(profiles.load(wanted, paths), paths)
        board = Switchboard(registry, loaded)
        for gate in results:
            tell(gate.said)
        done = lab.adopt(one, board, wanted, paths, makers(registry, paths), datetime.now().astimezone())
    tell(f"adopted into {lab.told(done)}")
    tell("the former version is kept: fader rollback")
    click.echo(done.path)


def rollback(profile: str, force: bool, paths: Paths) -> None:
    """Restore a profile and prove it with one turn. Raises FaderError; what is said tells whether it was restored."""
    from ..lab.proof import prove

    done = lab.rollback(profile, paths, force)
    tell(f"{done.path}: {'as it was' if done.former is not None else 'removed'} before {done.bundle}")
    try:
        registry, loaded = plugins_for(profiles.load(done.profile, paths), paths)
        board = Switchboard(registry, with_model(loaded, None, paths, os.environ, Path.home()))
        with quiet(paths.log), contextlib.redirect_stdout(sys.stderr):
            numbers = prove(board, done.variables)
    except FaderError as error:
        error.title = f"Restored, but not proved: {error.title}"
        raise
    back = ", ".join(f"{one.key} {valued(one.before)}" for one in done.variables)
    speed = (
        f", TTFT {numbers.ttft_ms:,.0f} ms, TPOT {numbers.tpot_ms:,.1f} ms"
        if numbers.ttft_ms and numbers.tpot_ms
        else ""
    )
    click.echo(f"{done.profile}: a turn of {numbers.output_tokens} tokens ran with {back}{speed}")
