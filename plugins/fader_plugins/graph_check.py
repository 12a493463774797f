"""Whether a model's graphs compute what it computes without them, on a fixed text; and how long a step takes both ways.

Knows a backend by its verbs. What rounding alone does is measured first: the same tokens one by one and in one call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from fader_backends.base import Backend, Scores, Session
from fader_backends.graphs import Graphed, GraphState

TEXT = "The keeper of the light counted the boats that came in before the storm, and wrote their names down. "
PROMPT, STEPS = 24, 8
ROUNDING = 8.0
"""Times what rounding does that a graph may differ; kernels add up in other orders."""
LEAST, MOST = 1e-3, 0.25
"""The bound is at least and at most these parts of the scores' standard deviation."""

Times = tuple[float, float]
"""Median milliseconds of a one-token step without and with the graph."""


class Checked(Backend, Graphed, Protocol):
    """What can be checked."""


def check(backend: Checked, state: GraphState) -> tuple[str, Times | None]:
    """Return why graphs must not be used (empty: they may), and the times of a step.

    Steps are the model's own greedy ones without graphs, repeated with them: scores must be within the bound, and so must the
    gap by which another token wins. Raises Interrupted, and what evaluating may raise.
    """
    session = backend.open()
    try:
        return _check(backend, session, max(STEPS, state.verify))
    finally:
        session.close()


def _check(backend: Checked, session: Session, steps: int) -> tuple[str, Times | None]:
    prompt = (backend.encode(TEXT) * PROMPT)[:PROMPT]
    backend.use_graph(False)
    ids = [int(session.extend(prompt)[0].argmax())]
    wanted: list[Scores] = []
    eager_ms = []
    while len(wanted) < steps:
        begin = time.perf_counter()
        wanted.append(session.extend(ids[-1:])[0])
        eager_ms.append((time.perf_counter() - begin) * 1000)
        ids.append(int(wanted[-1].argmax()))
    want = np.stack(wanted)
    session.rewind(PROMPT)
    rounding = np.abs(session.extend(ids[:steps], steps) - want).max()
    spread = float(want.std())
    bound = float(np.clip(ROUNDING * rounding, LEAST * spread, MOST * spread))

    backend.use_graph(True)
    session.rewind(PROMPT)
    got = []
    graph_ms = []
    for token in ids[:steps]:
        begin = time.perf_counter()
        got.append(session.extend([token])[0])
        graph_ms.append((time.perf_counter() - begin) * 1000)
    if why := _differs("one token", want, np.stack(got), bound) or _gone(backend):
        return why, None
    for width in {steps, 2}:  # whole, and filled up
        session.rewind(PROMPT)
        if why := _differs(f"{width} tokens", want[:width], session.extend(ids[:width], width), bound) or _gone(
            backend
        ):
            return why, None
    return "", (statistics.median(eager_ms), statistics.median(graph_ms[len(graph_ms) // 2 :]))


def _gone(backend: Graphed) -> str:
    """Return why the backend has left its graphs meanwhile; empty when it has not."""
    state = backend.graph()
    return "" if state is None or state.on else state.why


def _differs(what: str, want: Scores, got: Scores, bound: float) -> str:
    """Return how the scores of steps differ by more than the bound; empty when they do not."""
    far = np.abs(want - got).max(axis=1)
    if not (far <= bound).all():  # a NaN is not within it
        place = int(np.flatnonzero(~(far <= bound))[0])
        return f"a step of {what} gives scores that differ by {far[place]:.2g} (rounding alone: up to {bound:.2g})"
    return _other_word(what, want, got, bound)


def _other_word(what: str, want: Scores, got: Scores, bound: float) -> str:
    rows: Sequence[int] = range(len(want))
    for place in rows:
        best, other = int(want[place].argmax()), int(got[place].argmax())
        if best != other and want[place][best] - want[place][other] > 2 * bound:
            return f"a step of {what} chooses token {other} where {best} is the model's own"
    return ""
