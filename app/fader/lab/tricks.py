"""Suspicions of the numbers: what makes them look better than what was measured.

Knows the raw record. To add a suspicion, write a function from a `Record` to findings and put it into `SUSPICIONS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .evidence import Run
from .finding import Finding, Record, Suspicion, asked, doubt, objection
from .raw import Measured

KNOWN_TOKENS = 32
"""Reused tokens of a cold prompt that a template may account for."""
LOAD = 1.5
"""Load average per processor above which other programs measurably shared the machine."""
LOOPING = 0.5
"""Share of repeated groups of four tokens above which a reply goes in circles."""


def cold(record: Record) -> Iterator[Finding]:
    """Prompts called cold of which something was known."""
    for side in ("a", "b"):
        warm = [
            one
            for one in record.compared
            if one.run.side == side and one.run.condition == "cold" and _known(one) > KNOWN_TOKENS
        ]
        if warm:
            most = max(map(_known, warm))
            said = f"{len(warm)} runs of side {side} are called cold, but up to {most:,} tokens of their prompts were known"
            yield objection("cold prompts", said)
    warmed = {asked(one.stats.request) for one in record.runs if one.run.phase == "warm-up"}
    again = [one for one in record.compared if one.run.condition == "cold" and asked(one.stats.request) in warmed]
    if again:
        yield objection(
            "warm-up", f"the warm-up asked the very prompt of {again[0].run.case!r}, so its first run was prepared for"
        )


def _known(one: Measured) -> int:
    ready = one.stats.prepared.ready if one.stats.prepared else 0
    return max(one.stats.reused or 0, ready)


def stops(record: Record) -> Iterator[Finding]:
    """Replies that end early cost less; both sides must write as much."""
    early = [one for one in record.compared if not one.stats.request.ignore_end or one.stats.request.stop]
    if early:
        yield objection(
            "length", f"{len(early)} runs could end before their length (end tokens or stop texts were heeded)"
        )
    shorter = [
        (a, b) for a, b in record.pairs() if a.run.counted and b.run.counted and a.stats.output != b.stats.output
    ]
    if shorter:
        a, b = shorter[0]
        said = f"{a.stats.output} and {b.stats.output} tokens in {a.run.case!r}"
        yield objection("length", f"{len(shorter)} pairs of replies are not of one length: {said}")


def acceptance(record: Record) -> Iterator[Finding]:
    """Drafts whose success is made up, or comes from replies that go in circles."""
    for one in record.compared:
        stats = one.stats
        free = stats.output - stats.steps
        if stats.drafted > stats.proposed or free != stats.drafted:
            said = (
                f"run {one.run.index} keeps {stats.drafted} of {stats.proposed} drafted tokens, but {stats.output} tokens came "
                f"of {stats.steps} evaluations"
            )
            yield objection("acceptance", said)
            break
    drafted = [one for one in record.compared if one.stats.drafted and not record.manifest.left_out]
    looping = [one for one in drafted if _repeated(one.stats.ids) > LOOPING]
    if looping and 2 * len(looping) >= len(drafted):
        yield doubt(
            "acceptance",
            f"{len(looping)} of {len(drafted)} replies with drafts go in circles, which any draft can guess",
        )


def _repeated(ids: Sequence[int]) -> float:
    groups = [tuple(ids[start : start + 4]) for start in range(len(ids) - 3)]
    return 1 - len(set(groups)) / len(groups) if groups else 0.0


def models(record: Record) -> Iterator[Finding]:
    """Another model in some runs, or one that nobody can identify."""
    seen = {(one.stats.facts.model, one.stats.facts.size_bytes) for one in record.runs if one.stats.facts}
    if len(seen) > 1 and not any(one.key == "model" for one in record.manifest.variables):
        yield objection("model", f"the runs were of {len(seen)} models: {', '.join(sorted(name for name, _ in seen))}")
    note = record.manifest.model
    if seen and note.name and note.name not in {name for name, _ in seen}:
        yield objection(
            "model", f"the manifest says {note.name}, the runs say {', '.join(sorted(name for name, _ in seen))}"
        )
    if not note.sha256 and note.backend not in ("", "echo"):
        yield doubt("model", "its hash is not recorded, so nobody can tell whether theirs is the same")


def words(record: Record) -> Iterator[Finding]:
    """Outputs that are not what the events say."""
    for one in record.runs:
        said, ended = record.outputs.get(one.run.index), one.stats.finished
        if said is not None and ended is not None and said.ids != ended.ids:
            yield objection("outputs", f"the words kept for run {one.run.index} are not those its events brought")
            break


def clock(record: Record) -> Iterator[Finding]:
    """Times that run backwards, and a machine that had other things to do."""
    backwards = [one.run for one in record.runs if min(one.stats.gaps_ms, default=0.0) < 0 or _negative(one)]
    if backwards:
        yield objection(
            "clock", f"times run backwards in {len(backwards)} runs, the first of them run {backwards[0].index}"
        )
    processors = record.manifest.hardware.threads or 0
    busy = [run for run in _loaded(record) if processors and (run.load_average or 0) > LOAD * processors]
    if busy:
        most = max(run.load_average or 0 for run in busy)
        yield doubt(
            "machine", f"other programs ran beside {len(busy)} runs (load up to {most:.1f} on {processors} processors)"
        )


def _negative(one: Measured) -> bool:
    return any(value < 0 for value in one.stats.numbers().ttft_parts.values())


def _loaded(record: Record) -> list[Run]:
    return [one.run for one in record.compared if one.run.load_average is not None]


SUSPICIONS: tuple[Suspicion, ...] = (cold, stops, acceptance, models, words, clock)
