"""What happens in a turn, as frozen values with a time stamp.

Knows no engine and no screen; all cross the process border as msgspec. `at_ns` is `time.perf_counter_ns`, which is one
clock for all processes of a machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from fader_backends.base import ContextSpec, Memory, ModelFacts, SamplerSettings
from fader_backends.errors import Failure
from fader_backends.graphs import GraphState
from fader_backends.odds import Odds
from fader_backends.operators import Operators


class Difference(msgspec.Struct, frozen=True):
    """Where a prompt stops being an extension of what the session held."""

    position: int
    """Index of the first token that differs."""
    held: str
    """Text the session held from there on (a few tokens)."""
    wanted: str
    """Text the prompt has there (a few tokens); empty when the prompt simply ends."""


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
    held_bytes: int = 0
    """Memory the plugin takes to guess, a draft's weights and KV buffers say."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all events."""

    request_id: str
    at_ns: int


class Started(Event, frozen=True):
    """The engine took the request up."""


class Loading(Event, frozen=True):
    """A model or context is being made ready."""

    fraction: float
    compiling: bool = False
    """Whether the wait is now for a compiler, which cannot be stopped half-way."""


class Loaded(Event, frozen=True):
    """The model is ready."""

    facts: ModelFacts
    context: ContextSpec
    load_ms: float


class Rendered(Event, frozen=True):
    """The prompt's token ids are known."""

    prompt_tokens: int


class Trimmed(Event, frozen=True):
    """The oldest messages were left out of the request, because the context is too short for all of them.

    Comes before anything is evaluated. The conversation keeps them.
    """

    messages: int
    tokens: int
    """By how much the prompt is shorter for it."""


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


class Prepared(Event, frozen=True):
    """What had been evaluated before the turn was sent."""

    ready: int
    """Prompt tokens that the turn found evaluated thanks to it."""
    vain: int
    """Tokens that were evaluated and not used."""


class Begun(Event, frozen=True):
    """The reply has a beginning that the request gave (`GenerationRequest.begin`): nothing of it was generated."""

    ids: tuple[int, ...]
    text: str
    pieces: dict[int, bytes] = {}
    """Bytes of the ids."""


class Prefilled(Event, frozen=True):
    """A part of the prompt's new tokens has been evaluated."""

    done: int
    total: int


class Token(Event, frozen=True):
    """One generated token."""

    index: int
    """Its place in the reply's ids; 0 for the first, unless the request gave a beginning."""
    step: int
    """Which evaluation it came from; several tokens of one step were drafted."""
    token: int
    text: str
    """What became visible with it; may be empty (half a character, a possible stop string)."""
    logprob: float
    drafted: bool = False
    odds: Odds | None = None
    """What it was chosen from, when the request asks for `logprobs`."""
    pieces: dict[int, bytes] = {}
    """Bytes of the candidates that no event of the turn has named yet: b"" for end tokens, no entry for other control tokens."""


class Offered(Event, frozen=True):
    """A token was chosen but not taken, because it is more surprising than the request allows; the turn ends here."""

    token: int
    odds: Odds
    pieces: dict[int, bytes] = {}
    """As in `Token`."""


class Adjusted(Event, frozen=True):
    """Live settings of a running reply were changed; the token with this index is the first they act on."""

    index: int
    sampler: SamplerSettings


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
    held: dict[str, int] = {}
    """Plugin -> bytes of memory it takes to guess, where it takes any to speak of."""


FinishReason: TypeAlias = Literal["end", "stop", "length", "context", "cancelled", "surprise"]


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
    graph: GraphState | None = None
    """What became of compiled steps, where the context has them."""


class Failed(Event, frozen=True):
    """The turn is over because of an error. What was generated before stays valid."""

    failure: Failure
    text: str = ""
    ids: tuple[int, ...] = ()


class Looked(Event, frozen=True):
    """The engine was asked what a token costs in operators, and looked."""

    facts: ModelFacts
    tables: tuple[Operators, ...]


class PluginFault(Event, frozen=True):
    """A plugin raised or was too slow; it is switched off until its settings or the model change."""

    plugin: str
    hook: str
    detail: str


AnyEvent: TypeAlias = (
    Started
    | Loading
    | Loaded
    | Rendered
    | Trimmed
    | Restored
    | Prepared
    | Begun
    | Prefilled
    | Token
    | Offered
    | Drafted
    | Adjusted
    | Finished
    | Failed
    | Looked
    | PluginFault
)
