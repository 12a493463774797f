"""How far one side's next-token distributions are from the other's, on a fixed text: what a change does to the words.

Knows loaded models; the other plugins and the sampler play no part in it.
"""

from __future__ import annotations

import time

import msgspec
import numpy as np
from fader_backends.base import ContextSpec, Scores
from fader_plugins.turn import GenerationRequest

from ..engine.model import LoadedModel
from ..quality import CHUNK, GREEDY, OTHER_CHUNK, divergences, log_probabilities
from ..quality_text import TEXT
from .evidence import Kl, Side
from .experiment import CLOCK, Experiment

NAME = "the text of `fader kv check`"
STEP = 256
SIDES: tuple[Side, Side] = ("a", "b")


class Heard(msgspec.Struct):
    """What one side said of the text."""

    rows: Scores
    """Log-probabilities, shape (tokens, vocabulary)."""
    ids: list[int]
    """Its greedy continuation."""
    gaps: list[float]
    """Between its two best scores at each of them, in logits."""


def differs(experiment: Experiment) -> bool:
    """Whether the change could move the distributions: it asks for another model or another context."""
    a, b = (experiment.boards[side].plan("kl", (), CLOCK) for side in SIDES)
    return (a.model, a.context) != (b.model, b.context)


def measure(experiment: Experiment) -> Kl:
    """Evaluate the text on both sides in this process and compare. Raises FaderError."""
    a, b = (experiment.boards[side].plan("kl", (), CLOCK).freeze(f"kl-{side}", 0) for side in SIDES)
    model = LoadedModel(experiment.boards["a"].registry, lambda _: None, time.perf_counter_ns)
    try:
        first = _hear(model, a, CHUNK)
        again = _hear(model, a, OTHER_CHUNK)
        second = _hear(model, b, CHUNK)
    finally:
        model.unload()
    parted = next((at for at, pair in enumerate(zip(first.ids, second.ids, strict=False)) if pair[0] != pair[1]), None)
    return Kl(
        text=NAME,
        kl=tuple(divergences(first.rows, second.rows).tolist()),
        same_best=tuple((first.rows.argmax(axis=1) == second.rows.argmax(axis=1)).tolist()),
        floor=tuple(divergences(first.rows, again.rows).tolist()),
        divergence=parted,
        divergence_gap=None if parted is None else first.gaps[parted],
        greedy_tokens=len(first.ids),
    )


def _hear(model: LoadedModel, request: GenerationRequest, chunk: int) -> Heard:
    backend = model.ready(request, lambda: False, lambda *_: None)
    tokens = backend.encode(TEXT)
    backend.configure(_roomy(request.context, len(tokens) + GREEDY))
    try:
        session = backend.open()
        rows = [
            log_probabilities(session.extend(tokens[start : start + chunk], len(tokens[start : start + chunk])))
            for start in range(0, len(tokens), chunk)
        ]
        found = np.concatenate(rows)
        ids: list[int] = []
        gaps: list[float] = []
        row = found[-1]
        while len(ids) < GREEDY:
            second, first = np.partition(row, -2)[-2:]
            ids.append(int(row.argmax()))
            gaps.append(float(first - second))
            if ids[-1] in backend.end_tokens:
                break
            row = session.extend([ids[-1]])[0]
        return Heard(found, ids, gaps)
    finally:
        backend.configure(request.context)  # the model's keeper believes that it is so


def _roomy(context: ContextSpec, needed: int) -> ContextSpec:
    """Return the side's own context with room for the text, for one row."""
    length = -(-needed // STEP) * STEP
    return msgspec.structs.replace(context, length=length, rows=1, batch=max(context.batch, OTHER_CHUNK))
