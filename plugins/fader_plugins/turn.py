"""What one turn is: the request before and after it is frozen, the events it causes, the numbers they add up to.

Knows no engine and no screen. Everything but `RequestDraft` is frozen and crosses the process border as msgspec. The
events live in `events.py`, what settings are made of in `settings.py`; both can be had from here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
from fader_backends.base import ContextSpec, Message, ModelFacts, ModelSpec, SamplerSettings
from fader_backends.errors import BadValue, Failure
from fader_backends.graphs import GraphState

from .events import Adjusted as Adjusted
from .events import AnyEvent as AnyEvent
from .events import Begun as Begun
from .events import Difference as Difference
from .events import Draft as Draft
from .events import Drafted as Drafted
from .events import Event as Event
from .events import Failed as Failed
from .events import Finished as Finished
from .events import FinishReason as FinishReason
from .events import Loaded as Loaded
from .events import Loading as Loading
from .events import Looked as Looked
from .events import Offered as Offered
from .events import PluginFault as PluginFault
from .events import Prefilled as Prefilled
from .events import Prepared as Prepared
from .events import Rendered as Rendered
from .events import Restored as Restored
from .events import Reuse as Reuse
from .events import Started as Started
from .events import Token as Token
from .events import Trimmed as Trimmed
from .settings import Cost as Cost
from .settings import S as S
from .settings import Settings as Settings
from .settings import setting as setting

WhenFull: TypeAlias = Literal["stop", "drop_oldest", "ask"]
"""What to do where prompt and reply do not fit the context.

stop: end the reply where the context ends; refuse a prompt that does not fit by itself. drop_oldest: leave the oldest turns
out of the request, but never the system prompt. ask: refuse before anything is evaluated, and say what would be left out.
"""


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
    chunk: int = 256
    """Most tokens of one row's prefill in one call; a cancel waits for one chunk at the most."""
    max_tokens: int | None = None
    when_full: WhenFull = "stop"
    stop: list[str] = []
    ignore_end: bool = False
    """Go on after end-of-generation tokens; for measurements of fixed length."""
    begin: Message | None = None
    """What the reply begins with: its ids, or its text where it has none. The model goes on from there."""
    logprobs: int = 0
    """Of how many likeliest candidates each token tells (`Token.odds`); 0 is none."""
    until_bits: float | None = None
    """End the reply before a token whose surprise is above this many bits, and say which (`Offered`); needs `logprobs`."""
    now: datetime
    """The clock the chat template sees; fixed per conversation so that a date cannot break the prefix."""
    profile: str = ""
    plugins: dict[str, PluginState] = {}
    provides: frozenset[str] = frozenset()
    """What the backend can (`BackendInfo.provides`), for plugins that do more where it can more. Not sent."""

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
            when_full=self.when_full,
            stop=tuple(self.stop),
            ignore_end=self.ignore_end,
            begin=self.begin,
            logprobs=self.logprobs,
            until_bits=self.until_bits,
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
    when_full: WhenFull = "stop"
    stop: tuple[str, ...]
    ignore_end: bool
    begin: Message | None = None
    logprobs: int = 0
    until_bits: float | None = None
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


class DraftNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """What one plugin's drafts came to in a turn. Tokens and milliseconds are sums over its steps."""

    steps: int = 0
    """Evaluations that checked its guesses."""
    proposed: int = 0
    kept: int = 0
    draft_ms: float = 0.0
    """Time it took to guess, also where it made no guess in the end."""
    verify_ms: float = 0.0
    note: str = ""
    """What it last had to say."""
    held_bytes: int = 0
    """Memory it takes to guess."""


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """A turn in numbers, as `fader.metrics.Stats` defines them. None: not known (yet), or undefined."""

    prompt_tokens: int | None = None
    """All that was there before the first token: the messages, and what the reply was given to begin with."""
    begun_tokens: int = 0
    """Of these, the reply's given beginning."""
    reused_tokens: int | None = None
    processed_tokens: int = 0
    """New prompt tokens evaluated so far."""
    output_tokens: int = 0
    steps: int = 0
    ttft_ms: float | None = None
    ttft_parts: dict[str, float] = {}
    """queue, encode, restore, prefill, first_sample: milliseconds, adding up to ttft_ms."""
    ttfv_ms: float | None = None
    tpot_ms: float | None = None
    itl_p50_ms: float | None = None
    itl_p95_ms: float | None = None
    itl_n: int = 0
    e2e_ms: float | None = None
    prefill_tps: float | None = None
    decode_tps: float | None = None
    drafted_tokens: int = 0
    """Drafted tokens that were kept."""
    proposed_tokens: int = 0
    draft_ms: float = 0.0
    """Time spent on guesses."""
    verify_ms: float = 0.0
    """Time of the evaluations that checked guesses."""
    single_ms: float | None = None
    """Median time of an evaluation without guesses in this turn: what a token costs without drafts."""
    singles: int = 0
    """How many such evaluations there were."""
    drafts: dict[str, DraftNumbers] = {}
    """By plugin."""
    ready_tokens: int | None = None
    """Prompt tokens evaluated before the turn was sent, and used; None when nothing was."""
    vain_tokens: int | None = None
    """Tokens evaluated ahead and not used."""
    reuse_tier: str = ""
    reuse_note: str = ""
    load_ms: float | None = None
    kv_bytes: int | None = None
    kv_token_bytes: float | None = None
    """Live KV bytes / tokens they have room for."""
    free_bytes: int | None = None
    """Memory that was free where the KV buffers live, when the turn ended."""
    dropped_messages: int = 0
    """Oldest messages left out so that the rest fits the context."""
    dropped_tokens: int = 0
    rss_peak_bytes: int | None = None
    context_used: int | None = None
    context_length: int | None = None
    difference: Difference | None = None
    device: str = ""
    """Where the model runs; with number type and, in brackets, the reason where there was a choice."""
    graph: GraphState | None = None
    """What became of compiled steps; None where there are none, and until the turn ends."""
    surprise_bits: float | None = None
    """Mean of -log2 of the generated tokens' probabilities before the chain; None when nobody asked for `logprobs`."""
    finish_reason: str | None = None
    """A FinishReason, or "failed"; None while the turn runs."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the overlay, as data."""

    key: str
    """Stable identity, for comparing with an earlier turn."""
    label: str
    value: float | str | None
    """None is shown as a dash."""
    unit: str = ""
    digits: int = 0
    better: Literal["lower", "higher", "neither"] = "neither"
    doubtful: bool = False
    """True: too few samples; shown greyed."""
    help: str = ""
    """The definition, as F1 shows it."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, what answered, and what it came to."""

    request: GenerationRequest
    facts: ModelFacts | None
    context: ContextSpec | None
    numbers: Numbers
    text: str
    ids: tuple[int, ...]
    failure: Failure | None = None
    adjusted: tuple[Adjusted, ...] = ()
    """Changes of live settings while the reply ran; the request has those it began with."""
