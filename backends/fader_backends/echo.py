"""A deterministic fake that ships: it repeats the last message word by word, at any speed, with real sessions and scores.

Knows no model. Scores at a position are a function of all tokens before it and of nothing else, so that every law about
reuse, rows and drafts can be tested exactly, and demos need no file. Tokens 0 to 255 are bytes; end and role marks follow.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Event

import msgspec
import numpy as np

from .base import (
    ContextSpec,
    Extension,
    Memory,
    Message,
    ModelFacts,
    ModelSpec,
    Progress,
    Scores,
    Session,
    SessionState,
)
from .errors import BadValue, ContextFull, Interrupted, NotSupported, OutOfMemory, UnknownName

END = 256
MARKS = {"system": 257, "user": 258, "assistant": 259}
VOCABULARY = 260
LENGTH = 4096
BYTES_PER_TOKEN = 64


class EchoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`ModelSpec.options` of the echo backend."""

    step_ms: float = 0.0
    """How long one evaluation takes."""
    token_ms: float = 0.0
    """How much each evaluated token adds."""
    noise: float = 1.0
    """Spread of the scores around the echoed byte; 0 makes every other token impossible."""


class EchoSession:
    """A list of tokens; its state is the list."""

    def __init__(self, backend: EchoBackend) -> None:
        self.backend = backend
        self.tokens: list[int] = []

    def extend(self, tokens: Sequence[int], rows: int = 1) -> Scores:
        """See `Session.extend`."""
        return self.backend.evaluate([Extension(self, tokens, rows)])[0]

    def rewind(self, length: int) -> None:
        """See `Session.rewind`."""
        del self.tokens[length:]

    def fork(self) -> EchoSession:
        """See `Session.fork`."""
        twin = self.backend.open()
        twin.tokens = list(self.tokens)
        return twin

    def copy(self, other: Session) -> None:
        """See `Session.copy`."""
        self.tokens = list(other.tokens)

    def save(self) -> SessionState:
        """See `Session.save`."""
        return SessionState(tuple(self.tokens), self.backend.state_key, b"")

    def load(self, state: SessionState) -> None:
        """See `Session.load`."""
        if state.key != self.backend.state_key:
            raise NotSupported("This saved state is of another model.", state.key, "Evaluate the prompt again.")
        self.tokens = list(state.tokens)

    def close(self) -> None:
        """See `Session.close`."""
        self.backend.sessions.discard(self)
        self.tokens = []


class EchoBackend:
    """See `Backend`."""

    def __init__(self, model: ModelSpec, context: ContextSpec, wait: Callable[[float], object] = time.sleep) -> None:
        try:
            self.options = msgspec.convert(model.options, EchoOptions)
        except msgspec.ValidationError as error:
            raise BadValue(f"Options of the echo backend: {error}.") from error
        self.wait = wait
        self.facts = ModelFacts(backend="echo", model="echo", vocabulary=VOCABULARY, context_trained=LENGTH)
        self.end_tokens = frozenset({END})
        self.state_key = "echo"
        self.sessions: set[EchoSession] = set()
        self.evaluated = 0
        """Tokens evaluated since the start, for tests that count work."""
        self.stopped = Event()
        self.configure(context)

    def configure(self, context: ContextSpec) -> None:
        """See `Backend.configure`."""
        for name in context.options:
            raise UnknownName("context option of the echo backend", name, ())
        for session in list(self.sessions):
            session.close()
        self.context = msgspec.structs.replace(context, length=context.length or LENGTH, threads=context.threads or 1)

    def open(self) -> EchoSession:
        """See `Backend.open`."""
        if len(self.sessions) >= self.context.rows:
            raise OutOfMemory(
                f"All {self.context.rows} rows are in use.", "", "Raise `rows` in the profile's [context]."
            )
        session = EchoSession(self)
        self.sessions.add(session)
        return session

    def evaluate(self, work: Sequence[Extension]) -> list[Scores]:
        """See `Backend.evaluate`."""
        total = sum(len(tokens) for _, tokens, *_ in work)
        if total > self.context.batch:
            raise ValueError(f"{total} tokens in one call, at most {self.context.batch} allowed")
        for session, tokens, *_ in work:
            if len(session.tokens) + len(tokens) > self.context.length:
                raise ContextFull(
                    f"The context of {self.context.length} tokens is full.",
                    "",
                    "Start a new chat, or raise its length.",
                )
        self.wait((self.options.step_ms + total * self.options.token_ms) / 1000)
        if self.stopped.is_set():
            raise Interrupted
        scores = []
        for session, tokens, rows, _ in work:
            assert isinstance(session, EchoSession)
            session.tokens.extend(tokens)
            count = len(session.tokens)
            made = [echo_scores(session.tokens[:end], self.options.noise) for end in range(count - rows + 1, count + 1)]
            scores.append(np.array(made, dtype=np.float32).reshape(rows, VOCABULARY))
        self.evaluated += total
        return scores

    def chat(self, messages: Sequence[Message], now: datetime) -> list[int]:  # noqa: ARG002 - no date in this template
        """See `Backend.chat`: role mark, bytes, end; then the assistant's mark."""
        ids = []
        for message in messages:
            ids += [MARKS[message.role], *(message.ids if message.ids is not None else message.content.encode()), END]
        return [*ids, MARKS["assistant"]]

    def encode(self, text: str) -> list[int]:
        """See `Backend.encode`."""
        return list(text.encode())

    def piece(self, token: int) -> bytes:
        """See `Backend.piece`."""
        return bytes([token]) if token < END else b""

    def memory(self) -> Memory:
        """See `Backend.memory`: a made-up but proportional figure."""
        return Memory(weights_bytes=0, kv_bytes=self.context.length * BYTES_PER_TOKEN)

    def interrupt(self) -> None:
        """See `Backend.interrupt`."""
        self.stopped.set()

    def resume(self) -> None:
        """See `Backend.resume`."""
        self.stopped.clear()

    def close(self) -> None:
        """See `Backend.close`."""
        for session in list(self.sessions):
            session.close()


def echo_scores(tokens: Sequence[int], noise: float) -> Scores:
    """Return the scores after `tokens`, shape (vocabulary,): the next byte of the last user text stands out.

    Other tokens get pseudo-random scores from a hash of all tokens before, so a wrong prefix shows at once.
    """
    digest = hashlib.blake2b(np.asarray(tokens, dtype=np.int32).tobytes(), digest_size=8).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
    scores = (
        generator.normal(0.0, noise, VOCABULARY).astype(np.float32) if noise else np.full(VOCABULARY, -40, np.float32)
    )
    scores[list(MARKS.values())] = -40.0
    scores[next_echo(tokens)] = 6.0 if noise else 40.0
    return scores


def next_echo(tokens: Sequence[int]) -> int:
    """Return the token that continues the echo: the user's last text, then the end."""
    try:
        reply = len(tokens) - 1 - list(reversed(tokens)).index(MARKS["assistant"])
        user = max(i for i in range(reply) if tokens[i] == MARKS["user"])
    except ValueError:
        return END
    text = [token for token in tokens[user + 1 : reply] if token < END]
    said = len(tokens) - reply - 1
    return text[said] if said < len(text) else END


def load(model: ModelSpec, context: ContextSpec, progress: Progress) -> EchoBackend:
    """Load nothing, quickly."""
    if not progress(1.0):
        raise Interrupted
    return EchoBackend(model, context)
