"""`Ahead`: what the next turn is certain to begin with, evaluated while nothing else runs.

Knows one wish at a time, the newest. It never keeps a turn waiting: the engine drops it at a chunk's notice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from fader_backends.base import Backend, Message, Session
from fader_backends.errors import ContextFull, Interrupted
from fader_plugins.calls import Hooks, common
from fader_plugins.turn import GenerationRequest

from .announce import failure_of
from .fitting import fit
from .model import LoadedModel
from .sessions import Sessions

CHUNK = 16
"""Tokens per evaluation: how long the engine may be deaf."""
CONTINUATIONS = (" a", "\n\nB", ".")
"""Ways a text may go on; what all of them leave alone is certain."""


class Ahead:
    """Evaluates ahead for one conversation at a time; `sessions` lends and gets back its session."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._request: GenerationRequest | None = None
        self._ids: list[int] | None = None
        self.working = False
        """Whether an evaluation may be running that should yield to whatever comes."""
        self._done: dict[str, tuple[int, int]] = {}
        """Per owner: (length of the session before, tokens evaluated since)."""

    @property
    def wanted(self) -> bool:
        """Whether there is anything left to do."""
        return self._request is not None

    def wish(self, request: GenerationRequest) -> None:
        """Prepare for this turn from now on, whose last message is still being typed."""
        self._request, self._ids = request, None

    def drop(self) -> None:
        """Prepare for nothing until the next wish."""
        self._request = self._ids = None

    def forget(self) -> None:
        """Prepare for nothing; the sessions that were prepared are gone."""
        self.drop()
        self._done.clear()

    def work(
        self, model: LoadedModel, hooks_of: Callable[[GenerationRequest], Hooks], called: Callable[[], bool]
    ) -> None:
        """Evaluate a little of what is certain, unless the engine is called away to a turn.

        Nothing is loaded in place of something else for it. A failure ends the wish; the turn itself will meet and
        show it.
        """
        self.working = True  # from here on whoever calls interrupts
        request = self._request
        try:
            if request is None or called():
                return
            if not model.serves(request) and model.backend is not None:
                self.drop()
                return
            hooks = hooks_of(request)
            backend = model.ready(request, called, hooks.engine_ready)
            self._step_of(request, backend, hooks)
        except Interrupted:
            pass
        except Exception as error:  # whatever it is, nobody asked for this; the log has it
            failure_of(error)
            self.drop()
        finally:
            self.working = False

    def _step_of(self, request: GenerationRequest, backend: Backend, hooks: Hooks) -> None:
        session = self.sessions.take(backend, request.owner, partial(hooks.make_room, backend))
        try:
            self._step(backend, hooks, request, session)
        finally:
            self.sessions.keep(request.owner, session)

    def _step(self, backend: Backend, hooks: Hooks, request: GenerationRequest, session: Session) -> None:
        if self._ids is None:
            self._ids = certain(backend, request)[: backend.context.length - 1]
            if request.owner not in self._done and self._ids:
                hooks.restore_prefix(request, session, [*self._ids, self._ids[-1]], backend)
                self._done[request.owner] = (len(session.tokens), 0)
            shared = common(session.tokens, self._ids)
            if shared < len(session.tokens) and len(self._ids) <= shared:
                self._ids = []  # the session holds more than is certain; that costs nothing to leave
            else:
                session.rewind(shared)
        left = self._ids[len(session.tokens) :]
        if left:
            part = left[: min(CHUNK, request.chunk, backend.context.batch)]
            session.extend(part, 0)
            base, evaluated = self._done.get(request.owner, (0, 0))
            self._done[request.owner] = (base, evaluated + len(part))
        if len(left) <= CHUNK:
            self._request = self._ids = None

    def account(self, owner: str, reused: int) -> tuple[int, int] | None:
        """Return (tokens that were ready, tokens evaluated in vain) for the turn that now begins; None without any."""
        base, evaluated = self._done.pop(owner, (0, 0))
        if not evaluated:
            return None
        ready = min(max(reused - base, 0), evaluated)
        return ready, evaluated - ready


def certain(backend: Backend, request: GenerationRequest) -> list[int]:
    """Return the ids that the prompt begins with however its last message goes on; none where it does not fit."""
    *before, last = request.messages
    prompts = []
    for more in CONTINUATIONS:
        longer = (*before, Message(last.role, last.content + more))
        try:
            prompts.append(fit(backend, msgspec.structs.replace(request, messages=longer)).prompt)
        except ContextFull:
            return []
    return prompts[0][: min(common(prompts[0], other) for other in prompts[1:])]
