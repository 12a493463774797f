"""`Report`: what `fader compare --json` prints and what exports are made of. Fields are added, never renamed.

Knows stored comparisons, not how they are drawn.
"""

from __future__ import annotations

import math
import platform
from datetime import datetime
from string import ascii_uppercase

import msgspec

from .. import __version__
from .differ import divergence
from .figures import Figures
from .values import Comparison, StoredColumn


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What one column chose where two part."""

    text: str
    probability: float | None
    """In its own column, among the candidates the chain left; null where the reply had ended."""


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """Where a column leaves column A."""

    at: int
    """Index of the first token that differs."""
    before: str
    """Text of both just before it."""
    first: Choice
    """Column A's."""
    own: Choice
    cause: str
    """settings, seed, model, context (several joined by " and "), or near-tie."""
    line: str
    """The same in words."""


class ColumnReport(msgspec.Struct, frozen=True, kw_only=True):
    """One column."""

    letter: str
    title: str
    changes: dict[str, str]
    text: str
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    seed: int | None
    figures: Figures | None
    parts: Parting | None
    """Where it leaves column A; null where it does not."""
    note: str
    alone: str
    failure: str
    """Why it failed; empty when it did not."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison."""

    prompt: str
    created: datetime
    profile: str
    model: str
    mode: str
    """How the numbers came about: together, or one at a time."""
    seed: int
    kept: str
    columns: tuple[ColumnReport, ...]
    versions: dict[str, str]


def mode_of(comparison: Comparison) -> str:
    """Return how the numbers came about, in words."""
    if comparison.fair:
        return "one at a time, ABAB"
    return "together, in one batch where nothing must be loaded"


def report(comparison: Comparison) -> Report:
    """Return a comparison as it is shown outside of the app."""
    first = comparison.columns[0] if comparison.columns else None
    records = [column.answer.record for column in comparison.columns if column.answer is not None]
    facts = next((record.facts for record in records if record.facts is not None), None)
    return Report(
        prompt=comparison.prompt,
        created=comparison.created,
        profile=comparison.profile,
        model=facts.model if facts else "",
        mode=mode_of(comparison),
        seed=comparison.seed,
        kept=comparison.kept,
        columns=tuple(
            _column(letter, column, first if column is not first else None)
            for letter, column in zip(ascii_uppercase, comparison.columns, strict=False)
        ),
        versions={"fader": __version__, "python": platform.python_version(), **(facts.versions if facts else {})},
    )


def _column(letter: str, column: StoredColumn, first: StoredColumn | None) -> ColumnReport:
    answer, failure = column.answer, column.failure
    words = (failure.title, failure.detail, failure.next_step) if failure else ()
    return ColumnReport(
        letter=letter,
        title=column.title,
        changes=column.changes,
        text=answer.record.text if answer else "",
        ids=answer.ids if answer else (),
        logprobs=answer.logprobs if answer else (),
        seed=answer.record.request.sampler.seed if answer else None,
        figures=answer.figures if answer else None,
        parts=_parting(first, column) if first is not None else None,
        note=column.note,
        alone=column.alone,
        failure=" ".join(" ".join(word.split()) for word in words if word),
    )


def _parting(first: StoredColumn, column: StoredColumn) -> Parting | None:
    if first.answer is None or column.answer is None:
        return None
    found = divergence(first.answer, column.answer)
    if found is None:
        return None
    a, b = (
        Choice(text=one.text, probability=None if one.logprob is None else math.exp(one.logprob))
        for one in (found.one, found.other)
    )
    return Parting(at=found.at, before=found.before, first=a, own=b, cause=found.cause, line=str(found))
