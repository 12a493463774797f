"""`Taking`: a run while it runs; what it was asked, what happened, and its record afterwards.

Knows events, not the order of runs.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from fader_backends.errors import Failure
from fader_plugins.turn import AnyEvent, Failed, Finished, GenerationRequest, Token

from .evidence import Condition, Output, Phase, Run, Side, State
from .workload import Case


class Step(NamedTuple):
    """One conversation on one side."""

    phase: Phase
    round: int
    case: Case
    side: Side


class Taken(NamedTuple):
    """A run that has ended, with all there is to write of it."""

    run: Run
    request: GenerationRequest
    events: list[AnyEvent]
    output: Output


class Taking:
    """A run while it runs."""

    def __init__(self, index: int, request: GenerationRequest) -> None:
        self.index = index
        self.request = request
        self.events: list[AnyEvent] = []
        self.state: State = "ok"
        self.failure: Failure | None = None
        self.rss: int | None = None
        self.device: int | None = None
        self._ids: tuple[int, ...] = ()

    def take(self, event: AnyEvent) -> None:
        """Keep an event of this run; others are dropped. Called while the engine works, so it does next to nothing."""
        if event.request_id != self.request.id:
            return
        self.events.append(event)
        match event:
            case Finished():
                self.state = "cancelled" if event.reason == "cancelled" else "ok"
                self.rss, self.device = event.rss_peak_bytes, event.memory.device_peak_bytes
                self._ids = event.ids
            case Failed():
                self.state, self.failure, self._ids = "failed", event.failure, event.ids

    def reached(self, event: AnyEvent, tokens: int) -> bool:
        """Whether this event is the run's token after the first `tokens`."""
        return isinstance(event, Token) and event.request_id == self.request.id and event.index == tokens

    def output(self) -> Output:
        """Return what it said."""
        texts = [event.text for event in self.events if isinstance(event, Token | Finished | Failed)]
        return Output(index=self.index, ids=self._ids, text="".join(texts))

    def run(
        self,
        step: Step,
        case: str,
        turn: int,
        condition: Condition,
        expected: State,
        seed: int,
        wall: float,
        energy: float | None,
    ) -> Run:
        """Return its record."""
        return Run(
            index=self.index,
            phase=step.phase,
            side=step.side,
            round=step.round,
            case=case,
            turn=turn,
            condition=condition,
            seed=seed,
            request_id=self.request.id,
            state=self.state,
            expected=expected,
            failure=self.failure,
            wall_start=wall,
            load_average=load_average(),
            rss_peak_bytes=self.rss,
            device_peak_bytes=self.device,
            energy_j=energy,
        )


def load_average() -> float | None:
    """Return the load of the last minute; None where the system does not say."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):
        return None
