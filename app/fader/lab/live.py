"""The live gate: limits that the running chat is held against, and which switch goes back when one is not kept.

Knows folds of turns and names of settings; throws nothing itself. What is on trial is every setting that was changed since
the limits last held. A limit on ITL is held against the last gaps since the settings changed, also while a reply runs; the
others against each whole turn. Times the baseline: the last whole turn with nothing on trial.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from fader_backends.errors import BadValue

from ..metrics import Stats, percentile
from . import gates
from .evidence import Variable
from .experiment import valued
from .gates import Gate

TOKENS = 100
"""Gaps that a limit on ITL looks back on, where it does not say."""
LIVE = ("ttft", "ttfv", "tpot", "itl", "e2e", "prefill", "decode", "reuse", "acceptance", "kv_peak", "rss_peak")
LEAST = {"p95": 20, "p99": 100}
"""Gaps below which a percentile is a guess."""
WHOLE = ("end", "stop", "length")
EXAMPLES = "Write for example 'itl_p95 <= 60 ms over 100 tokens' or 'tpot <= 1.1 x baseline'."
OVER = re.compile(r"(.*?)\s+over\s+(?:the\s+)?(?:last\s+)?([0-9]{1,9})\s+tokens?", re.IGNORECASE)


class Limit(NamedTuple):
    """One limit, and how many gaps it looks back on."""

    gate: Gate
    tokens: int

    @property
    def streams(self) -> bool:
        """Whether it is held against a reply while that runs."""
        return self.gate.metric == "itl_ms"


class Trip(NamedTuple):
    """A limit that was not kept."""

    limit: Limit
    value: float
    bound: float
    """In the unit of the figure, as `value`."""
    held: bool
    """Whether the limits held at any time since they were set."""
    back: Variable | None
    """What goes back: `before` is what the turn had, `after` what it was when the limits last held. None: nothing is on trial."""


def parse(texts: Sequence[str], where: str = "watch") -> list[Limit]:
    """Return the limits that lines say: a gate, and `over N tokens` where it is about ITL. Raises BadValue, UnknownName."""
    return [_parsed(text, where) for text in texts]


def _parsed(text: str, where: str) -> Limit:
    found = OVER.fullmatch(text.strip())
    gate = gates.parse(found[1] if found else text, where, EXAMPLES)
    tokens = int(found[2]) if found else TOKENS
    name = next(name for name, known in gates.FIGURES.items() if known.metric == gate.metric)
    if name not in LIVE:
        raise BadValue(f"{where}: {text!r}: a chat does not tell {name}.", "", f"It can be held to {', '.join(LIVE)}.")
    if gate.metric == "itl_ms":
        least = LEAST.get(gate.statistic, 1)
        if tokens < least:
            raise BadValue(f"{where}: {text!r}: a {gate.statistic} wants more tokens.", "", f"Say {least} or more.")
    elif found:
        raise BadValue(f"{where}: {text!r}: only itl looks back over tokens.", "", "Leave `over … tokens` out.")
    elif gate.statistic not in ("", "p50"):
        raise BadValue(f"{where}: {text!r}: a turn has one {name}, so no {gate.statistic}.", "", f"Write {name}.")
    return Limit(gate, tokens)


class Watch:
    """Folds what a person throws, and the turns, into trips. Settings are named as in a bundle: `plugin`, `plugin.key`."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self.limits = list(limits)
        self._trial: dict[str, Variable] = {}
        """Changed since the limits held, the last thrown last: from what it was then to what it is."""
        self._acting: dict[str, Variable] = {}
        """The same, as the running or last turn was sent with it."""
        self._gaps: list[float] = []
        """Of whole turns since the settings changed."""
        self._base: list[float | None] = []
        """What each limit was held against in the last whole turn with nothing on trial."""
        self._tripped = self._told = False

    def thrown(self, key: str, before: Any, after: Any) -> None:
        """Note that a switch or setting was changed."""
        first = self._trial.pop(key, None)
        held = first.before if first is not None else before
        if held != after:
            self._trial[key] = Variable(key=key, before=held, after=after)

    def begin(self) -> None:
        """Note that a turn was sent, with everything as it stands."""
        if self._trial != self._acting:
            self._gaps = []
        self._acting, self._tripped = dict(self._trial), False

    def look(self, stats: Stats) -> Trip | None:
        """Return whether the reply that runs has run into a limit on ITL; once a turn."""
        if self._tripped:
            return None
        return self._failing([self._itl(one, stats) if one.streams else None for one in self.limits])

    def end(self, stats: Stats) -> Trip | None:
        """Return whether the turn that ended has run into a limit. One that did not come to its end counts for nothing."""
        if stats.finished is None or stats.finished.reason not in WHOLE:
            return None
        values = [self._itl(one, stats) if one.streams else _value(one.gate, stats) for one in self.limits]
        self._gaps = (self._gaps + stats.gaps_ms)[-max((one.tokens for one in self.limits), default=1) :]
        if self._tripped:
            self._told = self._told and self._first(values) is not None  # gaps before this turn may have tripped it
            return None
        trip = self._failing(values)
        if not self._tripped:
            self._held(values)
        return trip

    def _failing(self, values: Sequence[float | None]) -> Trip | None:
        """Return the first limit that is not kept; None also where there is nothing to put back and that was said."""
        trip = self._first(values)
        if trip is None:
            return None
        self._tripped = True
        said, self._told = self._told, trip.back is None
        return None if trip.back is None and said else trip

    def _first(self, values: Sequence[float | None]) -> Trip | None:
        base = self._base if self._acting and self._base else [None] * len(values)
        for limit, value, before in zip(self.limits, values, base, strict=True):
            gate = limit.gate
            (judged,) = gates.judge([gate], {gate.figure: value}, {gate.figure: before})
            if judged.holds is False and value is not None:
                bound = gate.limit * (before or 0) if gate.of_baseline else gate.limit
                return Trip(limit, value, bound, bool(self._base), self._back())
        return None

    def _held(self, values: Sequence[float | None]) -> None:
        """No limit failed. Where gaps enough were there to say so, what was on trial is no longer."""
        self._told = False
        if any(limit.streams and value is None for limit, value in zip(self.limits, values, strict=True)):
            if not self._acting:
                self._base = list(values)
            return
        for key, one in self._acting.items():
            now = self._trial.pop(key).after if key in self._trial else one.before  # changed again while the turn ran
            if now != one.after:
                self._trial[key] = Variable(key=key, before=one.after, after=now)
        self._acting, self._base = {}, list(values)

    def _back(self) -> Variable | None:
        """Return what was thrown last of that which the turn had and which still stands so."""
        for key in reversed(self._acting):
            one = self._acting[key]
            if self._trial.get(key) == one:
                return Variable(key=key, before=one.after, after=one.before)
        return None

    def _itl(self, limit: Limit, stats: Stats) -> float | None:
        """Return the statistic of the last gaps; None until there are enough of them."""
        window = [*self._gaps, *stats.gaps_ms][-limit.tokens :]
        if len(window) < limit.tokens:
            return None
        match limit.gate.statistic:
            case "mean":
                return sum(window) / len(window)
            case "max":
                return max(window)
            case name:
                return percentile(window, float(name.removeprefix("p")))


def _value(gate: Gate, stats: Stats) -> float | None:
    """Return the figure of one whole turn; None where it has none."""
    numbers = stats.numbers()
    match gate.metric:
        case "acceptance":
            return numbers.drafted_tokens / numbers.proposed_tokens if numbers.proposed_tokens else None
        case "reuse":
            return (
                numbers.reused_tokens / numbers.prompt_tokens
                if numbers.prompt_tokens and numbers.reused_tokens
                else 0.0
            )
        case name:
            value: float | None = getattr(numbers, name)
            return value


def measured(trip: Trip) -> str:
    """Return what was measured and the limit, as a sentence."""
    limit = trip.limit
    gate = limit.gate
    over = f" over the last {limit.tokens} tokens" if limit.streams else ""
    times = f" ({gate.limit:g} x baseline)" if gate.of_baseline else ""
    name = re.split(r"[\s<>]", gate.text, maxsplit=1)[0]
    return f"{name}{over} was {gates.shown(gate, trip.value)}; the limit is {gate.sign} {gates.shown(gate, trip.bound)}{times}."


def told(trip: Trip) -> str:
    """Return a trip as one line: what was measured, the limit, what goes back, and how to throw it again."""
    said, back = measured(trip), trip.back
    if back is None:
        if not trip.held:
            return f"{said} It has not held yet, so nothing is known to break it, and nothing goes back."
        return f"{said} Nothing was changed since it last held, so nothing goes back."
    now, was = valued(back.after), valued(back.before)
    return f"{said} {back.key} goes back to {now} at the next turn. To have {was} again: {again(back)}"


def again(back: Variable) -> str:
    """Return the command that throws again what went back."""
    if "." in back.key:
        return f"/set {back.key}={'' if back.before is None else back.before}"
    return f"/{valued(back.before)} {back.key}"
