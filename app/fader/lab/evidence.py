"""What a bundle holds beside the events, as values: the manifest, and one record per run.

Knows no files and runs nothing. Fields are added, never renamed or given another meaning.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from fader_backends.errors import Failure

SCHEMA = 1
"""Raised when an older Fader could not read what this one writes."""

Side: TypeAlias = Literal["a", "b"]
"""a is the baseline, b what is compared with it."""
Phase: TypeAlias = Literal["warm-up", "aa", "ab"]
"""warm-up: never counted. aa: both sides have the baseline's settings. ab: side b has the change."""
Condition: TypeAlias = Literal["cold", "warm"]
"""cold: nothing of the prompt was evaluated before by this engine. warm: some of it was."""
State: TypeAlias = Literal["ok", "failed", "cancelled"]


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One setting that differs between the sides."""

    key: str
    """`plugin` (its switch), `plugin.setting`, `context.threads`, `load.device`, `model` …"""
    before: Any
    after: Any


class ModelNote(msgspec.Struct, frozen=True, kw_only=True):
    """Which model was measured, so that another person can tell whether theirs is the same."""

    name: str = ""
    file: str = ""
    """The file's name, without its folder."""
    sha256: str = ""
    """Empty for backends without a file."""
    quantisation: str = ""
    size_bytes: int = 0
    parameters: int = 0
    backend: str = ""
    device: str = ""
    weights_bytes: int = 0


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """The machine. None or empty: it could not be told."""

    system: str = ""
    cpu: str = ""
    cores: int | None = None
    """Physical ones."""
    threads: int | None = None
    """Logical ones."""
    memory_bytes: int | None = None
    governor: str = ""
    load_average: float | None = None
    """Of the last minute, before the first run."""
    copy_gbps: float | None = None
    """Measured: bytes copied per second from memory to memory, in 1e9."""
    gpus: tuple[str, ...] = ()
    energy: str = ""
    """Where joules were read; empty when nowhere."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle says of itself."""

    schema: int = SCHEMA
    id: str
    created: str
    """ISO 8601, with the offset from UTC."""
    what: str
    """One line: the workload and the variable."""
    why: str = ""
    share: str = "private"
    """Who may have it: private, or in the maker's words."""
    state: Literal["complete", "partial"] = "partial"
    """partial: it was interrupted; what was measured is there, and no claim may rest on it."""
    stopped: str = ""
    """Why it is partial."""
    variables: tuple[Variable, ...] = ()
    """What differs between the sides; more than one only where that was asked for."""
    workload: str
    profiles: tuple[str, ...] = ()
    """Names of the baseline's profile and, where there is one, the other side's."""
    model: ModelNote = ModelNote()
    versions: dict[str, str] = {}
    hardware: Hardware = Hardware()
    seeds: tuple[int, ...] = ()
    rounds: int = 0
    """How often each side ran the whole workload in phase ab."""
    aa_rounds: int = 0
    """The same in phase aa."""
    order: str = "ABAB"
    acts: str = ""
    """When the change acts, and so does its taking back: live, turn, context or load (`fader_plugins.turn.Cost`)."""
    gates: tuple[str, ...] = ()
    """Limits, as they were written."""
    files: dict[str, str] = {}
    """Name -> SHA-256, of every file but this one. A partial bundle may lack some."""
    notes: tuple[str, ...] = ()
    """What must be said of how it was made."""
    origin: Literal["bench", "chat"] = "bench"
    """chat: its runs are turns of a running chat, taken as they were; no claim may rest on them."""
    left_out: tuple[str, ...] = ()
    """What was taken out before it was written, for it is nobody's business. Without its prompts it cannot be run again."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One turn that was run. Its events carry the numbers; this says where it belongs."""

    index: int
    phase: Phase
    side: Side
    round: int
    """Counts the repetitions of the workload within its phase."""
    case: str
    """The workload's conversation."""
    turn: int
    """Which of its turns; 0 is the first."""
    condition: Condition
    seed: int
    request_id: str
    state: State
    expected: State = "ok"
    """What the workload provokes: a run that was to be stopped is no failure."""
    failure: Failure | None = None
    wall_start: float
    """Seconds since 1970, for people only: no number rests on it."""
    load_average: float | None = None
    """Of the last minute, at its start."""
    rss_peak_bytes: int | None = None
    """Highest resident size of the engine's process so far."""
    device_peak_bytes: int | None = None
    energy_j: float | None = None
    """Of the whole package, while it ran."""

    @property
    def counted(self) -> bool:
        """Whether its numbers enter percentiles: it ended as a whole reply, and is no warm-up."""
        return self.phase != "warm-up" and self.state == "ok"


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What a run said."""

    index: int
    ids: tuple[int, ...]
    text: str


class Kl(msgspec.Struct, frozen=True, kw_only=True):
    """How far one side's next-token distributions are from the baseline's, at each position of a fixed text."""

    text: str
    """Which text."""
    kl: tuple[float, ...]
    """KL(a || b) in nats, per position."""
    same_best: tuple[bool, ...]
    """Whether both have the same likeliest token, per position."""
    floor: tuple[float, ...]
    """KL of the baseline against itself in calls of another size: what rounding alone does."""
    divergence: int | None = None
    """Tokens after which two greedy continuations part; None: they do not."""
    divergence_gap: float | None = None
    """Between the baseline's two best scores there, in logits: near 0 the choice was a toss-up."""
    greedy_tokens: int = 0
    """Length of the continuation."""
