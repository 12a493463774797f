"""Draft what followed the last time the text went like this. Off: one token per step.

Knows tokens only, and needs no model: Saxena, "Prompt lookup decoding" (2023), with the draft's length chosen by what it
promises. Guesses that are not evaluated are compared with what came as well, so that waiting costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

from fader_backends.base import Backend, Session
from fader_backends.errors import BadValue

from .drafting import Chances, Pace, Plan, Rhythm, Turns, before, rows
from .hookspecs import hookimpl
from .ngrams import Index, Match, belief, kind
from .settings import Settings, setting
from .turn import AnyEvent, Draft, Drafted, GenerationRequest, Numbers, PluginInfo, Reading, RequestDraft


class PromptLookup(Settings, frozen=True, kw_only=True):
    """Which matches count."""

    max_ngram: Annotated[int, setting("Longest run of tokens looked for", ge=1, le=16, step=1)] = 6
    min_ngram: Annotated[int, setting("Shortest run of tokens that counts as a match", ge=1, le=16, step=1)] = 2
    max_draft: Annotated[int, setting("Most tokens drafted at once", ge=1, le=64, step=1)] = 24
    adaptive: Annotated[bool, setting("Draft as much as pays, or not at all; off: always as much as allowed")] = True


class Search:
    """One turn's index, and its last guess."""

    def __init__(self, request: GenerationRequest) -> None:
        self.settings = settings = request.settings(info.name, PromptLookup)
        self.index = Index(settings.min_ngram, settings.max_ngram)
        self.rhythm = Rhythm()
        self.at = 0
        self.match = Match(0, 0)
        self.guess: Sequence[int] = ()

    def outcomes(self, history: Sequence[int]) -> Iterator[tuple[int, bool]]:
        """Yield (length of the match, whether the token after it was right) of the last guess, up to the first wrong."""
        for offset, (token, came) in enumerate(zip(self.guess, islice(history, self.at, None), strict=False)):
            yield self.match.length + offset, token == came
            if token != came:
                return

    def look(self, history: Sequence[int], ends: frozenset[int]) -> Match | None:
        """Find a match and guess what follows; where the text would end, it goes round."""
        found = self.index.find(history)
        self.at, self.guess = len(history), ()
        if found is not None:
            self.match, past = found, history[found.place : found.place + self.settings.max_draft]
            self.guess = before([past[at % len(past)] for at in range(self.settings.max_draft)], ends)
        return found


class Plugin:
    """The plugin with what it has learnt of the present model."""

    def __init__(self, info: PluginInfo) -> None:
        self.info = info
        self.reset()

    def reset(self) -> None:
        """Know nothing."""
        self.ends: frozenset[int] = frozenset()
        self.pace, self.chances, self.searches = Pace(), Chances(belief), Turns(self.search)

    def search(self, request: GenerationRequest) -> Search:
        """Begin a turn."""
        self.chances.fade()
        return Search(request)

    @hookimpl
    def plan_request(self, draft: RequestDraft) -> None:
        """Refuse settings that contradict each other."""
        settings = draft.settings(self.info.name, PromptLookup)
        if settings.min_ngram > settings.max_ngram:
            raise BadValue(
                f"{self.info.name}.min_ngram = {settings.min_ngram} is above max_ngram = {settings.max_ngram}.",
                "",
                "Lower min_ngram.",
            )

    @hookimpl
    def engine_ready(self, backend: Backend) -> None:
        """Start anew: another model costs and repeats otherwise."""
        self.reset()
        self.ends = backend.end_tokens

    @hookimpl
    def propose_tokens(self, request: GenerationRequest, history: Sequence[int], limit: int) -> Draft | None:
        """Guess that the text goes on as it did before, as far as that pays."""
        search = self.searches.of(request, history)
        for length, right in search.outcomes(history):
            self.chances.learn(kind(length), right)
        draft = self.draft(search, history, limit, frozenset() if request.ignore_end else self.ends)
        search.rhythm.drafted(draft is not None and len(draft.tokens) > 0)
        return draft

    def draft(self, search: Search, history: Sequence[int], limit: int, ends: frozenset[int]) -> Draft | None:
        """Return what to propose; None where nothing matches."""
        match = search.look(history, ends)
        guess = search.guess[:limit]
        if match is None or not guess:
            return None
        plan = self.pace.plan(self.chances.of(kind(match.length + place)) for place in range(len(guess)))
        if not search.settings.adaptive:
            plan = Plan(len(guess), plan.ratio)
        if not plan.length:
            return Draft(
                guess[:1] if self.pace.retry() else (), f"idle: drafts would take {plan.ratio:.2f} of no drafts"
            )
        if search.rhythm.rests():
            return Draft((), "active: one step without a draft, to time it")
        return Draft(guess[: plan.length], f"active: {plan.length} tokens, to take {plan.ratio:.2f} of no drafts")

    @hookimpl
    def observe(self, event: AnyEvent) -> None:
        """Learn what evaluations cost."""
        if isinstance(event, Drafted):
            self.pace.learn(event)

    @hookimpl
    def keep_prefix(self, request: GenerationRequest, session: Session) -> None:  # noqa: ARG002 - the hook's
        """Free the turn's index."""
        self.searches.end(request)

    @hookimpl
    def readings(self, numbers: Numbers) -> list[Reading]:
        """Return what drafts came to."""
        return rows(numbers, self.info.name, "lookup")


info = PluginInfo(
    name="prompt_lookup",
    summary="Draft what followed the last time the text went like this (good for copying, editing, lists)",
    settings=PromptLookup,
    on=False,
    needs=frozenset({"rewind"}),
)
plugin = Plugin(info)
