"""How far quantised KV types move a model's words: KL of next-token distributions and first greedy divergence.

Knows a loaded backend and a fixed text; keeps nothing. One thing changes between runs: the types of K and V.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from fader_backends.base import Backend, ContextSpec, Scores, Session
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
    """The token of f16."""
    got: str
    gap: float
    """Between f16's two best scores there, in logits: near 0 the choice was a toss-up."""


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """One pair of types against f16."""

    type_k: str
    type_v: str
    kv_bytes: int | None
    """Live KV buffers of the same context."""
    saved: float | None
    """1 - kv_bytes / those of f16."""
    positions: int
    kl_mean: float
    """Of KL(f16 || this) over the text's positions, in nats."""
    kl_p95: float
    """By linear interpolation."""
    kl_max: float
    same_best: float
    """Share of positions with the same likeliest token."""
    greedy_tokens: int
    """Length of the continuation of f16."""
    divergence: Divergence | None
    """None: the continuations are the same."""


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
    spec = _context(context, len(tokens) + GREEDY)
    backend.configure(_typed(spec, PLAIN, PLAIN))
    full_bytes = backend.memory().kv_bytes
    if len(tokens) + GREEDY > backend.context.length:
        raise ContextFull(f"The text takes {len(tokens):,} tokens; the context holds {backend.context.length:,}.")
    session = backend.open()
    wanted = [log_probabilities(scores) for scores in _scored(session, tokens, CHUNK)]
    wanted_ids, gaps = _continue(backend, session, wanted[-1][-1])
    session.close()

    def measure(type_k: str, type_v: str, chunk: int) -> Quality:
        session = backend.open()
        kl: list[float] = []
        same = 0
        for want, scores in zip(_regrouped(wanted, chunk), _scored(session, tokens, chunk), strict=True):
            got = log_probabilities(scores)
            kl += divergences(want, got).tolist()
            same += int((want.argmax(axis=1) == got.argmax(axis=1)).sum())
            last = got[-1]
        ids, _ = _continue(backend, session, last)
        session.close()
        kv_bytes = backend.memory().kv_bytes
        found = Quality(
            type_k=type_k,
            type_v=type_v,
            kv_bytes=kv_bytes,
            saved=1 - kv_bytes / full_bytes if kv_bytes and full_bytes else None,
            positions=len(kl),
            kl_mean=float(np.mean(kl)),
            kl_p95=percentile(kl, 95) or 0.0,
            kl_max=max(kl),
            same_best=same / len(kl),
            greedy_tokens=len(wanted_ids),
            divergence=_divergence(backend, wanted_ids, ids, gaps),
        )
        done(found)
        return found

    results = [measure(PLAIN, PLAIN, OTHER_CHUNK)]
    for type_k, type_v in pairs:
        backend.configure(_typed(spec, type_k, type_v))
        results.append(measure(type_k, type_v, CHUNK))
    return results


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


def _context(context: ContextSpec, needed: int) -> ContextSpec:
    return msgspec.structs.replace(
        context,
        length=-(-needed // 256) * 256,
        rows=1,
        batch=max(context.batch, OTHER_CHUNK),
        options={**context.options, "flash_attention": "on", "unified": True},
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
