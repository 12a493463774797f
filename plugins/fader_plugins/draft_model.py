"""A small model drafts, the chat's model checks. Off: one token per step.

Knows how a draft is made and when it pays; which model fits which is `fader_backends.kinship`'s, the file the loader's.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Sequence
from typing import Annotated

from fader_backends.base import Backend, Session

from .draft_session import DraftSessions, Writer
from .drafting import Chances, Pace, Plan, Turns, rows
from .hookspecs import hookimpl
from .settings import Settings, setting
from .turn import AnyEvent, Draft, Drafted, GenerationRequest, Numbers, PluginInfo, Reading

ANY = -1
"""The kind of all guesses together; the others are classes of the draft's own certainty."""
CLASSES = 8


class DraftModel(Settings, frozen=True, kw_only=True):
    """Which model drafts, and how boldly."""

    model: Annotated[str, setting("GGUF file, or its name beside the chat's model; empty is the embedded model")] = ""
    max_draft: Annotated[int, setting("Most tokens drafted at once", ge=1, le=64, step=1)] = 16
    adaptive: Annotated[bool, setting("Draft as much as pays, or not at all; off: always as much as allowed")] = True
    p_min: Annotated[float, setting("Stop drafting below this certainty of the draft", ge=0, le=1, step=0.05)] = 0.0


def belief(kind: int) -> float:
    """Return what is thought of guesses at first: that they hold; of one guess, that it holds as often as it says."""
    return 0.9 if kind == ANY else (kind + 0.5) / CLASSES


class Plugin:
    """The plugin with its model and what it has learnt. `clock` is in nanoseconds."""

    def __init__(self, info: PluginInfo, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.info = info
        self.clock = clock
        self.target: Backend | None = None
        self.sessions: DraftSessions | None = None
        atexit.register(self.reset, None)
        self.reset(None)

    def reset(self, target: Backend | None) -> None:
        """Free the draft and know nothing."""
        if self.sessions is not None:
            self.sessions.close()
        self.target, self.sessions = target, None
        self.pace, self.chances = Pace(), Chances(belief)
        self.measured_ms: float | None = None

    def writer(self, request: GenerationRequest) -> Writer:
        """Begin a turn. The draft must be loaded."""
        assert self.sessions is not None
        self.chances.fade()
        return self.sessions.writer(request)

    @hookimpl
    def engine_ready(self, backend: Backend) -> None:
        """Free the draft: it was laid out for another target."""
        self.reset(backend)

    @hookimpl
    def propose_tokens(self, request: GenerationRequest, history: Sequence[int], limit: int) -> Draft | None:
        """Let the draft go on, as far as that pays. Raises LoadError, BadValue, NotSupported or OutOfMemory."""
        settings = request.settings(self.info.name, DraftModel)
        if self.target is None:
            return None
        if self.sessions is None or self.sessions.name != settings.model:
            self.reset(self.target)
            self.sessions = DraftSessions(self.target, request.model, settings.model, request.context.options)
            self.writers = Turns(self.writer, self.sessions.keep)
        writer = self.writers.of(request, history)
        for certainty, right in writer.outcomes(history):
            self.chances.learn(ANY, right)
            self.chances.learn(kind(certainty), right)
        draft = self.draft(writer, history, min(limit, settings.max_draft, writer.room(history)), settings)
        writer.rhythm.drafted(len(draft.tokens) > 0)
        warning = self.sessions.warning
        return Draft(draft.tokens, f"{warning}; {draft.note}" if warning else draft.note, self.sessions.held_bytes)

    def draft(self, writer: Writer, history: Sequence[int], limit: int, settings: DraftModel) -> Draft:
        """Return what to propose and why."""
        guess_ms = self.guess_ms()
        plan = self.pace.plan([self.chances.of(ANY)] * limit, guess_ms)
        if not settings.adaptive:
            plan = Plan(limit, plan.ratio)
        if not plan.length:
            if self.pace.retry():
                self.chances.forget()  # with the belief of the beginning it may draft again
                self.measured_ms = None
            return Draft((), f"idle: drafts would take {plan.ratio:.2f} of no drafts" if limit > 0 else "idle: no room")
        if writer.rhythm.rests():
            return Draft((), "active: one step without a draft, to time it")
        done = writer.read(history)
        if done < 1:
            return Draft((), f"reading what was said: {done:.0%}")
        begin, reach, guessed = self.clock(), 1.0, 0
        for guessed, certainty in enumerate(writer.write(history, plan.length, settings.p_min), 1):
            reach *= self.chances.of(kind(certainty))
            if settings.adaptive and not self.pace.worth(guessed, reach * self.chances.of(ANY), guess_ms):
                break
        if guessed:
            took = (self.clock() - begin) * 1e-6 / guessed
            self.measured_ms = took if self.measured_ms is None else self.measured_ms + (took - self.measured_ms) * 0.2
        return Draft(writer.guess, f"active: {plan.length} tokens, to take {plan.ratio:.2f} of no drafts")

    def guess_ms(self) -> float:
        """Return what a guess takes: as measured, or in proportion to the models' sizes."""
        share = self.sessions.share if self.sessions is not None else 1.0
        return self.measured_ms if self.measured_ms is not None else share * self.pace.costs.ms(1)

    @hookimpl
    def observe(self, event: AnyEvent) -> None:
        """Learn what evaluations cost."""
        if isinstance(event, Drafted):
            self.pace.learn(event)

    @hookimpl
    def keep_prefix(self, request: GenerationRequest, session: Session) -> None:  # noqa: ARG002 - the hook's
        """Keep the draft's session for the conversation's next turn."""
        if self.sessions is not None:
            self.writers.end(request)

    @hookimpl
    def readings(self, numbers: Numbers) -> list[Reading]:
        """Return what drafts came to."""
        return rows(numbers, self.info.name, "draft model")


def kind(certainty: float) -> int:
    """Return the class of a certainty."""
    return min(int(certainty * CLASSES), CLASSES - 1)


info = PluginInfo(
    name="draft_model",
    summary="A small model of the same family drafts, yours checks (for models that are slow by themselves)",
    settings=DraftModel,
    on=False,
    needs=frozenset({"rewind"}),
)
plugin = Plugin(info)
