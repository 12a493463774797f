"""A bundle run again, and what held: figure by figure and reply by reply.

Knows two bundles of one experiment; what runs it is `recorder`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from . import raw, restore, statistics
from .bundle import Bundle
from .evidence import Output, Phase, Side
from .figures import BY_NAME, alone, figures, samples
from .raw import Measured
from .values import Compared, Figure
from .words import named, quantity, ratio

Outcome: TypeAlias = Literal["same", "within the A/A spread", "differs", "cannot be run here"]
MAIN = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
WHY = {
    "energy_j": "no joules can be read here",
    "acceptance": "nothing was drafted here",
    "reuse": "nothing says here what was reused",
}
SIDES: tuple[Side, Side] = ("a", "b")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure or one set of replies, then and now."""

    name: str
    kind: Literal["value", "effect", "replies"]
    """value: a median. effect: what the change does to it, b / a. replies: the words, id for id."""
    then: str
    now: str
    outcome: Outcome
    why: str = ""
    there: bool = True
    """Of an effect: whether it is there again, be it of another size."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What a bundle came to when it was run again."""

    bundle: str
    again: str
    """The id of the new bundle, which holds all of the new record."""
    environment: tuple[str, ...]
    """Every difference of machine, versions and model."""
    rows: tuple[Row, ...]

    @property
    def held(self) -> bool:
        """Whether every effect that was claimed is there again."""
        return all(row.there for row in self.rows)


def compare(then: Bundle, now: Bundle) -> Replay:
    """Return what held. Raises StoreError where a record cannot be read."""
    before, after = raw.read(then.folder), raw.read(now.folder, now.whole)
    old, new = figures(before), figures(after)
    if then.manifest.origin == "chat":
        old = alone(old)  # it claims no effect, so none can be there again
    rows = []
    for figure in old:
        again = next((one for one in new if _key(one) == _key(figure)), None)
        rows += [_value(side, figure, again, before, after) for side in SIDES if getattr(figure, side) is not None]
        rows += _effect(figure, again)
    words = raw.outputs(then.folder), raw.outputs(now.folder, now.whole)
    return Replay(
        bundle=then.manifest.id,
        again=now.manifest.id,
        environment=tuple(restore.environment(then.manifest, now.manifest)),
        rows=(*rows, *_replies(before, after, words)),
    )


def _key(figure: Figure) -> tuple[str, str, str]:
    return figure.metric, figure.condition, figure.case


def _value(side: Side, then: Figure, now: Figure | None, before: Sequence[Measured], after: Sequence[Measured]) -> Row:
    old, new = getattr(then, side), getattr(now, side) if now is not None else None
    name = f"{named(then)}, side {side}"
    if new is None:
        why = WHY.get(then.metric, "no run here gave this figure")
        return Row(
            name=name, kind="value", then=quantity(old.p50, then.unit), now="—", outcome="cannot be run here", why=why
        )
    metric = BY_NAME[then.metric]
    once, again = (samples(metric, _of(then, runs), "ab", side) for runs in (before, after))
    together = (once.rounds, again.rounds) if metric.sample == "gap" else None
    judged = statistics.compare(once.values, again.values, together=together)
    found = judged.ratio.value if judged.ratio else 1.0
    return Row(
        name=name,
        kind="value",
        then=quantity(old.p50, then.unit),
        now=quantity(new.p50, then.unit),
        outcome=_outcome(judged.different, found, then, now),
        why=judged.doubt if "too few" in judged.doubt else "",
    )


def _of(figure: Figure, runs: Sequence[Measured]) -> list[Measured]:
    return [
        one
        for one in runs
        if one.run.counted and figure.condition in ("", one.run.condition) and figure.case in ("", one.run.case)
    ]


def _effect(then: Figure, now: Figure | None) -> list[Row]:
    """Return a row per statistic of which the bundle can tell a difference from noise, and for medians also where it cannot."""
    rows = []
    for old in then.compared:
        if then.metric not in MAIN or then.case or (old.verdict not in ("better", "worse") and old.statistic != "p50"):
            continue
        name = f"what the change does to {named(then)} {old.statistic}"
        new = next((one for one in now.compared if one.statistic == old.statistic), None) if now is not None else None
        if new is None:
            rows.append(
                Row(
                    name=name,
                    kind="effect",
                    then=_ratio(old),
                    now="—",
                    outcome="cannot be run here",
                    why="too few samples here",
                    there=False,
                )
            )
            continue
        apart = not (old.low <= new.high and new.low <= old.high)
        turned = old.verdict != new.verdict
        moved = new.ratio / old.ratio if old.ratio else 1.0
        outcome = _outcome(apart and (turned or old.verdict != "~"), moved, then, now)
        if turned and outcome == "same":
            outcome = "within the A/A spread" if statistics.distance(moved) <= _spread(then, now) else "differs"
        there = not turned or outcome != "differs"
        why = "the same direction, another size" if outcome == "differs" and there else ""
        shown = _ratio(old), _ratio(new)
        rows.append(Row(name=name, kind="effect", then=shown[0], now=shown[1], outcome=outcome, why=why, there=there))
    return rows


def _ratio(one: Compared) -> str:
    return f"× {ratio(one.ratio)} ({ratio(one.low)} to {ratio(one.high)}) {one.verdict}".rstrip()


def _outcome(different: bool, found: float, then: Figure, now: Figure | None) -> Outcome:
    if not different:
        return "same"
    return "within the A/A spread" if statistics.distance(found) <= _spread(then, now) else "differs"


def _spread(*figures: Figure | None) -> float:
    """Return how far the baseline was from itself, at the most; 0 where nobody measured it."""
    known = [statistics.distance(one.aa) for figure in figures if figure for one in figure.compared if one.aa]
    return max(known, default=0.0)


def _replies(
    before: Sequence[Measured], after: Sequence[Measured], words: tuple[Mapping[int, Output], Mapping[int, Output]]
) -> list[Row]:
    """Return a row per case and side: how many replies are the same, id for id."""
    then, now = (
        {
            (one.run.phase, one.run.case, one.run.side, one.run.round, one.run.turn): said[one.run.index].ids
            for one in runs
            if one.run.counted and one.run.index in said
        }
        for runs, said in zip((before, after), words, strict=True)
    )
    rows = []
    for case, side in dict.fromkeys((one.run.case, one.run.side) for one in before if one.run.phase == "ab"):
        places = [place for place in then if place[:3] == ("ab", case, side)]
        both = [place for place in places if place in now]
        equal = sum(then[place] == now[place] for place in both)
        wavers = any(
            then[place] != then.get(("aa", case, "b", *place[3:]), then[place])
            for place in then
            if place[:3] == ("aa", case, "a")
        )
        outcome: Outcome = "same" if equal == len(both) else "within the A/A spread" if wavers else "differs"
        if not both:
            outcome = "cannot be run here"
        rows.append(
            Row(
                name=f"replies of {case}, side {side}",
                kind="replies",
                then=f"{len(places)} replies",
                now=f"{equal} of {len(both)} the same" if both else "—",
                outcome=outcome,
                why=_parted(then, now, both)
                if outcome == "differs"
                else ""
                if both
                else "no run of it ended whole here",
            )
        )
    return rows


Place: TypeAlias = tuple[Phase, str, Side, int, int]


def _parted(
    then: Mapping[Place, tuple[int, ...]], now: Mapping[Place, tuple[int, ...]], places: Sequence[Place]
) -> str:
    """Return where replies part first."""
    firsts = [
        next((at for at, pair in enumerate(zip(then[place], now[place], strict=False)) if pair[0] != pair[1]), 0)
        for place in places
        if then[place] != now[place]
    ]
    return f"they part after {min(firsts)} tokens at the earliest"
