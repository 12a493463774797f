"""`SideBySide`: all columns of a comparison; who runs when, together or one at a time.

Knows an engine that takes requests and sends events, no screen and no store. Columns that need the same model and context
run as rows of one batch, where the engine lets them share what their prompts have in common. The others wait their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from fader_backends.errors import FaderError
from fader_plugins.turn import AnyEvent, Failed, Finished, GenerationRequest

from ..engine.fitting import reserve
from .asked import Asked
from .column import PREFIX, Column, Place, Run
from .differ import divergence

ROUNDS = 2
"""Runs of each column where timing is the question: A B C, then A B C again."""


class Runner(Protocol):
    """What runs requests (`fader.turns.Engine`, `fader.engine.engine.Engine`)."""

    def submit(self, request: GenerationRequest) -> None:
        """Take a request up; its events follow."""
        ...

    def cancel(self, request_id: str) -> None:
        """Stop a request soon; it still ends with Finished or Failed."""
        ...


class Job(NamedTuple):
    """One run of a column: to be shown, for its timing, or to see whether it comes out the same by itself."""

    column: Column
    purpose: Literal["show", "time", "alone"] = "show"


class SideBySide:
    """Runs the columns. Give it the engine's events with `on_event`; `changed` is called when a column's state changes."""

    def __init__(
        self,
        columns: Sequence[Column],
        asked: Asked,
        runner: Runner,
        *,
        nanoseconds: Callable[[], int],
        new_id: Callable[[], str],
        fair: bool = False,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.columns = list(columns)
        self.asked = asked
        self.runner = runner
        self.nanoseconds = nanoseconds
        self.new_id = new_id
        self.fair = fair
        self.changed = changed
        self.room: int | None = None
        """How many rows fit what is loaded now; None until the prompt's length is known."""
        self._waiting: list[Job] = []
        self._running: dict[str, tuple[Job, Run]] = {}

    # --- what a person does -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run every column that can be made, those with equal model and context next to each other."""
        jobs = [Job(column) for column in self.columns if self._ready(column)]
        if self.fair:
            jobs += [Job(job.column, "time") for _ in range(1, ROUNDS) for job in jobs]
        else:
            places: list[Place] = []
            for job in jobs:
                place = self._place(job)
                if place not in places:
                    places.append(place)
                if place != places[0]:
                    job.column.note = _joined(job.column.note, f"runs after the others: {_other(places[0], place)}")
            jobs.sort(key=lambda job: places.index(self._place(job)))
        self._waiting += jobs
        self._pump()

    def restart(self, column: Column) -> None:
        """Run a column again, with what it changes now; one that runs is stopped first."""
        self.stop(column)
        if self._ready(column):
            self._waiting += [Job(column), *[Job(column, "time")] * ((ROUNDS - 1) * self.fair)]
        self._pump()

    def stop(self, column: Column) -> None:
        """Stop a column, waiting or running; the others go on."""
        self._waiting = [job for job in self._waiting if job.column is not column]
        if column.state == "waiting":
            column.state = "stopped"
        for request_id, (job, _) in self._running.items():
            if job.column is column:
                self.runner.cancel(request_id)
        self.changed()

    def stop_all(self) -> bool:
        """Stop every column; False when nothing ran."""
        busy = self.busy
        for column in self.columns:
            self.stop(column)
        return busy

    def check_alone(self, column: Column) -> None:
        """Run a column once more, by itself, and note whether the same words come out. Raises FaderError."""
        if column.answer() is None or column.state not in ("done", "stopped"):
            raise FaderError(f"Column {column.letter} has no whole reply yet.", "", "Let it end first.")
        column.alone = "alone: running once more …"
        self._waiting.append(Job(column, "alone"))
        self._pump()

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits."""
        return bool(self._running or self._waiting)

    @property
    def running(self) -> list[str]:
        """Ids of the requests that run."""
        return list(self._running)

    @property
    def mode(self) -> str:
        """How the numbers came about, in words."""
        if self.fair:
            return f"one at a time, ABAB, {ROUNDS} runs each" + (", prompt read anew each time" if self.cold else "")
        return "together, in one batch where nothing must be loaded"

    def same(self) -> list[tuple[Column, Column]]:
        """Return pairs of columns that differ in nothing that could change a word or a number."""
        drafts = []
        for column in self.columns:
            if column.board is not None:
                draft = column.draft(self.asked)
                on = {name: state for name, state in draft.plugins.items() if state.on}
                drafts.append((column, (draft.model, draft.context, draft.sampler, draft.max_tokens, on)))
        return [(a, b) for at, (a, one) in enumerate(drafts) for b, other in drafts[at + 1 :] if one == other]

    # --- what comes back ----------------------------------------------------------------------------------------------

    def on_event(self, event: AnyEvent) -> None:
        """Take one event of the engine; those of other turns are dropped."""
        if event.request_id not in self._running:
            return
        job, run = self._running[event.request_id]
        if job.purpose == "show":
            job.column.take(event)
        else:
            run.take(event)
        ended = isinstance(event, Finished | Failed)
        if ended:
            del self._running[event.request_id]
            self._end(job, run)
        if ended or self.room is None:
            self._measure(run)
            self._pump()
        if ended:
            self.changed()

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def cold(self) -> bool:
        """Whether prefixes are read anew: else the first column would pay for the others."""
        return self.fair and not any(
            name.partition(".")[0] == PREFIX for column in self.columns for name in column.changes
        )

    def _ready(self, column: Column) -> bool:
        """Whether a column's turn can be planned; one that cannot fails by itself."""
        if column.board is None:
            return False
        try:
            column.draft(self.asked, self.cold)
        except FaderError as error:
            column.state, column.failure = "failed", error.failure
            return False
        column.state, column.failure = "waiting", None
        return True

    def _place(self, job: Job) -> Place:
        draft = job.column.draft(self.asked, self.cold)
        return draft.model, draft.context

    def _pump(self) -> None:
        """Send what may run now."""
        sent = len(self._running)
        while self._waiting and self._may_run(self._waiting[0]):
            job = self._waiting.pop(0)
            draft = job.column.draft(self.asked, self.cold)
            run = Run(draft.freeze(self.new_id(), self.nanoseconds()))
            if not self._running:
                self.room = None
            if job.purpose == "show":
                job.column.begin(run)
            self._running[run.stats.request.id] = job, run
            self.runner.submit(run.stats.request)
        if len(self._running) != sent:
            self.changed()

    def _may_run(self, job: Job) -> bool:
        """Whether a job can join what runs. The first one tells how many fit; until then the others wait."""
        if not self._running:
            return True
        if self.fair or "alone" in (job.purpose, *(other.purpose for other, _ in self._running.values())):
            return False
        _, run = next(iter(self._running.values()))
        return self.room is not None and len(self._running) < self.room and self._place(job) == run.place

    def _measure(self, run: Run) -> None:
        """Find out how many rows fit, once the prompt's length and the context are known; note it where not all do."""
        stats, context = run.stats, run.stats.context
        if self.room is not None or context is None or stats.prompt_tokens is None:
            return
        self.room = context.rows
        reply = reserve(stats.request, context.length)
        if context.options.get("unified", True):  # all rows share the cells of one buffer
            self.room = max(1, min(context.rows, (context.length - stats.prompt_tokens) // max(reply, 1)))
        left = [job.column for job in self._waiting if job.purpose == "show" and self._place(job) == run.place]
        fits = f"{self.room} row{'s' * (self.room > 1)}"
        why = (
            f"the context has {context.rows} rows"
            if self.room == context.rows
            else f"beside the prompt, the context of {context.length:,} tokens has room for {fits} of {reply:,}"
        )
        for column in left[max(self.room - len(self._running), 0) :] if not self.fair else ():
            column.note = _joined(column.note, f"waited for a row: {why}")

    def _end(self, job: Job, run: Run) -> None:
        column, stats = job.column, run.stats
        if job.purpose == "time" and stats.finished is not None and stats.finished.reason != "cancelled":
            column.rounds.append(stats.numbers())
            column.timed.append(run)
        elif job.purpose == "alone":
            column.alone = _compared(column, run)


def _compared(column: Column, run: Run) -> str:
    """Return what running a column by itself showed."""
    together, alone = column.answer(), run.answer([])
    if run.stats.failure is not None or together is None or alone is None:
        return f"alone: {run.stats.failure.title if run.stats.failure else 'stopped'}"
    parted = divergence(together, alone)
    if parted is None:
        return f"alone: the same {min(len(together.ids), len(alone.ids)):,} tokens"
    return f"alone: {parted}"


def _other(first: Place, place: Place) -> str:
    (model, context), (other, layout) = first, place
    if model.backend != other.backend:
        return f"it needs another backend, {other.backend}"
    if model.model != other.model:
        return "it needs another model"
    if model != other:
        return "the model must be loaded anew"
    return "it needs another context" if context != layout else ""


def _joined(note: str, more: str) -> str:
    return note if more in note else f"{note}; {more}" if note else more
