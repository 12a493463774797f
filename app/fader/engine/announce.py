"""`Announcer`: how the beginning, the end and the failures of turns become events.

Knows events and clocks; decides nothing.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from fader_backends.base import Backend, Memory, Session
from fader_backends.errors import FaderError, Failure, NotSupported, TurnError
from fader_backends.graphs import GraphState
from fader_backends.operators import Inspected
from fader_plugins.calls import common
from fader_plugins.turn import (
    AnyEvent,
    Difference,
    Failed,
    Finished,
    FinishReason,
    GenerationRequest,
    Looked,
    PluginFault,
    Prepared,
    Rendered,
    Restored,
    Reuse,
    Started,
    Trimmed,
)

from .fitting import Fitted
from .resident import peak_rss_bytes

EXCERPT = 6
"""Tokens shown on each side of a prefix difference."""


class Announcer:
    """Makes events and emits them. `clock` is in nanoseconds."""

    def __init__(
        self,
        emit: Callable[[AnyEvent], None],
        clock: Callable[[], int],
        memory: Callable[[], Memory],
        graph: Callable[[], GraphState | None] = lambda: None,
    ) -> None:
        self.emit = emit
        self.clock = clock
        self.memory = memory
        self.graph = graph

    def started(self, request: GenerationRequest) -> None:
        """Tell that a turn was taken up."""
        self.emit(Started(request_id=request.id, at_ns=self.clock()))

    def rendered(self, request: GenerationRequest, prompt: Sequence[int]) -> None:
        """Tell that the prompt's ids are known."""
        self.emit(Rendered(request_id=request.id, at_ns=self.clock(), prompt_tokens=len(prompt)))

    def fitted(self, request: GenerationRequest, fitted: Fitted) -> list[int]:
        """Tell that the prompt's ids are known, and what was left out for it; return the ids."""
        self.rendered(request, fitted.prompt)
        if fitted.dropped:
            self.emit(
                Trimmed(request_id=request.id, at_ns=self.clock(), messages=fitted.dropped, tokens=fitted.shorter)
            )
        return fitted.prompt

    def restored(
        self, request: GenerationRequest, total: int, reuse: Reuse, by: str | None, difference: Difference | None
    ) -> None:
        """Tell what need not be evaluated, and why not more."""
        self.emit(
            Restored(
                request_id=request.id,
                at_ns=self.clock(),
                reused=reuse.tokens,
                new=total - reuse.tokens,
                by=by,
                tier=reuse.tier,
                note=reuse.note,
                difference=difference if by else None,
            )
        )

    def prepared(self, request: GenerationRequest, account: tuple[int, int] | None) -> None:
        """Tell what evaluating ahead was good for, if there was any."""
        if account is not None:
            ready, vain = account
            self.emit(Prepared(request_id=request.id, at_ns=self.clock(), ready=ready, vain=vain))

    def looked(self, request: GenerationRequest, backend: Backend, session: Session) -> None:
        """Look into steps of an empty session, and tell. Raises NotSupported where the backend does not tell."""
        if not isinstance(backend, Inspected):
            raise NotSupported(
                f"The {backend.facts.backend} backend tells nothing of its operators.", "", "torch and llama.cpp do."
            )
        tables = tuple(backend.operators(session))
        self.emit(Looked(request_id=request.id, at_ns=self.clock(), facts=backend.facts, tables=tables))

    def finished(
        self, request: GenerationRequest, reason: FinishReason, text: str = "", ids: tuple[int, ...] = (), used: int = 0
    ) -> None:
        """Tell that a turn is over."""
        self.emit(
            Finished(
                request_id=request.id,
                at_ns=self.clock(),
                reason=reason,
                text=text,
                ids=ids,
                context_used=used,
                memory=self.memory(),
                rss_peak_bytes=peak_rss_bytes(),
                graph=self.graph(),
            )
        )

    def failed(self, request: GenerationRequest, error: Exception, text: str = "", ids: tuple[int, ...] = ()) -> None:
        """Tell that a turn ended with an error."""
        self.emit(Failed(request_id=request.id, at_ns=self.clock(), failure=failure_of(error), text=text, ids=ids))

    def fault(self, request: GenerationRequest, plugin: str, hook: str, detail: str) -> None:
        """Tell that a plugin failed."""
        self.emit(PluginFault(request_id=request.id, at_ns=self.clock(), plugin=plugin, hook=hook, detail=detail))


def difference_of(backend: Backend, held: Sequence[int], prompt: Sequence[int]) -> Difference | None:
    """Return where a prompt leaves what a session holds; None when it goes on from it."""
    shared = common(held, prompt)
    if shared == len(held):
        return None
    return Difference(shared, excerpt(backend, held[shared:]), excerpt(backend, prompt[shared:]))


def excerpt(backend: Backend, tokens: Sequence[int]) -> str:
    """Return the text of the first few tokens; control tokens as their number in brackets."""
    pieces = [backend.piece(token) or f"<{token}>".encode() for token in tokens[:EXCERPT]]
    return b"".join(pieces).decode(errors="replace")


def failure_of(error: Exception) -> Failure:
    """Return any exception as a value; one that nobody foresaw goes to stderr with its traceback, which is the log."""
    if isinstance(error, FaderError):
        return error.failure
    traceback.print_exception(error)
    return TurnError(
        "The engine met an error it does not know.",
        f"{type(error).__name__}: {error}",
        "Try again; the log has the details (`fader paths` says where).",
    ).failure
