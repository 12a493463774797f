"""Suspicions of the method: what was compared, how often, in which order, and what was left out.

Knows the raw record. To add a suspicion, write a function from a `Record` to findings and put it into `SUSPICIONS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from fader_plugins.turn import GenerationRequest

from . import paired, statistics
from .experiment import valued
from .finding import Finding, Record, Suspicion, asked, doubt, objection
from .report import FEWEST


def incomplete(record: Record) -> Iterator[Finding]:
    """A run that was broken off stops where it suits."""
    if record.manifest.state != "complete":
        yield objection("completeness", f"it is partial: {record.manifest.stopped or 'interrupted'}")


def baseline(record: Record) -> Iterator[Finding]:
    """Without the same thing measured before, with and without noise, nothing is a gain."""
    sides = {one.run.side for one in record.compared}
    if not record.manifest.variables:
        yield doubt("baseline", "nothing is compared; these are figures of one profile, and no gain")
    elif "a" not in sides or "b" not in sides:
        yield objection(
            "baseline", f"only side {' and '.join(sorted(sides)) or 'nothing'} was run, so there is nothing to compare"
        )
    elif not any(one.run.phase == "aa" and one.run.counted for one in record.runs):
        yield doubt("baseline", "the baseline was not run against itself, so the size of noise is not known")


def variables(record: Record) -> Iterator[Finding]:
    """More than one difference between the sides' own requests, whatever the manifest says."""
    named = {one.key for one in record.manifest.variables}
    if len(named) > 1:
        yield objection("variables", f"{len(named)} settings differ: {', '.join(sorted(named))}")
    hidden: dict[str, tuple[Any, Any]] = {}
    for a, b in record.pairs():
        before, after = flat(a.stats.request), flat(b.stats.request)
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key) and not _explained(key, named):
                hidden.setdefault(key, (before.get(key), after.get(key)))
    for key, (before, after) in hidden.items():
        yield objection(
            "variables", f"{key} differs too ({valued(before)} → {valued(after)}), and the manifest does not say so"
        )


def flat(request: GenerationRequest) -> dict[str, Any]:
    """Return what of a request may decide its speed or words, by dotted key; idle plugins' settings left out."""
    flat: dict[str, Any] = {
        "backend": request.model.backend,
        "model": request.model.model,
        "template": request.model.template,
    }
    flat.update({f"load.{key}": value for key, value in request.model.options.items()})
    for name in ("length", "rows", "batch", "threads"):
        flat[f"context.{name}"] = getattr(request.context, name)
    flat.update({f"context.options.{key}": value for key, value in request.context.options.items()})
    flat.update({"chunk": request.chunk, "max_tokens": request.max_tokens, "ignore_end": request.ignore_end})
    for name, state in request.plugins.items():
        flat[name] = state.on
        flat.update({f"{name}.{key}": value for key, value in state.settings.items()} if state.on else {})
    return flat


def _explained(key: str, named: set[str]) -> bool:
    """Whether a named variable accounts for a difference: its own key, or what a plugin plans into the context."""
    plugins = {one.partition(".")[0] for one in named}
    return (
        key in named or key.partition(".")[0] in plugins or (key.startswith("context.") and bool(plugins - {"sampler"}))
    )


def chosen(record: Record) -> Iterator[Finding]:
    """Turns of a chat are those that somebody picked, and ran as the chat went."""
    if record.manifest.origin == "chat":
        yield doubt(
            "origin",
            "its runs are turns of a chat that a person picked: no warm-up, and what had been asked before is in them",
        )
    if record.manifest.left_out:
        yield doubt("words", f"left out: {'; '.join(record.manifest.left_out)}. So nobody can run it again")


def samples(record: Record) -> Iterator[Finding]:
    """Few samples, and tails of few samples."""
    counts = {side: sum(one.run.counted and one.run.side == side for one in record.compared) for side in ("a", "b")}
    if record.manifest.variables and min(counts.values()) < FEWEST:
        yield objection(
            "samples", f"{counts['a']} and {counts['b']} counted runs; below {FEWEST} a side nothing can be told"
        )
    rounds = len({one.run.round for one in record.compared})
    if record.manifest.variables and paired.smallest_p(rounds) >= statistics.ALPHA:
        yield doubt("samples", f"{rounds} rounds are too few to tell a difference from a slow moment of the machine")


def left_out(record: Record) -> Iterator[Finding]:
    """Runs that failed do not enter percentiles; where they fail on one side, that side looks better than it is."""
    for side in ("a", "b"):
        bad = [one for one in record.compared if one.run.side == side and one.run.state != one.run.expected]
        if bad:
            why = next((one.run.failure.title for one in bad if one.run.failure), bad[0].run.state)
            yield objection(
                "failures", f"{len(bad)} runs of side {side} did not end as they were to and are in no figure: {why}"
            )


def order(record: Record) -> Iterator[Finding]:
    """Sides that did not take turns: whatever changed in between is in the difference."""
    sides = [one.run.side for one in sorted(record.compared, key=lambda one: one.run.index)]
    changes = sum(x != y for x, y in pairwise(sides))
    if record.manifest.variables and len(sides) >= 4 and changes <= 1:
        yield objection(
            "order", "one side ran to its end before the other began, so the machine's mood is part of the difference"
        )
    unlike = [
        a
        for a, b in record.pairs()
        if a.run.seed != b.run.seed or (not a.run.turn and asked(a.stats.request) != asked(b.stats.request))
    ]
    if unlike:
        yield objection("order", f"the sides were asked other things in {len(unlike)} pairs (prompt or seed differ)")


SUSPICIONS: tuple[Suspicion, ...] = (incomplete, baseline, variables, chosen, samples, left_out, order)
