"""`fader run`: one question, its answer on stdout, everything else on stderr.

Knows the engine in its own process and text streams; keeps no conversation.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

import click
import fader_backends.errors as errors
import msgspec
from fader_backends.base import Message
from fader_backends.errors import BadValue, EmptyPrompt, FaderError, Failure, NotSupported, UsageError
from fader_plugins.turn import (
    AnyEvent,
    Failed,
    Finished,
    GenerationRequest,
    PluginFault,
    PluginState,
    RequestDraft,
    Token,
    Trimmed,
)

from .. import profiles
from ..log import write_log
from ..metrics import Stats
from ..notices import left_out
from ..paths import Paths
from ..report import report
from ..switchboard import Switchboard
from .plain import plain
from .setup import plugins_for, with_model

if TYPE_CHECKING:
    from ..engine.engine import Engine


TEMPLATE_ROOM = 2048
"""Tokens that a chat template may add to what was asked."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line said."""

    prompt: str | None = None
    system: str | None = None
    profile: str = ""
    model: str | None = None
    json: bool = False
    seed: int | None = None
    temperature: float | None = None
    options: Sequence[str] = ()
    """`plugin.key=value`, each."""
    on: Sequence[str] = ()
    off: Sequence[str] = ()
    max_tokens: int | None = None
    ignore_end: bool = False
    logprobs: int | None = None
    """Of how many candidates per token the object of `--json` tells."""


def run(asked: Asked, paths: Paths) -> int:
    """Answer, and return the exit code. Raises FaderError.

    What plugins print goes to stderr: stdout is the answer's alone.
    """
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        return answer_on(out, asked, paths)


def answer_on(out: TextIO, asked: Asked, paths: Paths) -> int:
    """Answer on `out`, and return the exit code. Raises FaderError."""
    profile = profiles.load(asked.profile, paths)
    registry, profile = plugins_for(profile, paths)
    if len(registry.problems) == 1:
        tell(f"plugin {registry.problems[0].plugin!r}: {registry.problems[0].detail}")
    elif registry.problems:
        tell(f"{len(registry.problems)} plugins have problems; see: fader plugins list")
    board = Switchboard(registry, profile)
    throw_switches(board, asked)
    prompt = whole_prompt(asked.prompt)
    board.profile = with_model(profile, asked.model, paths, os.environ, Path.home())

    from ..engine.engine import Engine  # before the clock starts

    system = profile.system if asked.system is None else asked.system
    told = [Message("system", checked(system, "The system prompt"))] if system else []
    draft = board.plan("run", [*told, Message("user", prompt)], datetime.now().astimezone())
    draft.max_tokens = asked.max_tokens or draft.max_tokens
    draft.ignore_end = asked.ignore_end
    draft.context = msgspec.structs.replace(draft.context, rows=1, enough=enough_for(draft))
    request = draft.freeze(uuid.uuid4().hex, time.perf_counter_ns())

    answer = Answer(request, None if asked.json else out, sys.stderr)
    engine = Engine(registry, answer.take)
    answer.engine = engine
    with quiet(paths.log), stopped_by_interrupt(lambda: engine.cancel(request.id)):
        engine.submit(request)
        engine.run_until_idle()
        engine.close()
        engine.run_until_idle()
    if answer.broken is not None:
        raise answer.broken
    if answer.failure is not None:
        raise as_error(answer.failure)
    if asked.json:
        print_json(msgspec.json.encode(report(answer.stats, paths.hashes)), out)
    reason = answer.stats.numbers().finish_reason
    if reason == "context":
        tell("The context is full, so the answer ends here. Raise context.length in the profile, or ask for less.")
    return 130 if reason == "cancelled" else 0


def enough_for(draft: RequestDraft) -> int:
    """Return a length that one answer cannot outgrow (no token is less than a byte), 0 where its own has no limit."""
    if draft.max_tokens is None:
        return 0
    return TEMPLATE_ROOM + sum(len(message.content.encode()) for message in draft.messages) + draft.max_tokens


NOTHING = PluginState(False, {})


def throw_switches(board: Switchboard, asked: Asked) -> None:
    """Apply what the command line says of plugins; what is said outright wins over shorthands. Raises UsageError.

    A run keeps no prefixes for later ones, unless told to: its numbers would depend on what was run before.
    """
    for key in ("memory_mib", "disk_mib"):
        if key in board.states.get("prefix_cache", NOTHING).settings:
            board.set("prefix_cache", key, 0)
    if asked.temperature is not None:
        board.switch("sampler", True)
        board.set("sampler", "temperature", asked.temperature)
    if asked.seed is not None:
        board.set("sampler", "seed", asked.seed)
    if asked.logprobs is not None:
        if not asked.json:
            raise UsageError("--logprobs needs --json.", "", "Add --json: the candidates are part of its object.")
        board.switch("logprobs", True)
        board.set("logprobs", "top", asked.logprobs)
    for option in asked.options:
        place, equals, value = option.partition("=")
        plugin, dot, key = place.strip().partition(".")
        if not (equals and dot and plugin and key):
            raise BadValue(f"-o {option!r} is not plugin.key=value.", "", "Write for example -o sampler.top_k=20.")
        board.set(plugin, key, value)
    for name in asked.on:
        board.switch(name, True)
        if (lacking := board.lacking(name)) is not None:
            raise NotSupported(
                f"{name} cannot be switched on here.", f"{lacking.rstrip('.')}.", f"Leave out --on {name}."
            )
    for name in asked.off:
        board.switch(name, False)


def whole_prompt(given: str | None) -> str:
    """Return what stdin holds, then the prompt given; a terminal is not read unless the prompt is `-`."""
    parts = []
    if sys.stdin is not None and (given == "-" or not sys.stdin.isatty()):
        data = sys.stdin.buffer.read()
        try:
            parts.append(data.decode("utf-8-sig").replace("\r\n", "\n").strip("\n"))
        except UnicodeDecodeError as error:
            reason = f"Stdin is not UTF-8 text: byte {error.start + 1:,} is 0x{data[error.start]:02x}."
            raise BadValue(reason, "", "Convert it first, for example with iconv.") from error
    if given is not None and given != "-":
        parts.append(checked(given, "The prompt"))
    prompt = "\n\n".join(part for part in parts if part.strip())
    if not prompt:
        raise EmptyPrompt("There is nothing to ask.", "", 'Write fader run "your question", or pipe text in.')
    return prompt


def checked(text: str, what: str) -> str:
    """Return `text`. Raises BadValue when the shell handed over bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadValue(f"{what} is not UTF-8 text.", "", "Check the terminal's encoding.") from error
    return text


class Answer:
    """Takes the events of the turn: text goes to `out` as it comes (None: nowhere), faults to `err`."""

    def __init__(self, request: GenerationRequest, out: TextIO | None, err: TextIO) -> None:
        self._stats = Stats(request=request)
        self._unread: list[AnyEvent] = []
        self.out = out
        self.err = err
        self.engine: Engine | None = None
        self.failure: Failure | None = None
        self.broken: OSError | None = None
        """Why nothing more can be written: the reader went away, or the disk is full."""

    @property
    def stats(self) -> Stats:
        """What is known of the turn. Folding waits until somebody asks, so that tokens need not wait for it."""
        for event in self._unread:
            self._stats.fold(event)
        self._unread.clear()
        return self._stats

    def take(self, event: AnyEvent) -> None:
        """Take one event. Must not raise: the engine is in the middle of its work."""
        self._unread.append(event)
        match event:
            case Token():
                self._write(event.text)
            case Finished(text=text):
                self._write(text + ("" if (self.stats.text or "\n").endswith("\n") else "\n"))
            case Failed(failure=failure, text=text):
                self.failure = failure
                self._write(text + ("\n" if self.stats.text else ""))
            case Trimmed():
                tell(str(as_error(left_out(event))), self.err)
            case PluginFault():
                tell(f"plugin {event.plugin!r} failed in {event.hook}: {event.detail}", self.err)

    def _write(self, text: str) -> None:
        if self.out is None or self.broken is not None or not text:
            return
        try:
            self.out.write(plain(text, self.out))
            self.out.flush()
        except OSError as error:
            self.broken = error
            if self.engine is not None:
                self.engine.cancel(self._stats.request.id)


@contextmanager
def stopped_by_interrupt(end: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl+C call `end`, which ends the answer where it is, and the second one end the program."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        end()

    try:
        before = signal.signal(signal.SIGINT, stop)
    except ValueError:  # not on the main thread, where nobody sends signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Send what anything inside prints on stderr to the log."""
    heard = io.StringIO()
    try:
        with redirect_stderr(heard):
            yield
    finally:
        if heard.getvalue():
            write_log(log, heard.getvalue(), datetime.now().astimezone())


def as_error(failure: Failure) -> FaderError:
    """Return a failure as the error it was."""
    kind = getattr(errors, failure.kind, FaderError)
    error = FaderError(failure.title, failure.detail, failure.next_step, failure.plugin)
    error.exit_code = kind.exit_code if isinstance(kind, type) and issubclass(kind, FaderError) else 1
    return error


def tell(line: str, err: TextIO | None = None) -> None:
    """Print one line on stderr."""
    stream = err or sys.stderr
    stream.write(f"fader: {' '.join(line.split())}\n")
    stream.flush()


def print_json(data: bytes, out: TextIO) -> None:
    """Print one JSON value on a line."""
    click.echo(data.decode(), file=out)
