"""`Row`: one turn in work, from its prompt's ids to its finish.

Knows its own session and generator, not the other rows, not how batches are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

import numpy as np
from fader_backends.base import Backend, Extension, Pick, SamplerSettings, Scored, Session
from fader_backends.errors import NotSupported
from fader_backends.graphs import left, state_of
from fader_backends.odds import bits
from fader_backends.sampling import chain
from fader_plugins.calls import NOTHING, Guesses, Hooks, common
from fader_plugins.turn import (
    Adjusted,
    AnyEvent,
    Begun,
    Drafted,
    FinishReason,
    GenerationRequest,
    Offered,
    Prefilled,
    Token,
)

from .beginning import Beginning, follow
from .constrained import constraint_of
from .decode import Step, decode, nothing
from .text import TextStream


class Row:
    """One running turn.

    `session` holds the first `held` tokens of `prompt`, which ends with what the reply begins with (`begun`); `emit` gets
    Prefilled and Token events; `clock` is in nanoseconds.
    """

    def __init__(
        self,
        request: GenerationRequest,
        backend: Backend,
        session: Session,
        prompt: list[int],
        held: int,
        hooks: Hooks,
        emit: Callable[[AnyEvent], None],
        clock: Callable[[], int],
        begun: Beginning = Beginning(),  # noqa: B008 - a value
    ) -> None:
        self.request = request
        self.backend = backend
        self.session = session
        self.prompt = prompt
        self.begun = len(begun.ids)
        self.hooks = hooks
        self.emit = emit
        self.clock = clock
        self.stream = TextStream(request.stop)
        self.ids = list(begun.ids)
        self.reason: FinishReason | None = "end" if begun.ended else None
        self.steps = 0
        self._constraint = constraint_of(backend, request.sampler)
        self._sample = chain(
            request.sampler, backend, backend.facts.vocabulary, self._constraint, watch=request.logprobs
        )
        self._named: set[int] = set()
        self._sampled_ns: int | None = None
        self._draft_ns = 0
        self._verify_ns = 0
        self._batch = 0
        self._guesses = NOTHING
        self._graph = state_of(backend)
        self._drafts = hooks.proposes()
        propose = self._propose if self._drafts else nothing
        self._generator = decode(prompt, held, self._sample, request.keep_state, propose)
        self._step: Step = next(self._generator)
        self._done = 0
        self._scores: list[Scored] = []
        follow(self._constraint, begun)
        if begun.ids:
            pieces = {token: backend.piece(token) for token in begun.ids}
            text = self.stream.begin(b"".join(pieces[token] for token in begun.ids))
            emit(Begun(request_id=request.id, at_ns=clock(), ids=begun.ids, text=text, pieces=pieces))

    @property
    def remaining(self) -> int:
        """Tokens of the present step that are still to be evaluated."""
        return len(self._step.tokens) - self._done

    @property
    def prefilling(self) -> bool:
        """Whether the reply has not begun."""
        return self.steps == 0

    def take(self, limit: int) -> Extension:
        """Return the next part of the present step, at most `limit` tokens."""
        step = self._step
        if self._done == 0 and len(self.session.tokens) > step.keep:
            self.session.rewind(step.keep)
        end = min(self._done + limit, len(step.tokens))
        rows = max(0, end - max(self._done, len(step.tokens) - step.rows))
        best = self._sample.enough if rows == step.rows else 0
        return Extension(self.session, step.tokens[self._done : end], rows, best)

    def _propose(self, history: Sequence[int]) -> Sequence[int]:
        """Ask for guesses, within what context, batch and reply length allow; none after the reply's end."""
        self._sampled_ns = begin = self.clock()
        request, context = self.request, self.backend.context
        room = min(context.length - len(history), context.batch - 1)
        if request.max_tokens is not None:
            room = min(room, request.max_tokens - (len(history) - len(self.prompt)) - 1)
        self._draft_ns, self._guesses = 0, NOTHING
        if room <= 0 or (history[-1] in self.backend.end_tokens and not request.ignore_end):
            return ()
        self._guesses = self.hooks.propose_tokens(request, history, room)
        self._draft_ns = self.clock() - begin
        return list(takewhile(range(self.backend.facts.vocabulary).__contains__, self._guesses.tokens))

    def give(self, part: Extension, scores: Scored, took_ns: int, batch: int) -> None:
        """Take the scores of a part; at the end of a step, sample and go on.

        It was evaluated in `took_ns`, in a batch of `batch` tokens of all rows.
        """
        self._done += len(part.tokens)
        self._verify_ns += took_ns
        self._batch += batch
        if part.rows:
            self._scores.append(scores.copy() if self.remaining else scores)
        if self.prefilling:
            self.emit(
                Prefilled(request_id=self.request.id, at_ns=self.clock(), done=self._done, total=len(self._step.tokens))
            )
        if self.remaining:
            return
        gathered = self._scores[0] if len(self._scores) == 1 else np.concatenate(self._scores)
        told = self._step.rows - 1, self._draft_ns, self._guesses
        self._step = self._generator.send(gathered)
        self._done, self._scores = 0, []
        at_ns = self._sampled_ns or self.clock()
        if self._drafts and not self.prefilling:
            self._tell(at_ns, *told)
        self._verify_ns = self._batch = 0
        for pick in self._step.picks:
            self._accept(pick, at_ns, drafted=pick is not self._step.picks[-1])
            if self.reason:
                break
        self.steps += 1

    def _tell(self, at_ns: int, proposed: int, draft_ns: int, guesses: Guesses) -> None:
        event = Drafted(
            request_id=self.request.id,
            at_ns=at_ns,
            step=self.steps,
            proposed=proposed,
            kept=len(self._step.picks) - 1,
            draft_ns=draft_ns,
            verify_ns=self._verify_ns,
            batch=self._batch,
            by=guesses.by,
            notes=guesses.notes,
            held=guesses.held,
        )
        self.emit(event)
        self.hooks.observe(self.request, event)

    def _accept(self, pick: Pick, at_ns: int, drafted: bool) -> None:
        request = self.request
        pieces = self._pieces(pick)
        if request.until_bits is not None and pick.odds is not None and bits(pick.odds.logprob) > request.until_bits:
            self.emit(Offered(request_id=request.id, at_ns=at_ns, token=pick.token, odds=pick.odds, pieces=pieces))
            self.reason = "surprise"
            return
        if pick.token in self.backend.end_tokens and not request.ignore_end:
            self.reason = "end"
            return
        self.ids.append(pick.token)
        text = self.stream.feed(self.backend.piece(pick.token))
        self.emit(
            Token(
                request_id=request.id,
                at_ns=at_ns,
                index=len(self.ids) - 1,
                step=self.steps,
                token=pick.token,
                text=text,
                logprob=pick.logprob,
                drafted=drafted,
                odds=pick.odds,
                pieces=pieces,
            )
        )
        if self.stream.stopped:
            self.reason = "stop"
        elif request.max_tokens is not None and len(self.ids) - self.begun >= request.max_tokens:
            self.reason = "length"
        elif len(self.prompt) + len(self.ids) - self.begun >= self.backend.context.length:
            self.reason = "context"

    def _pieces(self, pick: Pick) -> dict[int, bytes]:
        """Return the bytes of candidates that were not named before; end tokens have none, other control tokens no entry."""
        if pick.odds is None:
            return {}
        new = set(pick.odds.ids()) - self._named
        self._named |= new
        pieces = {token: self.backend.piece(token) for token in new}
        return {token: piece for token, piece in pieces.items() if piece or token in self.backend.end_tokens}

    def adjust(self, sampler: SamplerSettings) -> None:
        """Use other sampler settings from the next token on. Raises BadValue, UnknownName with nothing changed."""
        self._sample.adjust(sampler)
        self.emit(Adjusted(request_id=self.request.id, at_ns=self.clock(), index=len(self.ids), sampler=sampler))

    def close(self) -> tuple[str, tuple[int, ...]]:
        """End the turn: leave only right tokens in the session; return the last text and the reply's ids.

        Where a stop string cut the reply, the ids are those of the text that stays. Told is what the backend gave up.
        """
        if why := left(self._graph, state_of(self.backend)):
            self.hooks.lost("graph", f"The model runs without graphs from now on: {why}.")
        self._generator.close()
        if self._constraint is not None:
            self._constraint.close()
        ids = tuple(self.ids)
        if self.stream.stopped:
            ids = self._cut_ids()
        try:
            self.session.rewind(common(self.session.tokens, [*self.prompt, *ids[self.begun :]]))
        except NotSupported:  # the reply is right all the same; the next turn evaluates it again
            self.session.rewind(0)
        return self.stream.flush(), ids

    def _cut_ids(self) -> tuple[int, ...]:
        kept = self.stream.kept
        ids: list[int] = []
        for token in self.ids:
            piece = self.backend.piece(token)
            if len(piece) > kept:
                rest = piece[:kept]
                while ids and rest and rest[0] & 0xC0 == 0x80:  # the character began in the token before
                    rest = self.backend.piece(ids.pop()) + rest
                ids += self.backend.encode(rest.decode(errors="replace")) if rest else []
                break
            ids.append(token)
            kept -= len(piece)
        return tuple(ids)
