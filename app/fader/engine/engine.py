"""`Engine`: owns the model; requests in, events out. The same object runs in its own process and inside `fader run`.

Knows no pipe, no store, no screen. One thread calls `run` or `run_until_idle`; `submit`, `cancel` and `close` may be called
from any.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from functools import partial

from fader_backends.base import Backend, Extension, SamplerSettings, Scored, Session
from fader_backends.errors import FaderError, Interrupted, OutOfMemory
from fader_plugins.calls import Hooks
from fader_plugins.registry import Registry
from fader_plugins.turn import AnyEvent, GenerationRequest

from .ahead import Ahead
from .announce import Announcer, difference_of
from .beginning import beginning
from .faults import Faults
from .fitting import fit
from .inbox import LOOKING, Look, Wish, request_of
from .model import LoadedModel
from .row import Row
from .scheduler import choose
from .sessions import Sessions
from .sharing import awaits, take_over

Evaluated = tuple[Row, Extension, Scored, int, int]
"""A row, its part of a batch, the scores, the nanoseconds the batch took, and its tokens."""


class Engine:
    """Runs turns. `emit` gets every event, on the engine's thread; `clock` is in nanoseconds."""

    def __init__(
        self, registry: Registry, emit: Callable[[AnyEvent], None], clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.registry = registry
        self.emit = emit
        self.clock = clock
        self.model = LoadedModel(registry, emit, clock)
        self.tell = Announcer(emit, clock, self.model.memory, self.model.graph)
        self._inbox: queue.SimpleQueue[GenerationRequest | Wish | Look | None] = queue.SimpleQueue()
        self._coming: set[str] = set()  # what lies in the inbox, wishes aside
        self._waiting: list[GenerationRequest | Look] = []
        self._rows: list[Row] = []
        self._sessions = Sessions()
        self._ahead = Ahead(self._sessions)
        self._adjustments: queue.SimpleQueue[tuple[str, SamplerSettings]] = queue.SimpleQueue()
        self._cancelled: set[str] = set()
        self._faults = Faults()
        self._closing = False
        self._interrupted = False

    def submit(self, request: GenerationRequest) -> None:
        """Queue a turn."""
        self._coming.add(request.id)
        self._put(request)

    def prepare(self, request: GenerationRequest) -> None:
        """Evaluate, while nothing else is to do, what a turn is certain to begin with; its last message is being typed.

        A newer wish or a turn ends it at once, but a wish ends no load. No event tells of it but `Prepared` when the turn comes.
        """
        self._put(Wish(request))

    def look(self, request: GenerationRequest) -> None:
        """Tell what a token costs in operators with this turn's model and context, once nothing runs: Looked or Failed."""
        self._coming.add(request.id)
        self._put(Look(request))

    def _put(self, item: GenerationRequest | Wish | Look) -> None:
        self._inbox.put(item)
        if self._ahead.working:
            self._interrupt()

    def _interrupt(self) -> None:
        """Stop what is evaluated now. Flagged last, so that whoever sees the flag undoes the whole of it."""
        self.model.interrupt()
        self._interrupted = True

    def cancel(self, request_id: str) -> None:
        """Stop a turn, waiting or running, as soon as its present chunk allows; others are untouched."""
        self._cancelled.add(request_id)
        self._interrupt()

    def adjust(self, request_id: str, sampler: SamplerSettings) -> None:
        """Use other sampler settings for a running reply from its next token on; nothing happens when it is over."""
        self._adjustments.put((request_id, sampler))

    def close(self) -> None:
        """Make `run` return soon; what is running is cancelled and the model freed."""
        self._closing = True
        self._interrupt()
        self._inbox.put(None)

    def run(self) -> None:
        """Work until closed."""
        while not self._closing:
            self._receive(block=not (self._rows or self._waiting or self._ahead.wanted))
            self._work()
        self._finish()

    def run_until_idle(self) -> None:
        """Work until nothing is queued or running."""
        self._receive(block=False)
        while (self._rows or self._waiting or self._ahead.wanted) and not self._closing:
            self._work()
            self._receive(block=False)
        if self._closing:
            self._finish()

    def _finish(self) -> None:
        for row in list(self._rows):
            self._cancel_row(row)
        self._sessions.forget()
        self.model.unload()

    def _receive(self, block: bool) -> None:
        while block or not self._inbox.empty():
            request = self._inbox.get()
            if request is None:
                return
            if isinstance(request, Wish):
                self._ahead.wish(request.request)
            else:
                self._waiting.append(request)
                self._coming.discard(request.id)
            block = False

    def _work(self) -> None:
        """One pass: start what can start, evaluate one batch, hand the scores out."""
        if self._interrupted:
            self._interrupted = False
            self.model.resume()
        if self._cancelled:
            self._drop_cancelled()
        self._adjust_rows()
        while self._waiting and self._fits(self._waiting[0]):
            self._start(self._waiting.pop(0))
        if self._closing:
            return
        if not self._rows:
            self._ahead.work(self.model, self._hooks, lambda: self._closing or bool(self._coming))
            return
        backend = self._rows[0].backend
        plan = choose(self._rows, backend.context.batch)
        parts = []
        for row, count in plan:
            try:
                parts.append((row, row.take(count)))
            except Exception as error:  # every failure of a turn becomes its Failed event; the engine goes on
                self._fail(row, error)
        for evaluated in self._evaluate(backend, parts) if parts else ():
            self._advance(*evaluated)

    def _forget(self) -> None:
        self._sessions.forget()
        self._ahead.forget()

    def _drop_cancelled(self) -> None:
        for request in [request for request in self._waiting if request.id in self._cancelled]:
            self._waiting.remove(request)
            self._cancelled.discard(request.id)
            self.tell.finished(request_of(request), "cancelled")
        for row in [row for row in self._rows if row.request.id in self._cancelled]:
            self._cancel_row(row)
        if not (self._rows or self._waiting) and self._inbox.empty():
            self._cancelled.clear()

    def _adjust_rows(self) -> None:
        while not self._adjustments.empty():
            request_id, sampler = self._adjustments.get()
            for row in [row for row in self._rows if row.request.id == request_id]:
                try:
                    row.adjust(sampler)
                except FaderError as error:
                    self._fail(row, error)

    def _fits(self, request: GenerationRequest | Look) -> bool:
        """Whether a turn can join what is running: nothing runs, or it asks for the very same model and context."""
        if not self._rows:
            return True
        stays = isinstance(request, Look) or not self.model.serves(request) or awaits(request, self._rows)
        return not stays and len(self._rows) < self._rows[0].backend.context.rows

    # --- one turn's start and end -------------------------------------------------------------------------------------

    def _start(self, asked: GenerationRequest | Look) -> None:
        """Begin a turn, or look into what it would run on."""
        request = request_of(asked)
        self.tell.started(request)
        session: Session | None = None
        try:
            if not self.model.serves(request):
                self._forget()
            hooks = self._hooks(request)
            backend = self.model.ready(
                request, lambda: request.id in self._cancelled or self._closing, hooks.engine_ready
            )
            if isinstance(asked, Look):
                session = self._sessions.take(backend, LOOKING, partial(hooks.make_room, backend))
                self.tell.looked(request, backend, session)
                session.close()
                return
            begun = beginning(backend, request)
            prompt = self.tell.fitted(request, fit(backend, request, begun.ids))
            session = self._sessions.take(backend, request.owner, partial(hooks.make_room, backend))
            take_over(session, request, prompt, self._rows)
            difference = difference_of(backend, session.tokens, prompt)
            reuse, by = hooks.restore_prefix(request, session, prompt, backend)
            self.tell.prepared(request, self._ahead.account(request.owner, reuse.tokens))
            self.tell.restored(request, len(prompt), reuse, by, difference)
            row = Row(request, backend, session, prompt, reuse.tokens, hooks, self.emit, self.clock, begun)
            self._rows.append(row)
            if row.reason:
                self._end(row)
        except Interrupted:
            self._cancelled.discard(request.id)
            self.tell.finished(request, "cancelled")
        except Exception as error:  # every failure of a turn becomes its Failed event; the engine goes on
            if session is not None:
                session.close()
            self._cancelled.discard(request.id)
            self.tell.failed(request, error)

    def _hooks(self, request: GenerationRequest) -> Hooks:
        def fault(plugin: str, hook: str, detail: str) -> None:
            self._faults.add(request, plugin)
            self.tell.fault(request, plugin, hook, detail)

        return Hooks(self.registry, request.enabled - self._faults.left_out(request), fault)

    def _cancel_row(self, row: Row) -> None:
        row.reason = "cancelled"
        self._end(row)

    def _end(self, row: Row) -> None:
        """Finish a row and keep its session for the owner's next turn."""
        try:
            text, ids = row.close()
        except Exception as error:  # every failure of a turn becomes its Failed event; the engine goes on
            self._fail(row, error)
            return
        self._rows.remove(row)
        request = row.request
        self._sessions.keep(request.owner, row.session)
        self._cancelled.discard(request.id)
        self.tell.finished(request, row.reason or "cancelled", text, ids, len(row.prompt) + len(ids) - row.begun)
        if row.reason != "surprise":  # the reply goes on in a moment, and what it holds is in its session
            row.hooks.keep_prefix(request, row.session, row.backend)

    def _fail(self, row: Row, error: Exception) -> None:
        self._rows.remove(row)
        row.session.close()
        self._cancelled.discard(row.request.id)
        self.tell.failed(row.request, error, row.stream.flush(), tuple(row.ids))

    # --- evaluating ---------------------------------------------------------------------------------------------------

    def _evaluate(self, backend: Backend, parts: list[tuple[Row, Extension]]) -> Iterator[Evaluated]:
        """Evaluate all parts in one call; on an error each alone, so that a row fails only for itself.

        Each result must be used before the next is asked for, since the backend only lends its scores.
        """
        begin = self.clock()
        try:
            scores = backend.evaluate([part for _, part in parts])
        except Interrupted:
            return
        except OutOfMemory as error:
            if self._sessions.drop_oldest() or parts[0][0].hooks.make_room(backend):
                return
            if len(parts) == 1:
                self._fail(parts[0][0], error)
                return
        except Exception as error:  # every failure of a turn becomes its Failed event; the engine goes on
            if len(parts) == 1:
                self._fail(parts[0][0], error)
                return
        else:
            took, batch = self.clock() - begin, sum([len(part.tokens) for _, part in parts])
            for (row, part), one in zip(parts, scores, strict=True):
                yield row, part, one, took, batch
            return
        for single in parts:
            yield from self._evaluate(backend, [single])

    def _advance(self, row: Row, part: Extension, scores: Scored, took_ns: int, batch: int) -> None:
        try:
            row.give(part, scores, took_ns, batch)
        except Exception as error:  # every failure of a turn becomes its Failed event; the engine goes on
            self._fail(row, error)
            return
        if row.reason:
            self._end(row)
