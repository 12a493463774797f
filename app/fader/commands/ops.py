"""`fader ops`: what one token costs in operators and kernels.

Knows the engine on the caller's thread, and tables as data.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import datetime
from pathlib import Path

import click
import msgspec
from fader_backends.base import Message
from fader_backends.operators import Operators
from fader_plugins.turn import AnyEvent, Failed, Looked, PluginFault

from .. import profiles
from ..operators import rows_of
from ..paths import Paths
from ..switchboard import Switchboard
from .run import Asked, as_error, quiet, tell, throw_switches
from .setup import plugins_for, with_model
from .table import table


class OpsReport(msgspec.Struct, frozen=True, kw_only=True):
    """`fader ops --json`. Figures are per token, times in milliseconds; null is "this engine does not tell"."""

    backend: str
    model: str
    device: str
    tables: tuple[Operators, ...]


def show_operators(asked: Asked, paths: Paths, as_json: bool) -> None:
    """Load the profile's model, look into its steps, and print. Raises FaderError."""
    with redirect_stdout(sys.stderr):
        found = looked(asked, paths)
    report = OpsReport(
        backend=found.facts.backend, model=found.facts.model, device=found.facts.device, tables=found.tables
    )
    click.echo(msgspec.json.encode(report).decode() if as_json else "\n".join(lines(report)))


def looked(asked: Asked, paths: Paths) -> Looked:
    """Have an engine look into what the profile and switches ask for. Raises FaderError."""
    registry, profile = plugins_for(profiles.load(asked.profile, paths), paths)
    board = Switchboard(registry, profile)
    throw_switches(board, asked)
    board.profile = with_model(profile, asked.model, paths, os.environ, Path.home())

    from ..engine.engine import Engine

    draft = board.plan("ops", [Message("user", "")], datetime.now().astimezone())
    draft.context = msgspec.structs.replace(draft.context, rows=1, enough=draft.context.length or 256)
    ends: list[Looked | Failed] = []

    def take(event: AnyEvent) -> None:
        if isinstance(event, Looked | Failed):
            ends.append(event)
        elif isinstance(event, PluginFault):
            tell(f"plugin {event.plugin!r} failed in {event.hook}: {event.detail}")

    engine = Engine(registry, take)
    with quiet(paths.log):
        engine.look(draft.freeze(uuid.uuid4().hex, time.perf_counter_ns()))
        engine.run_until_idle()
        engine.close()
        engine.run_until_idle()
    end = ends[0]
    if isinstance(end, Failed):
        raise as_error(end.failure)
    return end


def lines(report: OpsReport) -> Iterator[str]:
    """Return the report for people."""
    yield f"{report.model} on {report.backend}: {report.device}"
    for one in report.tables:
        head, *rows = rows_of(one)
        yield ""
        yield table(head, rows)
        yield from (f"{name}: {text}" for name, text in one.facts.items())
