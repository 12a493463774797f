"""What one turn is: the request before and after it is frozen, the events it causes, the numbers they add up to.

Knows no engine and no screen. Everything but `RequestDraft` is frozen and crosses the process border as msgspec.
Event times (`at_ns`) are `time.perf_counter_ns`, which is one clock for all processes of a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
from fader_backends.base import ContextSpec, Memory, Message, ModelFacts, ModelSpec, SamplerSettings
from fader_backends.errors import BadValue, Failure

from .numbers import Difference as Difference
from .numbers import DraftNumbers as DraftNumbers
from .numbers import Numbers as Numbers
from .numbers import Reading as Reading
from .settings import Cost as Cost
from .settings import S as S
from .settings import Settings as Settings
from .settings import setting as setting


class PluginInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin says of itself, as data."""

    name: str
    """Lower-case identifier, unique."""
    summary: str
    """One line: what it does when it is on."""
    settings: type[Settings] = Settings
    on: bool = True
    """Whether it starts switched on."""
    toggle: bool = True
    """False for plugins without a switch, such as those that only name backends."""
    needs: frozenset[str] = frozenset()
    """Capabilities (`BackendInfo.provides`) without which it is greyed out."""


class PluginState(msgspec.Struct, frozen=True):
    """A plugin's switch and settings in one request."""

    on: bool
    settings: dict[str, Any]
    """All fields of its settings type as plain data, defaults included."""


class RequestDraft(msgspec.Struct, kw_only=True):
    """A request while plugins plan it: the one mutable value. Unplanned, it is greedy and keeps no state."""

    owner: str
    """The conversation; reuse never crosses owners."""
    messages: list[Message]
    model: ModelSpec
    context: ContextSpec
    sampler: SamplerSettings = SamplerSettings()
    keep_state: bool = False
    """False: every step evaluates the whole text again."""
    chunk: int = 128
    """Most tokens of one row's prefill in one call; a cancel waits for one chunk at the most."""
    max_tokens: int | None = None
    stop: list[str] = []
    ignore_end: bool = False
    """Go on after end-of-generation tokens; for measurements of fixed length."""
    now: datetime
    """The clock the chat template sees; fixed per conversation so that a date cannot break the prefix."""
    profile: str = ""
    plugins: dict[str, PluginState] = {}

    def settings(self, plugin: str, kind: type[S]) -> S:
        """Return the settings of `plugin`, typed."""
        return _settings(self.plugins, plugin, kind)

    def freeze(self, id: str, submitted_ns: int) -> GenerationRequest:  # noqa: A002
        """Return the request that nothing can change any more."""
        return GenerationRequest(
            id=id,
            submitted_ns=submitted_ns,
            owner=self.owner,
            messages=tuple(self.messages),
            model=self.model,
            context=self.context,
            sampler=self.sampler,
            keep_state=self.keep_state,
            chunk=self.chunk,
            max_tokens=self.max_tokens,
            stop=tuple(self.stop),
            ignore_end=self.ignore_end,
            now=self.now,
            profile=self.profile,
            plugins=dict(self.plugins),
        )


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One turn, as it was when it was sent. Fields as in `RequestDraft`."""

    id: str
    submitted_ns: int
    owner: str
    messages: tuple[Message, ...]
    model: ModelSpec
    context: ContextSpec
    sampler: SamplerSettings
    keep_state: bool
    chunk: int
    max_tokens: int | None
    stop: tuple[str, ...]
    ignore_end: bool
    now: datetime
    profile: str
    plugins: dict[str, PluginState]

    @property
    def enabled(self) -> frozenset[str]:
        """Names of the plugins that are on."""
        return frozenset(name for name, state in self.plugins.items() if state.on)

    def settings(self, plugin: str, kind: type[S]) -> S:
        """Return the settings of `plugin`, typed."""
        return _settings(self.plugins, plugin, kind)


def _settings(plugins: dict[str, PluginState], plugin: str, kind: type[S]) -> S:
    state = plugins.get(plugin)
    try:
        return msgspec.convert(state.settings if state else {}, kind)
    except msgspec.ValidationError as error:
        raise BadValue(f"Settings of plugin {plugin!r}: {error}.") from error


class Reuse(msgspec.Struct, frozen=True):
    """What a plugin answers to `restore_prefix`, with where it had it from."""

    tokens: int
    """How many tokens of the prompt the session holds now."""
    tier: str = ""
    """Where they were kept, such as `session`, `live`, `memory`, `disk`."""
    note: str = ""
    """One line for a person: why not more, and the likely cause."""


class Draft(msgspec.Struct, frozen=True):
    """What a plugin answers to `propose_tokens`, with what it has to say about it."""

    tokens: Sequence[int] = ()
    """Empty passes the question on."""
    note: str = ""
    """One line for a person: how it goes, or why there are none."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all events."""

    request_id: str
    at_ns: int


class Started(Event, frozen=True):
    """The engine took the request up."""


class Loading(Event, frozen=True):
    """A model or context is being made ready."""

    fraction: float


class Loaded(Event, frozen=True):
    """The model is ready."""

    facts: ModelFacts
    context: ContextSpec
    load_ms: float


class Rendered(Event, frozen=True):
    """The prompt's token ids are known."""

    prompt_tokens: int


class Restored(Event, frozen=True):
    """It is known what need not be evaluated again: reused + new = prompt tokens."""

    reused: int
    new: int
    by: str | None = None
    """The plugin that answered."""
    tier: str = ""
    note: str = ""
    """As in `Reuse`."""
    difference: Difference | None = None
    """Why not everything that was held could be used."""


class Prefilled(Event, frozen=True):
    """A part of the prompt's new tokens has been evaluated."""

    done: int
    total: int


class Token(Event, frozen=True):
    """One generated token."""

    index: int
    """0 for the first of the reply."""
    step: int
    """Which evaluation it came from; several tokens of one step were drafted."""
    token: int
    text: str
    """What became visible with it; may be empty (half a character, a possible stop string)."""
    logprob: float
    drafted: bool = False


class Drafted(Event, frozen=True):
    """One decode step, with or without drafted tokens: what was guessed, what was kept, and what both cost."""

    step: int
    proposed: int
    """Drafted tokens that were evaluated beside the certain one."""
    kept: int
    draft_ns: int
    """Time to make the guesses."""
    verify_ns: int
    """Time of the evaluation, which other rows may have shared."""
    batch: int = 0
    """Tokens of all rows in that evaluation; 1 + proposed where a row was alone."""
    by: str | None = None
    """The plugin that guessed; without guesses, the last one that said why it made none."""
    notes: dict[str, str] = {}
    """Plugin -> what it had to say before this step."""


FinishReason: TypeAlias = Literal["end", "stop", "length", "context", "cancelled"]


class Finished(Event, frozen=True):
    """The turn is over and the engine is ready for the next."""

    reason: FinishReason
    text: str
    """What was still held back. Token texts plus this are the reply."""
    ids: tuple[int, ...]
    """The reply's token ids as the next turn must use them."""
    context_used: int
    """Tokens that the conversation takes now: prompt and reply."""
    memory: Memory
    rss_peak_bytes: int


class Failed(Event, frozen=True):
    """The turn is over because of an error. What was generated before stays valid."""

    failure: Failure
    text: str = ""
    ids: tuple[int, ...] = ()


class PluginFault(Event, frozen=True):
    """A plugin raised or was too slow; it is switched off until its settings or the model change."""

    plugin: str
    hook: str
    detail: str


AnyEvent: TypeAlias = (
    Started | Loading | Loaded | Rendered | Restored | Prefilled | Token | Drafted | Finished | Failed | PluginFault
)


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, what answered, and what it came to."""

    request: GenerationRequest
    facts: ModelFacts | None
    context: ContextSpec | None
    numbers: Numbers
    text: str
    ids: tuple[int, ...]
    failure: Failure | None = None
