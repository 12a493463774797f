"""One column: what it changes, and what has come of it so far.

Knows its own turn, not the other columns.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from fader_backends.base import ContextSpec, Message, ModelSpec
from fader_backends.errors import Failure
from fader_plugins.turn import AnyEvent, Failed, Finished, GenerationRequest, Numbers, RequestDraft, Token

from ..metrics import Stats
from ..odds import packed
from ..switchboard import Switchboard
from ..turns import joined, noted
from . import spec
from .asked import Asked
from .figures import Figures, figures
from .values import Answer, StoredColumn

State: TypeAlias = Literal["waiting", "running", "done", "stopped", "failed"]
Place: TypeAlias = tuple[ModelSpec, ContextSpec]
"""What must be loaded for a column: those with equal places run together."""
PREFIX = "prefix_cache"


class Run:
    """A turn while it runs, and after."""

    def __init__(self, request: GenerationRequest) -> None:
        self.stats = Stats(request=request)
        self.logprobs: list[float] = []
        self.events: list[AnyEvent] = []

    def take(self, event: AnyEvent) -> None:
        """Fold one event of the turn in."""
        self.events.append(event)
        self.stats.fold(event)
        if isinstance(event, Token):
            self.logprobs.append(event.logprob)

    @property
    def place(self) -> Place:
        """What is loaded for it."""
        return self.stats.request.model, self.stats.request.context

    def answer(self, rounds: list[Numbers]) -> Answer | None:
        """Return what it gave so far; None when it ended, or has come, to nothing."""
        stats = self.stats
        if not stats.ids and stats.finished is None:
            return None
        record = stats.record()
        return Answer(
            record=msgspec.structs.replace(record, request=msgspec.structs.replace(record.request, messages=())),
            ids=tuple(stats.ids),
            pieces=tuple(stats.texts[: len(stats.ids)]),
            logprobs=tuple(self.logprobs),
            rounds=tuple(rounds),
        )


class Column:
    """One column of a comparison. `letter` names it on the screen and on the command line: A, B, C …"""

    def __init__(
        self, letter: str, changes: spec.Changes, board: Switchboard | None, failure: Failure | None = None
    ) -> None:
        self.letter = letter
        self.changes = dict(changes)
        self.board = board
        """None when the column cannot be made; `failure` says why."""
        self.failure = failure
        self.state: State = "failed" if failure else "waiting"
        self.note = "" if board is None else spec.lacking(changes, board)
        """What must be said of how it runs."""
        self.alone = ""
        """What running it once more by itself showed."""
        self.run: Run | None = None
        self.rounds: list[Numbers] = []
        self.timed: list[Run] = []
        """The runs of `rounds`."""
        self.stored: Answer | None = None
        """What it gave when the comparison was stored; a new run replaces it."""

    @property
    def title(self) -> str:
        """What it changes, in words."""
        return spec.title(self.changes)

    def draft(self, asked: Asked, cold: bool = False) -> RequestDraft:
        """Return its turn as it would be sent; `cold`: without reuse of a prefix. Raises FaderError."""
        assert self.board is not None
        board = self.board.copy()
        if spec.SAMPLER in board.states and board.states[spec.SAMPLER].settings.get("seed") is None:
            board.set(spec.SAMPLER, "seed", asked.seed)
        if cold and PREFIX in board.states:
            board.switch(PREFIX, False)
        system = board.profile.system
        told = [Message("system", system)] if system else []
        draft = board.plan(asked.owner, [*told, *joined(asked.messages)], asked.now)
        layout = {name: value for name in ("rows", "enough") if (value := getattr(asked, name)) is not None}
        draft.context = msgspec.structs.replace(draft.context, **layout)
        for name, value in asked.change.items():
            setattr(draft, name, value)
        return draft

    def begin(self, run: Run) -> None:
        """Forget what there was: this is its turn from now on."""
        self.run, self.rounds, self.timed, self.stored = run, [], [], None
        self.state, self.failure, self.alone = "running", None, ""

    def take(self, event: AnyEvent) -> None:
        """Fold one event of its turn in."""
        assert self.run is not None
        self.run.take(event)
        match event:
            case Finished():
                self.state = "stopped" if event.reason == "cancelled" else "done"
            case Failed():
                self.state, self.failure = "failed", event.failure

    @property
    def text(self) -> str:
        """The reply so far."""
        return self.run.stats.text if self.run is not None else self.stored.record.text if self.stored else ""

    def figures(self) -> Figures:
        """Return the numbers under it, as far as they are known."""
        if self.run is None:
            return self.stored.figures if self.stored is not None else Figures()
        return figures(self.run.stats.numbers(), self.run.stats.ids, self.run.logprobs, self.rounds)

    def answer(self) -> Answer | None:
        """Return what it gave so far; None before its first token."""
        return self.run.answer(self.rounds) if self.run is not None else self.stored

    def to_store(self) -> StoredColumn:
        """Return it as it is stored, with what each token was chosen from."""
        answer = self.answer()
        chosen = noted(self.run.stats) if self.run is not None else None
        if answer is not None and chosen is not None:
            answer = msgspec.structs.replace(answer, chosen=packed(chosen))
        return StoredColumn(
            changes=self.changes,
            title=self.title,
            answer=answer,
            failure=self.failure,
            note=self.note,
            alone=self.alone,
        )
