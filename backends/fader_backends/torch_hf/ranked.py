"""Owns the `Backend` over a model that several processes share, and its sessions, which are numbers to the ranks.

Knows no weights; `ranks` tells the processes what is asked here.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from datetime import datetime

import msgspec
import numpy as np

from fader_backends.base import (
    ContextSpec,
    Extension,
    Memory,
    Message,
    ModelSpec,
    Progress,
    Scores,
    Session,
    SessionState,
)
from fader_backends.batches import check_room, extensions
from fader_backends.errors import BadValue, Interrupted, NotSupported, OutOfMemory, TurnError
from fader_backends.graphs import GraphState
from fader_backends.options import cores
from fader_backends.torch_hf.devices import place
from fader_backends.torch_hf.packed import chosen
from fader_backends.torch_hf.ranks import Described, Ranks, stopper
from fader_backends.torch_hf.spread import OPTIONS

NO_GRAPHS = "several processes share each layer (tensor_split), and meet in the middle of it"


def open_ranked(model: ModelSpec, context: ContextSpec, progress: Progress, count: int, device: str) -> RankedBackend:
    """Start so many ranks and load a model on them, on `cpu` or, each on its own, on `cuda`.

    Raises BadValue for packed matrices: they are no modules that transformers could share out.
    """
    if kept := chosen(model.options, place({**model.options, "device": device})):
        raise BadValue(f"matrices = {kept} goes with one rank only.", "", "Set weights.matrices to plain.")
    return RankedBackend(model, context, progress, count, device)


class RankedBackend:
    """`base.Backend`; `base` says what each method promises."""

    def __init__(self, model: ModelSpec, context: ContextSpec, progress: Progress, count: int, device: str) -> None:
        kept = {
            name: value for name, value in model.options.items() if name not in OPTIONS
        }  # a rank is no split of its own
        self._model = msgspec.structs.replace(model, options={**kept, "device": device})
        self._count = count
        self._numbers = itertools.count()
        self._sessions: dict[int, RankedSession] = {}
        self._pieces: dict[int, bytes] = {}
        self._stopped = threading.Event()
        self._asked = context
        self._start(progress)

    def _start(self, progress: Progress) -> None:
        self.ranks = Ranks(self._count)
        try:
            shared = self._shared(self._asked)
            self._take(self.ranks.all("load", self._model, shared, tick=stopper(progress))[0])
        except BaseException:
            self.ranks.close()
            raise

    def _shared(self, context: ContextSpec) -> ContextSpec:
        """Return the context as one rank has it: the processor's cores are shared out, and there are no graphs."""
        threads = max(1, (context.threads or cores()) // self._count)
        return msgspec.structs.replace(context, threads=threads, options={**context.options, "graph": "off"})

    def _take(self, said: Described) -> None:
        where = f"{self._count} ranks, each {said.facts.device}"
        self.facts = msgspec.structs.replace(said.facts, device=where)
        self.context, self.end_tokens = said.context, said.end_tokens
        self.state_key = f"{said.state_key} ranks={self._count}"

    def configure(self, context: ContextSpec) -> None:
        """Lay out anew on every rank."""
        said = self.ranks.all("configure", self._shared(context))[0]
        self._asked = context
        self._sessions.clear()
        self._take(said)

    def open(self) -> RankedSession:
        """Return an empty session; ranks that have ended are started anew."""
        if not self.ranks.alive:
            self._sessions.clear()
            self._start(lambda _: not self._stopped.is_set())
        if len(self._sessions) >= self.context.rows:
            raise OutOfMemory(f"All {self.context.rows} rows are in use.", "", "Close one, or set more rows.")
        session = RankedSession(self, next(self._numbers))
        self.ranks.all("open", session.number)
        self._sessions[session.number] = session
        return session

    def release(self, session: RankedSession) -> None:
        """Take a session's row back; nothing happens when it was."""
        if self._sessions.pop(session.number, None) is session and self.ranks.alive:
            self.ranks.all("close", session.number)

    def check_open(self, session: RankedSession) -> None:
        """Raise ValueError when a session was closed, TurnError when it was lost with its ranks."""
        if self._sessions.get(session.number) is not session:
            raise ValueError("this session is closed, or another backend's")
        if not self.ranks.alive:
            raise TurnError("The processes that share this model have ended.", "", "Send it again: they start anew.")

    def evaluate(self, work: Sequence[Extension]) -> list[Scores]:
        """Run several sessions in one call of every rank."""
        told = []
        for session, tokens, rows, _ in work:
            if not isinstance(session, RankedSession):
                raise ValueError("this session is another backend's")
            self.check_open(session)
            check_room(self.context, len(session.ids) + len(tokens))
            told.append((session.number, list(tokens), rows))
        if self._stopped.is_set():
            raise Interrupted
        scores: list[Scores] = self.ranks.all("evaluate", told)[0]
        for session, tokens, *_ in work:
            session.ids.extend(tokens)  # type: ignore[attr-defined]  # its kind was looked at
        return scores

    def chat(self, messages: Sequence[Message], now: datetime) -> list[int]:
        """Return the prompt's token ids."""
        ids: list[int] = self.ranks.first("chat", list(messages), now)
        return ids

    def encode(self, text: str) -> list[int]:
        """Return the ids of plain text."""
        ids: list[int] = self.ranks.first("encode", text)
        return ids

    def piece(self, token: int) -> bytes:
        """Return the bytes a token stands for."""
        if token not in self._pieces:
            self._pieces[token] = self.ranks.first("piece", token)
        return self._pieces[token]

    def graph(self) -> GraphState | None:
        """See `Graphed`: ranks never run their steps as graphs."""
        mode = str(self._asked.options.get("graph", "off"))
        return None if mode == "off" else GraphState(mode=mode, on=False, why=NO_GRAPHS)

    def use_graph(self, on: bool, why: str = "", times: tuple[float, float] | None = None) -> None:
        """See `Graphed`; it stays as it is."""

    def memory(self) -> Memory:
        """Return what all ranks hold together."""
        parts: list[Memory] = self.ranks.all("memory")

        def total(name: str) -> int | None:
            values = [getattr(part, name) for part in parts]
            return None if None in values else sum(values)

        return msgspec.structs.replace(
            parts[0],
            weights_bytes=total("weights_bytes"),
            kv_bytes=total("kv_bytes"),
            device_peak_bytes=total("device_peak_bytes"),
        )

    def interrupt(self) -> None:
        """Let no call begin until `resume`; one that runs comes to its end. From any thread."""
        self._stopped.set()

    def resume(self) -> None:
        """Undo `interrupt`."""
        self._stopped.clear()

    def close(self) -> None:
        """End the ranks."""
        self._sessions.clear()
        self.ranks.close()


class RankedSession:
    """A row on every rank. `base.Session` says what each method promises."""

    def __init__(self, backend: RankedBackend, number: int) -> None:
        self._backend = backend
        self.number = number
        self.ids: list[int] = []

    @property
    def tokens(self) -> Sequence[int]:
        """The evaluated tokens. Do not change them."""
        return self.ids

    def extend(self, tokens: Sequence[int], rows: int = 1) -> Scores:
        """Evaluate `tokens`, in as many calls as their number takes; all of them, or none when it raises."""
        backend, before = self._backend, len(self.ids)
        backend.check_open(self)
        check_room(backend.context, before + len(tokens))
        batch = backend.context.batch
        scores: list[Scores] = []
        try:
            for part in extensions(self, tokens, rows, batch):
                scores += backend.evaluate([part])
        except BaseException:
            if backend.ranks.alive:
                self.rewind(before)
            raise
        return scores[0] if len(scores) == 1 else np.concatenate(scores)

    def rewind(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        self._backend.check_open(self)
        if not 0 <= length <= len(self.ids):
            raise ValueError(f"cannot rewind {len(self.ids)} tokens to {length}")
        if length < len(self.ids):
            self._backend.ranks.all("rewind", self.number, length)
            del self.ids[length:]

    def fork(self) -> RankedSession:
        """Return a session that holds the same tokens."""
        other = self._backend.open()
        other.copy(self)
        return other

    def copy(self, other: Session) -> None:
        """Hold what `other` holds."""
        if not isinstance(other, RankedSession):
            raise ValueError("this session is another backend's")
        for one in (self, other):
            self._backend.check_open(one)
        if other is not self:
            self._backend.ranks.all("copy", self.number, other.number)
            self.ids = list(other.ids)

    def save(self) -> SessionState:
        """Copy tokens and state out, the parts of all ranks one after the other."""
        self._backend.check_open(self)
        parts: list[bytes] = self._backend.ranks.all("save", self.number)
        return SessionState(tuple(self.ids), self._backend.state_key, msgspec.msgpack.encode(parts))

    def load(self, state: SessionState) -> None:
        """Replace what is held by `state`."""
        self._backend.check_open(self)
        if state.key != self._backend.state_key:
            raise NotSupported(
                "This saved state belongs to another model or context.", f"It is for {state.key}.", "Start without it."
            )
        check_room(self._backend.context, len(state.tokens))
        try:
            parts = msgspec.msgpack.decode(state.data, type=list[bytes])
        except msgspec.DecodeError as error:
            raise NotSupported("This saved state is damaged.", str(error), "Start without it.") from error
        self._backend.ranks.all("restore", self.number, state.tokens, parts)
        self.ids = list(state.tokens)

    def close(self) -> None:
        """Give the row back."""
        self._backend.release(self)
        self.ids = []
