"""The nouns of inference and what a backend must offer.

Knows no hooks, no app, no files of any one library. All values are frozen and survive msgspec encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import msgspec

from .odds import Odds as Odds
from .sampler_settings import BREAKERS as BREAKERS
from .sampler_settings import FORBIDDEN as FORBIDDEN
from .sampler_settings import ORDER as ORDER
from .sampler_settings import SamplerSettings as SamplerSettings

if TYPE_CHECKING:  # a screen needs these nouns before it needs numpy, which takes as long as its first frame
    import numpy as np
    import numpy.typing as npt

Scalar: TypeAlias = bool | int | float | str | None
Scores: TypeAlias = "npt.NDArray[np.float32]"
"""Raw next-token scores (logits), shape (rows, vocabulary). The caller owns the array: no later call changes it."""

Role: TypeAlias = Literal["system", "user", "assistant"]


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: Role
    content: str
    ids: tuple[int, ...] | None = None
    """Token ids of a generated reply, without its end token. They are the truth: the text is a view of them."""


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which model, loaded how. Two equal specs need no reload."""

    backend: str
    model: str = ""
    """A path or a name the backend understands; empty means the embedded model."""
    template: str = ""
    """Name of a chat template (`fader_backends.template.NAMED`); empty means the model's own."""
    options: dict[str, Scalar] = {}
    """Backend options that need a reload, such as `n_gpu_layers`. Never changed after construction."""


class ContextSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How the model's working memory is laid out. Another spec means a new context, not a reload."""

    length: int = 0
    """Tokens; 0 means the model's own maximum, capped by free memory."""
    enough: int = 0
    """Where `length` is open: no more tokens than this will ever be needed, so a shorter context will do. 0: unknown."""
    rows: int = 4
    """How many sessions may be open at once."""
    batch: int = 512
    """Most tokens in one call of the model, over all rows."""
    threads: int = 0
    """0 means the number of physical cores."""
    options: dict[str, Scalar] = {}
    """Backend options that need a new context, such as `flash_attention`, `type_k`."""


class Pick(NamedTuple):
    """One chosen token."""

    token: int
    logprob: float
    """Natural log of its probability among the candidates left by the chain."""
    odds: Odds | None = None
    """What it was chosen from, where the chain was asked to say."""


class Extension(NamedTuple):
    """A session's part of one call: evaluate `tokens` after what it holds, score the last `rows` of them."""

    session: Session
    tokens: Sequence[int]
    rows: int
    """0 to len(tokens)."""
    best: int = 0
    """The caller needs no more than so many of each row's largest scores; 0: all. A backend may give all anyway."""


class Best(NamedTuple):
    """The largest scores of one position, best first, of equal ones the lower token; where scores lie on a device, it
    finds them, and the others stay there.
    """

    tokens: list[int]
    scores: list[float]


class SessionState(msgspec.Struct, frozen=True):
    """A session's tokens and model state, movable to another session of an equal model and context."""

    tokens: tuple[int, ...]
    key: str
    """Equal keys are compatible: model hash, context layout and library version."""
    data: bytes


class Memory(msgspec.Struct, frozen=True):
    """What a backend holds, in bytes. None: this backend cannot tell."""

    weights_bytes: int | None = None
    kv_bytes: int | None = None
    """Size of the live KV buffers (allocated, not filled)."""
    kv_token_bytes: float | None = None
    """What one token takes in them, where buffers grow as they fill; None: `kv_bytes` over the room there is."""
    device_peak_bytes: int | None = None
    free_bytes: int | None = None
    """What is free where the KV buffers live."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of a loaded model; shown, and recorded with every turn."""

    backend: str
    model: str
    """Its name for people."""
    path: str = ""
    architecture: str = ""
    quantisation: str = ""
    parameters: int = 0
    size_bytes: int = 0
    weights_bytes: int = 0
    """What the weights take once they are loaded; 0: not told."""
    vocabulary: int = 0
    context_trained: int = 0
    device: str = "cpu"
    """Where it runs; with number type and reason where there was a choice."""
    threads: int = 0
    versions: dict[str, str] = {}


class Session(Protocol):
    """One sequence of tokens and the state the model keeps for it.

    Not thread-safe; owned by the thread that owns the backend.
    """

    @property
    def tokens(self) -> Sequence[int]:
        """The evaluated tokens, in order. Do not change it."""
        ...

    def extend(self, tokens: Sequence[int], rows: int = 1) -> Scores:
        """Evaluate `tokens` after the present ones; return the scores at the last `rows` of them, the caller's to keep.

        Raises ContextFull before anything is evaluated, OutOfMemory, BadScores or Interrupted with the session unchanged.
        """
        ...

    def rewind(self, length: int) -> None:
        """Forget everything after the first `length` tokens. Raises NotSupported when the model cannot cut there."""
        ...

    def fork(self) -> Session:
        """Return a new session that holds the same tokens, sharing state where the backend can."""
        ...

    def copy(self, other: Session) -> None:
        """Replace what is held by what `other`, of the same backend, holds; share state where the backend can.

        Raises OutOfMemory with both unchanged.
        """
        ...

    def save(self) -> SessionState:
        """Copy tokens and state out."""
        ...

    def load(self, state: SessionState) -> None:
        """Replace what is held by `state`. Raises NotSupported when its key is not this backend's."""
        ...

    def close(self) -> None:
        """Give the row back. Closing twice is fine."""
        ...


class Backend(Protocol):
    """A loaded model. One thread calls everything but `interrupt`."""

    facts: ModelFacts
    context: ContextSpec
    """As it came out: length, rows, batch and threads filled in."""
    end_tokens: frozenset[int]
    """Every end-of-generation token of the vocabulary."""
    state_key: str
    """`SessionState.key` of the present model and context."""

    def open(self) -> Session:
        """Return an empty session. Raises OutOfMemory when all `context.rows` are open."""
        ...

    def evaluate(self, work: Sequence[Extension]) -> Sequence[Scored]:
        """Run several sessions in one call, at most `context.batch` tokens together; scores per extension, in order.

        They are `Best` only where an extension asks for no more. They are only lent: the next evaluation, by this call
        or a session's, may overwrite them. They are as the model left them, NaN included, which the sampler refuses.
        All or nothing: on ContextFull, OutOfMemory or Interrupted every session is as it was before.
        """
        ...

    def configure(self, context: ContextSpec) -> None:
        """Make a new context on the loaded model. All sessions are closed by it."""
        ...

    def chat(self, messages: Sequence[Message], now: datetime) -> list[int]:
        """Return the prompt's token ids: the model's template over `messages`, ready for a reply.

        Text of messages never becomes a control token; a reply's own ids are used as they are; at most one BOS.
        Raises TemplateError.
        """
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of plain text: no BOS, no control tokens."""
        ...

    def piece(self, token: int) -> bytes:
        """Return the bytes a token stands for; empty for control tokens. May be part of a UTF-8 character."""
        ...

    def memory(self) -> Memory:
        """Return what is held now."""
        ...

    def interrupt(self) -> None:
        """Make a running `evaluate` raise Interrupted soon, and every later one until `resume`. From any thread."""
        ...

    def resume(self) -> None:
        """Undo `interrupt`."""
        ...

    def close(self) -> None:
        """Free context and model. Closing twice is fine."""
        ...


Scored: TypeAlias = "Scores | list[Best]"
"""What one extension's rows came to: an array of all scores, or each row's largest."""

Progress: TypeAlias = Callable[[float], bool]
"""Called with 0..1 while a model loads; returning False stops the load with Interrupted."""

Loader: TypeAlias = Callable[[ModelSpec, ContextSpec, Progress], Backend]


class BackendInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A backend by name; its module is imported when it is chosen, not before."""

    name: str
    summary: str
    loader: str
    """`package.module:function`, a `Loader`."""
    provides: frozenset[str] = frozenset()
    """Capabilities plugins may need.

    They are `rewind`, `fork`, `save`, `rows`, `interrupt`, `kv_types`, `tensor_split`, `weights`, `graph`, `grammar`.
    """
    lacks: dict[str, str] = {}
    """Capability -> why it is missing here, where that is not plain."""
