"""`Runner`: runs an experiment in its order and hands each run over as it ends.

Knows engines and clocks; writes nothing and computes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec
from fader_backends.base import Message
from fader_backends.errors import FaderError
from fader_plugins.turn import AnyEvent, RequestDraft

from .evidence import Phase, Run, Side, State
from .experiment import CLOCK, Experiment
from .seats import Seat
from .taking import Step, Taken, Taking
from .workload import Case, filled

NO_ROOM = 1 << 24
"""Tokens of a context that no memory has room for."""
SECOND = " (second)"
"""Ends the case's name in runs of the prompt that came beside."""


class Unfit(FaderError):
    """The workload cannot run on these settings; nothing was measured."""

    exit_code = 2


class Runner:
    """Runs the steps. `seat` makes an engine for a side; `took` is given each run when it has ended."""

    def __init__(
        self,
        experiment: Experiment,
        seat: Callable[[Side], Seat],
        took: Callable[[Taken], None],
        *,
        progress: Callable[[int, int, float], None] = lambda *_: None,
        joules: Callable[[], float | None] = lambda: None,
        nanoseconds: Callable[[], int] = time.perf_counter_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.experiment = experiment
        self.seat = seat
        self.took = took
        self.progress = progress
        self.joules = joules
        self.nanoseconds = nanoseconds
        self.wall = wall
        self.stopped = False
        """Whether a person asked to stop; the run in work is cancelled."""
        self._seats: dict[Side, Seat] = {}
        self._count = 0
        self._ended = 0

    def stop(self) -> None:
        """End soon; from any thread or a signal's handler, so it does nothing but say so."""
        self.stopped = True

    def run(self) -> bool:
        """Run all there is; return False when it was stopped. Raises Unfit, and OSError when `took` does."""
        total, begin = self._total(), self.nanoseconds()
        phases: tuple[tuple[Phase, int], ...] = (("aa", self.experiment.aa_rounds), ("ab", self.experiment.rounds))
        try:
            for phase, rounds in phases:
                changed = phase == "ab"
                for number in range(rounds):
                    self._open()
                    for side in self.experiment.boards:
                        self._converse(Step("warm-up", 0, self.experiment.workload.warm_up_case, side), changed)
                    for step in self._of(phase, number):
                        if self.stopped:
                            return False
                        self._converse(step, changed)
                        self._ended += step.case.asks + bool(step.case.beside)
                        left = (self.nanoseconds() - begin) / 1e9 * (total - self._ended) / self._ended
                        self.progress(self._ended, total, left)
                    self._close()
            return not self.stopped
        finally:
            self._close()

    def _of(self, phase: Phase, number: int) -> Iterator[Step]:
        for case in self.experiment.workload.case:
            for side in self.experiment.boards:
                yield Step(phase, number, case, side)

    def _total(self) -> int:
        rounds = self.experiment.aa_rounds + self.experiment.rounds
        return rounds * self.experiment.workload.turns * len(self.experiment.boards)

    def _open(self) -> None:
        """Start fresh engines, so that neither side's peaks or caches hold what others left.

        In every round: how a process happens to lie in memory makes it some percent faster or slower for all its life, and that
        must not pass for a difference between the sides.
        """
        for side in self.experiment.boards:
            self._seats[side] = self.seat(side)

    def _close(self) -> None:
        while self._seats:
            self._seats.popitem()[1].close()

    # --- one conversation ---------------------------------------------------------------------------------------------

    def _converse(self, step: Step, changed: bool) -> None:
        case, told = step.case, []
        if case.system:
            told.append(Message("system", filled(case.system, step.round)))
        told += [Message(one.role, one.content) for one in case.before]
        for turn in range(case.asks):
            if self.stopped:
                return
            repeated = turn == len(case.turns)
            if repeated:
                told.pop()  # the reply; the question is asked again in its place
            else:
                told.append(Message("user", filled(case.turns[turn], step.round)))
            draft = self._draft(step, told, changed)
            fault = case.fault if turn == 0 else ""
            if fault == "memory":
                draft.context = msgspec.structs.replace(draft.context, length=NO_ROOM)
            reply = self._ask(step, turn, draft, case if turn == 0 else None)
            told.append(reply)

    def _draft(self, step: Step, told: list[Message], changed: bool) -> RequestDraft:
        """Return a turn of fixed length with the round's seed, as side b has it only where the change acts."""
        experiment = self.experiment
        board = experiment.boards[step.side if changed else "a"].copy()
        if "sampler" in board.states:
            board.set("sampler", "seed", experiment.seed + step.round)
        owner = f"{step.phase}-{step.side}-{step.round}-{step.case.name}"
        system = board.profile.system
        first = [Message("system", system)] if system and told[0].role != "system" else []
        draft = board.plan(owner, [*first, *told], CLOCK)
        draft.max_tokens, draft.ignore_end = experiment.workload.tokens_of(step.case), True
        draft.stop = []
        return draft

    def _ask(self, step: Step, turn: int, draft: RequestDraft, provoked: Case | None) -> Message:
        """Run one turn, and what is provoked beside it; return its reply."""
        seat, index = self._seats[step.side], self._count
        self._count += 1
        condition = self.experiment.workload.condition(step.case, turn)
        taking = Taking(index, draft.freeze(f"run-{index}", self.nanoseconds()))
        others: list[Taking] = []
        wall, before = self.wall(), self.joules()

        def watch(event: AnyEvent) -> None:
            for one in (taking, *others):
                one.take(event)
            if provoked is not None and taking.reached(event, provoked.after):
                self._provoke(provoked, step, seat, taking, others)

        seat.ask(taking.request, watch, lambda: not self.stopped)
        energy = self.joules()
        spent = energy - before if energy is not None and before is not None else None
        expected: State = provoked.expect if provoked else "ok"
        run = taking.run(step, step.case.name, turn, condition, expected, self._seed(step), wall, spent)
        self._check(run, step.case, turn)
        self.took(Taken(run, taking.request, taking.events, taking.output()))
        for other in others:
            name = step.case.name + SECOND
            self.took(
                Taken(
                    other.run(step, name, 0, "cold", "ok", self._seed(step), wall, None),
                    other.request,
                    other.events,
                    other.output(),
                )
            )
        output = taking.output()
        return Message("assistant", output.text, output.ids)

    def _seed(self, step: Step) -> int:
        return self.experiment.seed + step.round

    def _provoke(self, case: Case, step: Step, seat: Seat, taking: Taking, others: list[Taking]) -> None:
        if case.fault == "stop":
            seat.cancel(taking.request.id)
        elif case.fault == "kill":
            seat.kill()
        if case.beside:
            index = self._count
            self._count += 1
            changed = step.phase == "ab"
            told = [Message("user", filled(case.beside, step.round))]
            draft = self._draft(
                step._replace(case=msgspec.structs.replace(case, name=case.name + SECOND)), told, changed
            )
            second = Taking(index, draft.freeze(f"run-{index}", self.nanoseconds()))
            others.append(second)
            seat.submit(second.request)

    def _check(self, run: Run, case: Case, turn: int) -> None:
        """Raise Unfit where a prompt does not fit the context and the workload does not provoke that."""
        failure = run.failure
        if failure is not None and failure.kind == "ContextFull" and run.expected == "ok":
            raise Unfit(
                f"The workload {self.experiment.workload.name} does not fit the context: {case.name}, turn {turn + 1}.",
                f"{failure.title} {failure.detail}",
                "Raise context.length or kv_cache.length on both sides (-o context.length=4096), or choose another workload.",
            )
        if failure is not None and run.phase == "warm-up":
            raise FaderError(f"The warm-up failed: {failure.title}", failure.detail, failure.next_step)
