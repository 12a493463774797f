"""Owns a loaded llama.cpp model with its context and its sessions: the `Backend` of GGUF files.

Knows no sampling and no conversation beyond turning messages into ids.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime

import msgspec
import psutil

from fader_backends import template
from fader_backends.base import ContextSpec, Extension, Memory, Message, ModelSpec, Progress, Scores, Session
from fader_backends.batches import check_room
from fader_backends.errors import FaderError, Interrupted, OutOfMemory, TurnError
from fader_backends.gguf import inspect
from fader_backends.llamacpp.context import Context, Stretch
from fader_backends.llamacpp.grammar import LlamaConstraint, constraint
from fader_backends.llamacpp.layout import Layout, plan
from fader_backends.llamacpp.library import LOG, Switch, bindings, reason, versions
from fader_backends.llamacpp.session import LlamaSession
from fader_backends.llamacpp.weights import Weights, find
from fader_backends.operators import PROMPT, STEPS, TEXT, Operators, steps
from fader_backends.prompt import Encoder


def open_backend(model: ModelSpec, context: ContextSpec, progress: Progress) -> LlamaCpp:
    """Load weights, then make the first context; nothing stays behind when either fails."""
    file = inspect(find(model.model))
    source = template.choose(file.chat_template, model.template, file.name)
    compiling = threading.Thread(target=template.prepare, args=(source,))  # 60 ms that the library's load covers
    compiling.start()
    try:
        weights = Weights(file, model, progress)
    finally:
        compiling.join()
    try:
        return LlamaCpp(model.backend, weights, source, context)
    except BaseException:
        weights.close()
        raise


class LlamaCpp:
    """`base.Backend` over one model; `base` says what each method promises."""

    def __init__(self, name: str, weights: Weights, source: str, context: ContextSpec) -> None:
        """Take the backend's name, and the source of the chat template."""
        self._name = name
        self._weights = weights
        self._vocabulary = vocabulary = weights.vocabulary
        self._template = source
        self._encoder = Encoder(vocabulary.parse, vocabulary.control, vocabulary.bos, vocabulary.adds_bos)
        self._switch = Switch(bindings())
        self._fingerprint = weights.fingerprint()
        self._sessions: dict[int, LlamaSession] = {}
        self.end_tokens = vocabulary.end_tokens
        self._live: Context | None = None
        self._set_up(context, plan(context, weights.file))

    def _set_up(self, spec: ContextSpec, layout: Layout) -> None:
        self._live = live = Context(self._weights, layout, self._switch)
        self.context = msgspec.structs.replace(
            spec, length=live.length, rows=layout.rows, batch=live.batch, threads=layout.threads
        )
        self.facts = self._weights.facts(self._name, layout.threads)
        self.state_key = self._key(layout)

    def _key(self, layout: Layout) -> str:
        version = "/".join(versions().values())
        kinds = f"k={layout.type_k} v={layout.type_v} flash={layout.flash_attention} unified={layout.unified}"
        file = self._weights.file
        before_stretch = file.number("rope.scaling.original_context_length")
        rope = "long" if before_stretch and layout.length > before_stretch else "plain"  # such models have two tables
        return f"llamacpp {version} {self._fingerprint} {kinds} rope={rope} on={self._weights.device}"

    def operators(self, session: Session) -> list[Operators]:
        """See `operators.Inspected.operators`: the library counts its graphs, and names no operators."""
        assert isinstance(session, LlamaSession)
        tokens = (self.encode(TEXT) * PROMPT)[:PROMPT]
        session.extend(tokens, 0)
        steps(session, tokens, 3)
        live = self.context_of(session)
        before = live.reused
        step_ms = steps(session, tokens, STEPS)
        facts = {
            **live.reported,
            "graph reused": f"in {live.reused - before} of {STEPS} steps",
            "threads": str(self.context.threads),
        }
        return [Operators(label="as llama.cpp runs it", tokens=STEPS, step_ms=step_ms, facts=facts)]

    def configure(self, context: ContextSpec) -> None:
        """Make a new context. A spec that cannot be meant changes nothing; else sessions are closed in any case."""
        before, freed = self.context, (self._live and self._live.kv_bytes) or 0
        layout = plan(context, self._weights.file, freed)
        self._drop_context()  # first, or there would have to be room for both
        try:
            self._set_up(context, layout)
        except FaderError:
            self._set_up(before, plan(before, self._weights.file))
            raise

    def _drop_context(self) -> None:
        for session in list(self._sessions.values()):
            session.close()
        if self._live is not None:
            self._live.close()
            self._live = None

    def open(self) -> LlamaSession:
        """Return an empty session."""
        row = next((row for row in range(self.context.rows) if row not in self._sessions), None)
        if row is None:
            raise OutOfMemory(f"All {self.context.rows} rows are in use.", "", "Close one, or set more rows.")
        session = self._sessions[row] = LlamaSession(self, row)
        return session

    def release(self, session: LlamaSession) -> None:
        """Take a session's row back and forget what it holds."""
        self.context_of(session).cut(session.row, -1)
        del self._sessions[session.row]

    def context_of(self, session: LlamaSession) -> Context:
        """Return the context a session lives in. Raises ValueError when it was closed."""
        if self._live is None or self._sessions.get(session.row) is not session:
            raise ValueError("this session is closed")
        return self._live

    def evaluate(self, work: Sequence[Extension]) -> list[Scores]:
        """Run several sessions in one call."""
        live, sessions = self._checked(work)
        if self._switch.on:
            raise Interrupted
        for session in sessions:
            self.rebuild(session)
        stretches = [
            Stretch(session.row, len(session.held), tokens, rows)
            for session, (_, tokens, rows, _) in zip(sessions, work, strict=True)
        ]
        code = live.run(stretches)
        try:
            if code:
                raise self._failure(code, stretches)
            scores = live.scores(stretches)
        except (TurnError, Interrupted):
            for session in sessions:
                session.restore(len(session.held))
            raise
        for session, stretch in zip(sessions, stretches, strict=True):
            session.held.extend(stretch.tokens)
        return scores

    def _checked(self, work: Sequence[Extension]) -> tuple[Context, list[LlamaSession]]:
        """Refuse what would end the process, or could only fail half-way."""
        if self._live is None:
            raise ValueError("this model is closed")
        sessions = []
        for session, tokens, rows, _ in work:
            if not isinstance(session, LlamaSession) or self._sessions.get(session.row) is not session:
                raise ValueError("this session is closed, or another backend's")
            if not 0 <= rows <= len(tokens):
                raise ValueError(f"{rows} rows of {len(tokens)} tokens cannot be scored")
            check_room(self.context, len(session.held) + len(tokens))
            sessions.append(session)
        total = sum(len(tokens) for _, tokens, *_ in work)
        if total > self.context.batch:
            raise ValueError(f"{total} tokens in one call; at most {self.context.batch} are allowed")
        if len({session.row for session in sessions}) < len(sessions):
            raise ValueError("a session appears twice in one call")
        return self._live, sessions

    def _failure(self, code: int, work: Sequence[Stretch]) -> TurnError | Interrupted:
        if code == 2:
            return Interrupted()
        if code == 1:
            held = sum(len(session.held) for session in self._sessions.values())
            return OutOfMemory(
                f"The context has no room for {sum(len(s.tokens) for s in work):,} more tokens.",
                f"Its {self.context.length:,} cells serve all rows together, and {held:,} tokens are held.",
                "Close other rows, or set a longer context.",
            )
        return TurnError("llama.cpp could not evaluate this.", f"{reason(list(LOG.lines)[-5:])} (code {code})")

    def rebuild(self, session: LlamaSession) -> None:
        """Evaluate a session's tokens again if the context lost them."""
        if not session.lost:
            return
        tokens, session.held, session.lost = session.held, [], False
        try:
            session.extend(tokens, 0)
        except BaseException:
            self.context_of(session).cut(session.row, -1)
            session.held, session.lost = tokens, True
            raise

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

    def constrain(self, grammar: str, json_schema: str) -> LlamaConstraint:
        """Return a constraint for one reply (`constraint.Constraining`)."""
        return constraint(self._vocabulary, grammar, json_schema)

    def memory(self) -> Memory:
        """Return what is held now."""
        return Memory(
            weights_bytes=self._weights.bytes,
            kv_bytes=self._live.kv_bytes if self._live else None,
            free_bytes=psutil.virtual_memory().available,
        )

    def interrupt(self) -> None:
        """Stop a running `evaluate`, and every later one until `resume`. From any thread."""
        self._switch.set(True)

    def resume(self) -> None:
        """Undo `interrupt`."""
        self._switch.set(False)

    def close(self) -> None:
        """Free context, then model."""
        self._drop_context()
        self._weights.close()
