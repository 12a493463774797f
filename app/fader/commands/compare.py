"""`fader compare`: one question under several settings, all answers on stdout, everything else on stderr.

Knows the engine in its own process; keeps the comparison, but no conversation.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TextIO

import msgspec
from fader_backends.base import Message
from fader_backends.errors import FaderError
from fader_plugins.registry import Registry
from fader_plugins.turn import AnyEvent, PluginFault

from .. import profiles
from ..compare import export, make, spec
from ..compare.asked import Asked as Question
from ..compare.column import Column
from ..compare.report import Report, report
from ..compare.sides import SideBySide
from ..compare.values import Comparison, encode
from ..paths import Paths
from ..profiles import Profile
from ..switchboard import Switchboard
from .compare_stored import print_text
from .run import (
    Asked,
    checked,
    enough_for,
    print_json,
    quiet,
    stopped_by_interrupt,
    tell,
    throw_switches,
    whole_prompt,
)
from .setup import plugins_for, with_model


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said."""

    base: Asked
    """What holds for every column."""
    columns: Sequence[str] = ()
    sweeps: Sequence[str] = ()
    fair: bool = False
    exports: Sequence[Path] = ()
    store: bool = True


def makers(registry: Registry, paths: Paths, *, needed: bool = True) -> spec.Makers:
    """Return how a column's profile and model are found. Unless `needed`, the embedded model stays a name."""
    return spec.Makers(
        lambda name: plugins_for(profiles.load(name, paths), paths, registry)[1],
        lambda profile: with_model(profile, None, paths, os.environ, Path.home(), needed=needed),
    )


def run(compared: Compared, paths: Paths) -> int:
    """Answer in every column, and return the exit code: 1 when one failed. Raises FaderError."""
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        return run_on(out, compared, paths)


def run_on(out: TextIO, compared: Compared, paths: Paths) -> int:
    """Answer on `out`, and return the exit code. Raises FaderError."""
    base = compared.base
    for path in compared.exports:
        export.check(path)
    profile = profiles.load(base.profile, paths)
    registry, profile = plugins_for(profile, paths)
    board = Switchboard(registry, profile)
    throw_switches(board, base)
    seed = secrets.randbits(32) if base.seed is None else base.seed
    changes = [spec.parse(text) for text in compared.columns]
    changes += [one for text in compared.sweeps for one in spec.sweep(text, board, seed)]
    made = makers(registry, paths)
    columns = make.columns(board, changes, made)  # before stdin is read: what cannot be meant need not wait for it
    prompt = whole_prompt(base.prompt)
    board.profile = _profile(with_model(profile, base.model, paths, os.environ, Path.home()), base)
    columns = make.columns(board, changes, made)

    from ..engine.engine import Engine  # before the clock starts

    question = Question(
        owner="compare",
        messages=(Message("user", prompt),),
        now=datetime.now().astimezone(),
        seed=seed,
        rows=1 if compared.fair else len(columns),
        change={"ignore_end": base.ignore_end},
    )
    question = msgspec.structs.replace(question, enough=_enough(columns, question))
    engine = Engine(registry, lambda event: hear(event))
    side = SideBySide(
        columns, question, engine, nanoseconds=time.perf_counter_ns, new_id=lambda: uuid.uuid4().hex, fair=compared.fair
    )
    stopping = False

    def hear(event: AnyEvent) -> None:
        if isinstance(event, PluginFault):
            tell(f"plugin {event.plugin!r} failed in {event.hook}: {event.detail}", sys.stderr)
        side.on_event(event)
        if stopping:
            side.stop_all()

    def stop() -> None:
        nonlocal stopping
        stopping = True  # the columns are told between two events, which the engine's own cancel brings about
        for request_id in side.running:
            engine.cancel(request_id)

    for one, other in side.same():
        tell(f"{one.letter} and {other.letter} differ in nothing: {one.title!r} and {other.title!r}.")
    with quiet(paths.log), stopped_by_interrupt(stop):
        side.start()
        engine.run_until_idle()
        engine.close()
        engine.run_until_idle()
    return _finish(out, compared, side, board.profile.name, paths, stopping)


def _enough(columns: Sequence[Column], question: Question) -> int:
    """Return a context length that all columns together cannot outgrow, 0 where one has no limit."""
    lengths = []
    for column in columns:
        if column.board is not None:
            with contextlib.suppress(FaderError):  # it fails by itself, when its turn comes
                lengths.append(enough_for(column.draft(question)))
    return sum(lengths) if all(lengths) else 0


def _profile(profile: Profile, base: Asked) -> Profile:
    """Return the profile with the system prompt and the length that the command line asks for."""
    if base.system is not None:
        profile = msgspec.structs.replace(profile, system=checked(base.system, "The system prompt"))
    return msgspec.structs.replace(profile, max_tokens=base.max_tokens or profile.max_tokens)


def _finish(out: TextIO, compared: Compared, side: SideBySide, profile: str, paths: Paths, stopped: bool) -> int:
    comparison = make.stored(side, datetime.now().astimezone(), profile)
    told: Report = report(comparison)
    for column in told.columns:
        for line in filter(None, (column.note, column.failure)):
            tell(f"column {column.letter} ({column.title}): {line}")
    if any(column.answer for column in comparison.columns):
        if compared.base.json:
            print_json(msgspec.json.encode(told), out)
        else:
            print_text(told, out)
        for path in compared.exports:
            export.write(told, path)
        if compared.store:
            _store(comparison, paths)
    if stopped:
        return 130
    return 1 if any(column.state == "failed" for column in side.columns) else 0


def _store(comparison: Comparison, paths: Paths) -> None:
    """Keep the comparison; what it costs when that fails is one line, for the answers are out already."""
    from ..store import Store

    try:
        store = Store.open(paths.database, lambda: datetime.now().astimezone())
        try:
            number = store.put_comparison(encode(comparison), comparison.prompt, len(comparison.columns), None)
        finally:
            store.close()
    except FaderError as error:
        tell(f"the comparison was not kept: {error}")
        return
    tell(f"kept as comparison {number}: fader compare show {number}, or /compare #{number} in the chat")
