"""Owns a loaded transformers model with its sessions: the `Backend` on torch.

Knows no sampling and no conversation beyond turning messages into ids.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime

import msgspec
import torch

from fader_backends import template
from fader_backends.base import ContextSpec, Extension, Memory, Message, ModelSpec, Progress, Scored, Scores, Session
from fader_backends.batches import check_room
from fader_backends.constraint import Constraint
from fader_backends.errors import (
    BadScores,
    Interrupted,
    OutOfMemory,
    TurnError,
)
from fader_backends.graphs import GraphState
from fader_backends.operators import PROMPT, TEXT, Operators
from fader_backends.prompt import Encoder
from fader_backends.torch_hf.attention import Hooks
from fader_backends.torch_hf.best import best
from fader_backends.torch_hf.cache import Batch, Held
from fader_backends.torch_hf.devices import free_bytes, is_out_of_memory, peak_bytes
from fader_backends.torch_hf.folder import brief
from fader_backends.torch_hf.graph import Graph
from fader_backends.torch_hf.layout import plan
from fader_backends.torch_hf.session import TorchSession
from fader_backends.torch_hf.weights import Weights, open_weights


def open_backend(model: ModelSpec, context: ContextSpec, progress: Progress) -> TorchBackend:
    """Load weights, then lay out the first context; nothing stays behind when either fails."""
    weights = open_weights(model, progress)
    try:
        return TorchBackend(model, weights, context)
    except BaseException:
        weights.close()
        raise


class TorchBackend:
    """`base.Backend` over one model; `base` says what each method promises."""

    def __init__(self, model: ModelSpec, weights: Weights, context: ContextSpec) -> None:
        """Take the weights over: they are closed with the backend."""
        self._name = model.backend
        self._weights = weights
        self._vocabulary = vocabulary = weights.vocabulary
        self._template = template.choose(vocabulary.chat_template, model.template, weights.name)
        self._encoder = Encoder(vocabulary.parse, vocabulary.control, vocabulary.bos, vocabulary.adds_bos)
        self._stopped = threading.Event()
        self._sessions: list[TorchSession] = []
        self.device = weights.placement.device
        self.end_tokens = vocabulary.end_tokens
        self._graph: Graph | None = None
        template.prepare(self._template)
        self._set_up(context)

    def _set_up(self, spec: ContextSpec) -> None:
        freed = sum(session.held.store.bytes for session in self._sessions)
        self._layout = layout = plan(spec, self._weights.config, self._weights.placement, freed)
        self._close_graph()
        self._graph = Graph(self._weights.model, layout.graph, self.device) if layout.graph else None
        self.context = msgspec.structs.replace(
            spec,
            length=layout.length,
            threads=layout.threads,
            options={**spec.options, "unified": False},
        )
        self.facts = self._weights.facts(self._name, layout.threads)
        kinds = f"k={layout.kinds.keys} v={layout.kinds.values}"
        self.state_key = f"{self._weights.key} {kinds} fused={layout.fused}"

    def configure(self, context: ContextSpec) -> None:
        """Lay out anew. A spec that cannot be meant changes nothing; else all sessions are closed."""
        self._set_up(context)
        for session in list(self._sessions):
            session.close()

    def open(self) -> TorchSession:
        """Return an empty session."""
        if len(self._sessions) >= self.context.rows:
            raise OutOfMemory(f"All {self.context.rows} rows are in use.", "", "Close one, or set more rows.")
        session = TorchSession(self, Held(self._layout.kinds, self._layout.length))
        self._sessions.append(session)
        return session

    def release(self, session: TorchSession) -> None:
        """Take a session's row back; nothing happens when it was."""
        if session in self._sessions:
            self._sessions.remove(session)

    def check_open(self, session: TorchSession) -> None:
        """Raise ValueError when a session was closed."""
        if session not in self._sessions:
            raise ValueError("this session is closed, or another backend's")

    def evaluate(self, work: Sequence[Extension]) -> list[Scored]:
        """Run several sessions in one call."""
        return [
            best(rows, one.best) if self._layout.best and 0 < one.best < rows.shape[1] else rows.cpu().numpy()
            for one, rows in zip(work, self._scored(work), strict=True)
        ]

    def all_scores(self, work: Sequence[Extension]) -> list[Scores]:
        """Do the same, whatever the extensions could do without."""
        return [rows.cpu().numpy() for rows in self._scored(work)]

    def _scored(self, work: Sequence[Extension]) -> Sequence[torch.Tensor]:
        """Evaluate; return float32 scores of each extension on the device."""
        sessions = self._checked(work)
        self._check_stop()
        busy = [(session, one) for session, one in zip(sessions, work, strict=True) if len(one.tokens)]
        if not busy:
            return [torch.empty(0, self.facts.vocabulary) for _ in work]
        try:
            for session, one in busy:
                session.held.prepare(len(one.tokens))
            scores = self._run([session for session, _ in busy], [one for _, one in busy]).float()
            finite = bool(torch.isfinite(scores.amax(-1)).all())  # the maximum of a row with a NaN is NaN
        except (RuntimeError, MemoryError) as error:
            failure = self._failure(error)
            raise failure from None  # with the error would stay every tensor of the call
        if not finite:
            raise BadScores(
                "The model returned scores that are no numbers.",
                f"Its weights may be damaged, or {self._weights.placement.dtype} overflows.",
                'Try dtype = "float32" in the profile\'s [load].',
            )
        for session, one in busy:
            session.ids.extend(one.tokens)
            session.held.length += len(one.tokens)
        return torch.split(scores, [one.rows for one in work])

    def _run(self, sessions: Sequence[TorchSession], work: Sequence[Extension]) -> torch.Tensor:
        """Return the logits of the asked rows, in order: shape (rows, vocabulary)."""
        ids: list[int] = []
        places: list[int] = []
        scored: list[int] = []
        for session, (_, tokens, rows, _) in zip(sessions, work, strict=True):
            ids.extend(tokens)
            places.extend(range(session.held.length, session.held.length + len(tokens)))
            scored.extend(range(len(ids) - rows, len(ids)))
        Hooks.before, Hooks.fused = self._check_stop, self._layout.fused
        if torch.get_num_threads() != self.context.threads:
            torch.set_num_threads(self.context.threads)
        batch = Batch([session.held for session in sessions], [len(tokens) for _, tokens, *_ in work])
        with torch.inference_mode():
            if self._graph is not None and len(work) == 1:
                logits = self._graph.run(sessions[0].held, work[0].tokens, work[0].rows)
                if logits is not None:
                    return logits
            return self._weights.forward(ids, places, batch, scored)

    def _check_stop(self) -> None:
        if self._stopped.is_set():
            raise Interrupted

    def _failure(self, error: BaseException) -> TurnError:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if not is_out_of_memory(error):
            return TurnError("torch could not evaluate this.", brief(error), "Send it again.")
        free = free_bytes(self.device)
        return OutOfMemory(
            f"{self.device} ran out of memory.",
            f"{free / 2**20:,.0f} MiB are free now.",
            "Close other rows or programs, set a shorter context or a smaller chunk, or keep the cache in q8_0.",
        )

    def _checked(self, work: Sequence[Extension]) -> list[TorchSession]:
        """Refuse what could only fail half-way."""
        sessions = []
        for session, tokens, rows, _ in work:
            if not isinstance(session, TorchSession):
                raise ValueError("this session is another backend's")
            self.check_open(session)
            if not 0 <= rows <= len(tokens):
                raise ValueError(f"{rows} rows of {len(tokens)} tokens cannot be scored")
            check_room(self.context, len(session.ids) + len(tokens))
            if tokens and not (min(tokens) >= 0 and max(tokens) < self._weights.embedded):
                raise TurnError(f"torch could not evaluate this: the model has {self._weights.embedded:,} tokens.")
            sessions.append(session)
        total = sum(len(tokens) for _, tokens, *_ in work)
        if total > self.context.batch:
            raise ValueError(f"{total} tokens in one call; at most {self.context.batch} are allowed")
        if len({id(session) for session in sessions}) < len(sessions):
            raise ValueError("a session appears twice in one call")
        return sessions

    def chat(self, messages: Sequence[Message], now: datetime) -> list[int]:
        """Return the prompt's token ids."""
        bos, eos = self._vocabulary.bos_text, self._vocabulary.eos_text
        return self._encoder.prompt(messages, lambda chat: template.render(self._template, chat, now, bos, eos))

    def encode(self, text: str) -> list[int]:
        """Return the ids of plain text."""
        return self._encoder.plain(text)

    def piece(self, token: int) -> bytes:
        """Return the bytes a token stands for."""
        return self._vocabulary.piece(token)

    def constrain(self, grammar: str, json_schema: str) -> Constraint:
        """Return a constraint for one reply. Raises BadValue, or NotSupported where the vocabulary is not llama.cpp's."""
        return self._vocabulary.constrain(grammar, json_schema)

    def memory(self) -> Memory:
        """Return what is held now; a buffer that sessions share counts once."""
        stores = {id(session.held.store): session.held.store.bytes for session in self._sessions}
        return Memory(
            weights_bytes=self._weights.bytes,
            kv_bytes=sum(stores.values()),
            kv_token_bytes=self._layout.token_bytes,
            device_peak_bytes=peak_bytes(self.device),
            free_bytes=free_bytes(self.device),
        )

    def graph(self) -> GraphState | None:
        """See `graphs.Graphed.graph`."""
        return self._graph.state() if self._graph is not None else None

    def use_graph(self, on: bool, why: str = "", times: tuple[float, float] | None = None) -> None:
        """See `graphs.Graphed.use_graph`."""
        if self._graph is not None:
            self._graph.use(on, why)
            self._graph.times = times

    def operators(self, session: Session) -> list[Operators]:
        """See `operators.Inspected.operators`."""
        from fader_backends.torch_hf.profile import look

        tokens = (self.encode(TEXT) * PROMPT)[:PROMPT]
        session.extend(tokens, 0)
        facts = {"threads": str(self.context.threads)}
        graph = self._graph
        if graph is None:
            return [look(session, tokens, "graph off", self.device, facts)]
        on, why = graph.on, graph.why
        graph.use(False)
        try:
            found = [look(session, tokens, "graph off", self.device, facts)]
        finally:
            graph.use(on, why)
        if not on:
            return [msgspec.structs.replace(found[0], facts={**facts, "no graph": why})]
        found.append(look(session, tokens, "graph on", self.device, {**facts, **graph.facts()}))
        return found

    def interrupt(self) -> None:
        """Stop a running `evaluate` at its next layer, and every later one until `resume`. From any thread."""
        self._stopped.set()

    def resume(self) -> None:
        """Undo `interrupt`."""
        self._stopped.clear()

    def close(self) -> None:
        """Free sessions, then weights."""
        for session in list(self._sessions):
            session.close()
        self._close_graph()
        self._weights.close()

    def _close_graph(self) -> None:
        graph, self._graph = self._graph, None
        if graph is not None:
            graph.close()
