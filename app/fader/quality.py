"""How far quantised KV types or weights move a model's words: KL of next-token distributions and first greedy divergence.

Knows backends and a fixed text; keeps nothing. One thing changes between runs: the types of K and V, or how weights are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from fader_backends.base import Backend, ContextSpec, Loader, ModelSpec, Scalar, Scores, Session
from fader_backends.errors import ContextFull

from .metrics import percentile
from .quality_text import TEXT

PLAIN = "f16"
CHUNK, OTHER_CHUNK = 32, 128
"""Tokens per call; the second is for the run of f16 against itself, which shows how much rounding alone does."""
GREEDY = 48
"""Tokens of the greedy continuation."""


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Where two greedy continuations part."""

    at: int
    """Tokens that were equal."""
    wanted: str
    """The reference's token."""
    got: str
    gap: float
    """Between the reference's two best scores there, in logits: near 0 the choice was a toss-up."""


class Distance(msgspec.Struct, frozen=True, kw_only=True):
    """How far words are from the reference's."""

    positions: int
    kl_mean: float
    """Of KL(reference || this) over the text's positions, in nats."""
    kl_p95: float
    """By linear interpolation."""
    kl_max: float
    same_best: float
    """Share of positions with the same likeliest token."""
    greedy_tokens: int
    """Length of the reference's continuation."""
    divergence: Divergence | None
    """None: the continuations are the same."""


class Quality(Distance, frozen=True, kw_only=True):
    """One pair of types against f16."""

    type_k: str
    type_v: str
    kv_bytes: int | None
    """Live KV buffers of the same context."""
    saved: float | None
    """1 - kv_bytes / those of f16."""


class WeightsQuality(Distance, frozen=True, kw_only=True):
    """One way to keep the weights against none: as the model is loaded without."""

    matrices: str
    weights_bytes: int | None
    saved: float | None
    """1 - weights_bytes / those of `plain`."""


class Reference(NamedTuple):
    """What others are compared with."""

    tokens: list[int]
    wanted: list[npt.NDArray[np.float32]]
    """Log probabilities after each token, in groups of CHUNK."""
    ids: list[int]
    """The greedy continuation."""
    gaps: list[float]


def compare(
    backend: Backend,
    context: ContextSpec,
    pairs: Sequence[tuple[str, str]],
    done: Callable[[Quality], None] = lambda _: None,
    text: str = TEXT,
) -> list[Quality]:
    """Compare each (type of K, type of V) with f16 on a text; `done` is given each as it comes.

    The first is f16 against itself in calls of another size: what lies below it is rounding. All sessions of the backend
    are closed by this, and its context is another one afterwards. Raises BadValue for a type that does not fit the model,
    ContextFull, and what making a context may raise.
    """
    tokens = backend.encode(text)
    spec = _context(context, len(tokens) + GREEDY, {"flash_attention": "on", "unified": True})
    backend.configure(_typed(spec, PLAIN, PLAIN))
    full_bytes = backend.memory().kv_bytes
    wanted = reference(backend, tokens)

    def measure(type_k: str, type_v: str, chunk: int) -> Quality:
        found = distance(backend, wanted, chunk)
        kv_bytes = backend.memory().kv_bytes
        saved = 1 - kv_bytes / full_bytes if kv_bytes and full_bytes else None
        made = Quality(type_k=type_k, type_v=type_v, kv_bytes=kv_bytes, saved=saved, **msgspec.structs.asdict(found))
        done(made)
        return made

    results = [measure(PLAIN, PLAIN, OTHER_CHUNK)]
    for type_k, type_v in pairs:
        backend.configure(_typed(spec, type_k, type_v))
        results.append(measure(type_k, type_v, CHUNK))
    return results


def compare_weights(
    load: Loader,
    model: ModelSpec,
    context: ContextSpec,
    kinds: Sequence[str],
    done: Callable[[WeightsQuality], None] = lambda _: None,
    text: str = TEXT,
) -> list[WeightsQuality]:
    """Load a model once for each way to keep its matrices, and compare with the model as it is; as `compare` otherwise."""
    full_bytes: int | None = None
    wanted: Reference | None = None
    results = []
    for kind, chunk in (("plain", OTHER_CHUNK), *((kind, CHUNK) for kind in kinds)):
        spec = msgspec.structs.replace(model, options={**model.options, "matrices": kind})
        backend = load(spec, msgspec.structs.replace(context, length=512, rows=1), lambda _: True)
        try:
            tokens = backend.encode(text)
            backend.configure(_context(context, len(tokens) + GREEDY, {}))
            size = backend.memory().weights_bytes
            if wanted is None:
                wanted, full_bytes = reference(backend, tokens), size
            found = distance(backend, wanted, chunk)
        finally:
            backend.close()
        saved = 1 - size / full_bytes if size and full_bytes else None
        results.append(WeightsQuality(matrices=kind, weights_bytes=size, saved=saved, **msgspec.structs.asdict(found)))
        done(results[-1])
    return results


def reference(backend: Backend, tokens: list[int]) -> Reference:
    """Evaluate a text and go on greedily. Raises ContextFull where the context is too short for both."""
    if len(tokens) + GREEDY > backend.context.length:
        raise ContextFull(f"The text takes {len(tokens):,} tokens; the context holds {backend.context.length:,}.")
    session = backend.open()
    wanted = [log_probabilities(scores) for scores in _scored(session, tokens, CHUNK)]
    ids, gaps = _continue(backend, session, wanted[-1][-1])
    session.close()
    return Reference(tokens, wanted, ids, gaps)


def distance(backend: Backend, wanted: Reference, chunk: int) -> Distance:
    """Evaluate the same text in calls of `chunk` tokens, a multiple of CHUNK; return how far the words are from `wanted`."""
    session = backend.open()
    kl: list[float] = []
    same = 0
    for want, scores in zip(_regrouped(wanted.wanted, chunk), _scored(session, wanted.tokens, chunk), strict=True):
        got = log_probabilities(scores)
        kl += divergences(want, got).tolist()
        same += int((want.argmax(axis=1) == got.argmax(axis=1)).sum())
        last = got[-1]
    ids, _ = _continue(backend, session, last)
    session.close()
    return Distance(
        positions=len(kl),
        kl_mean=float(np.mean(kl)),
        kl_p95=percentile(kl, 95) or 0.0,
        kl_max=max(kl),
        same_best=same / len(kl),
        greedy_tokens=len(wanted.ids),
        divergence=_divergence(backend, wanted.ids, ids, wanted.gaps),
    )


def log_probabilities(scores: Scores) -> npt.NDArray[np.float32]:
    """Return the natural logarithm of softmax, row by row."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1, keepdims=True, dtype=np.float64)
    result: npt.NDArray[np.float32] = shifted - np.log(total).astype(np.float32)
    return result


def divergences(p: npt.NDArray[np.float32], q: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return KL(p || q) of each row, from log probabilities, in nats; at least 0."""
    sums: npt.NDArray[np.float64] = (np.exp(p) * (p - q)).sum(axis=1, dtype=np.float64)
    return sums.clip(min=0.0)


def _context(context: ContextSpec, needed: int, options: Mapping[str, Scalar]) -> ContextSpec:
    return msgspec.structs.replace(
        context,
        length=-(-needed // 256) * 256,
        rows=1,
        batch=max(context.batch, OTHER_CHUNK),
        options={**context.options, **options},
    )


def _typed(context: ContextSpec, type_k: str, type_v: str) -> ContextSpec:
    return msgspec.structs.replace(context, options={**context.options, "type_k": type_k, "type_v": type_v})


def _scored(session: Session, tokens: Sequence[int], chunk: int) -> Iterator[Scores]:
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        yield session.extend(part, len(part))


def _regrouped(chunks: Sequence[npt.NDArray[np.float32]], size: int) -> Iterator[npt.NDArray[np.float32]]:
    """Yield the rows of `chunks` (of CHUNK rows each) in groups of `size`, a multiple of it."""
    step = size // CHUNK
    for start in range(0, len(chunks), step):
        yield np.concatenate(chunks[start : start + step]) if step > 1 else chunks[start]


def _continue(backend: Backend, session: Session, row: npt.NDArray[np.float32]) -> tuple[list[int], list[float]]:
    """Return the greedy continuation, and at each of its tokens the gap between the two best scores."""
    ids: list[int] = []
    gaps: list[float] = []
    while True:
        second, first = np.partition(row, -2)[-2:]
        ids.append(int(row.argmax()))
        gaps.append(float(first - second))
        if len(ids) == GREEDY or ids[-1] in backend.end_tokens:
            return ids, gaps
        row = session.extend([ids[-1]])[0]


def _divergence(
    backend: Backend, wanted: Sequence[int], got: Sequence[int], gaps: Sequence[float]
) -> Divergence | None:
    for at, (one, other) in enumerate(zip(wanted, got, strict=False)):
        if one != other:
            texts = [(backend.piece(token) or b"<end>").decode(errors="replace") for token in (one, other)]
            return Divergence(at=at, wanted=texts[0], got=texts[1], gap=gaps[at])
    return None
