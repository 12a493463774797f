"""How many tokens to draft: what evaluations cost against how often guesses hold, both learnt while running.

Knows neither where guesses come from nor what they say. For any plugin that implements `propose_tokens`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from .turn import Drafted, DraftNumbers, GenerationRequest, Numbers, Reading

SHAPE = ((1, 23.0), (4, 58.0), (8, 98.0), (16, 168.0))
"""Tokens -> ms of an evaluation, as measured for SmolLM2 Q4_1 on two cores: the belief before anything is measured."""
SAMPLES = 9
"""Latest evaluations of a size that count."""
STALE = 512
"""Evaluations after which a size's measurements no longer say anything of now."""
MARGIN = 0.95
"""A draft must promise to take at most this share of the time without drafts."""
FORGET = 0.95
"""What an older outcome weighs against the next one: about 20 outcomes are remembered."""
CARRIED = 4.0
"""How many outcomes of earlier turns count in the next one, which may be of another kind: prose after a copy."""
WEIGHT = 2.0
"""How many outcomes the belief before the first one is worth."""
REACH = 0.05
"""Guesses that are reached less often are not weighed."""
REFRESH = 64
"""Drafted steps after which one is taken without drafts, to see what those cost now."""
BACKOFF = 64, 1024
"""Chances to draft that are let pass before the next try: at first, and at most."""

T = TypeVar("T")


class Costs:
    """Tokens in an evaluation -> its ms: the shape times a correction learnt at the sizes that occurred.

    The correction of a size is the lower quartile over its latest evaluations, because what disturbs one makes it
    longer; between sizes it is interpolated over the logarithm, and beyond the largest one a fall goes on, so that where
    batches are cheap longer ones are tried.
    """

    def __init__(self) -> None:
        self._seen: dict[int, deque[float]] = {}
        self._last: dict[int, int] = {}
        self._count = 0
        self._points: list[tuple[float, float]] = []

    def learn(self, tokens: int, ms: float) -> None:
        """Take in one evaluation."""
        self._count += 1
        size = tokens if tokens <= 16 else 16 + round(4 * math.log2(tokens / 16))  # sizes of which one speaks for all
        self._seen.setdefault(size, deque(maxlen=SAMPLES)).append(ms / shape(tokens))
        self._last[size] = self._count
        for old in [size for size, last in self._last.items() if self._count - last > STALE]:
            del self._seen[old], self._last[old]
        self._points = []

    def _learnt(self) -> list[tuple[float, float]]:
        """Return (log of the size, correction) of each size that was measured, made anew after each evaluation."""
        if not self._points:
            self._points = sorted(
                (math.log(size if size <= 16 else 16 * 2 ** ((size - 16) / 4)), sorted(seen)[len(seen) // 4])
                for size, seen in self._seen.items()
            )
        return self._points

    def ms(self, tokens: int) -> float:
        """Return what an evaluation of so many tokens should take."""
        points = self._learnt()
        if not points:
            return shape(tokens)
        at = math.log(tokens)
        right = bisect_left(points, (at, 0.0))
        if right == 0:
            return shape(tokens) * points[0][1]
        if right == len(points):
            return self._beyond(tokens, at)
        (x0, y0), (x1, y1) = points[right - 1], points[right]
        return shape(tokens) * (y0 + (y1 - y0) * (at - x0) / (x1 - x0))

    def _beyond(self, tokens: int, at: float) -> float:
        (x0, y0), (x1, y1) = (
            self._points[-2:] if len(self._points) > 1 else [(-1.0, self._points[0][1]), self._points[0]]
        )
        correction = min(y1, max(0.5 * y1, y1 + (y1 - y0) / (x1 - x0) * (at - x1)))
        return max(shape(tokens) * correction, shape(round(math.exp(x1))) * y1)


def shape(tokens: int) -> float:
    """Return the belief's ms: SHAPE, straight between its points and beyond its last."""
    right = min(max(1, bisect_left(SHAPE, (tokens, 0.0))), len(SHAPE) - 1)
    (x0, y0), (x1, y1) = SHAPE[right - 1], SHAPE[right]
    return y0 + (y1 - y0) * (tokens - x0) / (x1 - x0)


class Chances:
    """How often guesses of a kind held lately, given that those before them in the draft did."""

    def __init__(self, belief: Callable[[int], float]) -> None:
        self.belief = belief
        self._counts: dict[int, tuple[float, float]] = {}

    def learn(self, kind: int, held: bool) -> None:
        """Take in one outcome."""
        hits, tries = self._counts.get(kind, (0.0, 0.0))
        self._counts[kind] = hits * FORGET + held, tries * FORGET + 1

    def of(self, kind: int) -> float:
        """Return the chance that the next one holds."""
        hits, tries = self._counts.get(kind, (0.0, 0.0))
        return (hits + WEIGHT * self.belief(kind)) / (tries + WEIGHT)

    def fade(self) -> None:
        """Trust what was learnt less: another turn begins."""
        for kind, (hits, tries) in self._counts.items():
            share = min(1.0, CARRIED / tries)
            self._counts[kind] = hits * share, tries * share

    def forget(self) -> None:
        """Go back to the belief."""
        self._counts.clear()


class Plan(NamedTuple):
    """How long a draft should be, and what that promises."""

    length: int
    """0: do not draft."""
    ratio: float
    """Expected time per token / the time without drafts, for the best length."""


class Pace:
    """Chooses draft lengths for one model and context, and learns from their `Drafted` events."""

    def __init__(self) -> None:
        self.costs = Costs()
        self._others = 0
        self._passed = 0
        self._patience = BACKOFF[0]

    def learn(self, event: Drafted) -> None:
        """Take in one step."""
        if event.batch:
            self.costs.learn(event.batch, event.verify_ns * 1e-6)
            self._others = event.batch - 1 - event.proposed

    def plan(self, chances: Iterable[float], draft_ms: float = 0.0) -> Plan:
        """Weigh drafts of every length up to that of `chances`: each guess's chance, if those before it held.

        Expected tokens are as in Leviathan et al., "Fast inference from transformers via speculative decoding"
        (2023), with a chance of its own for each guess. `draft_ms`: what one guess takes to make.
        """
        alone, best = self.costs.ms(self._others + 1), Plan(0, math.inf)
        reach, tokens = 1.0, 1.0
        for length, chance in enumerate(chances, 1):
            reach *= chance
            if reach < REACH:  # what comes after it changes little, and weighing it costs time at every token
                break
            tokens += reach
            ratio = (self.costs.ms(self._others + 1 + length) + length * draft_ms) / (tokens * alone)
            if ratio < best.ratio:
                best = Plan(length, ratio)
        if best.ratio <= MARGIN:
            self._passed, self._patience = 0, BACKOFF[0]
            return best
        return Plan(0, best.ratio)

    def worth(self, length: int, chance: float, draft_ms: float) -> bool:
        """Whether one more guess after `length` of them should save more than it takes, if it holds with that chance."""
        alone, sizes = self._others + 1, self._others + 1 + length
        return chance * self.costs.ms(alone) > self.costs.ms(sizes + 1) - self.costs.ms(sizes) + draft_ms

    def retry(self) -> bool:
        """Count a chance that is let pass; True when it is time to try again. The waits double."""
        self._passed += 1
        if self._passed < self._patience:
            return False
        self._passed, self._patience = 0, min(2 * self._patience, BACKOFF[1])
        return True


class Rhythm:
    """Whether a step of a turn goes without a draft, so that the time without drafts is known: the first, then some."""

    def __init__(self) -> None:
        self._since = REFRESH

    def rests(self) -> bool:
        """Ask whether it is time for a step without a draft."""
        return self._since >= REFRESH

    def drafted(self, was: bool) -> None:
        """Take in whether a step has a draft."""
        self._since = self._since + 1 if was else 0


class Turns(Generic[T]):
    """Something of one's own for each running turn, made when first asked for and dropped at the end."""

    def __init__(self, make: Callable[[GenerationRequest], T], drop: Callable[[T], None] = lambda _: None) -> None:
        self._make = make
        self._drop = drop
        self._running: OrderedDict[str, tuple[Sequence[int], T]] = OrderedDict()

    def of(self, request: GenerationRequest, history: Sequence[int]) -> T:
        """Return the turn's own. Turns that ended unseen, because they failed, are dropped when rows run out."""
        known = self._running.get(request.id)
        if known is None or known[0] is not history:
            self.end(request)
            while len(self._running) >= request.context.rows:
                self._drop(self._running.popitem(last=False)[1][1])
            known = self._running[request.id] = history, self._make(request)
        self._running.move_to_end(request.id)
        return known[1]

    def end(self, request: GenerationRequest) -> None:
        """Drop what is of this turn."""
        known = self._running.pop(request.id, None)
        if known is not None:
            self._drop(known[1])

    def __len__(self) -> int:
        return len(self._running)


def before(tokens: Sequence[int], ends: frozenset[int]) -> Sequence[int]:
    """Return the tokens before the first end token: the model's own choice ends the reply, a guess need not."""
    return next((tokens[:place] for place, token in enumerate(tokens) if token in ends), tokens)


def rows(numbers: Numbers, plugin: str, label: str) -> list[Reading]:
    """Return the overlay rows of a plugin that drafts: what was kept, what it cost, what it saved."""
    n, single = numbers.drafts.get(plugin, DraftNumbers()), numbers.single_ms
    spent = n.draft_ms + n.verify_ms
    saved = (n.steps + n.kept) * single - spent if single is not None and spent else None
    told = numbers.output_tokens - 1
    memory = Reading(
        key=f"{plugin}_memory",
        label="  memory",
        value=n.held_bytes / 2**20,
        unit="MiB",
        digits=0,
        better="lower",
        help="The draft's weights and KV buffers.",
    )
    return [
        *([memory] if n.held_bytes else []),
        Reading(key=f"{plugin}_state", label=label, value=n.note or None, help="What the plugin is doing, and why."),
        Reading(
            key=f"{plugin}_kept",
            label="  kept",
            value=f"{n.kept} of {n.proposed} ({n.kept / n.proposed:.0%})" if n.proposed else None,
            help="Drafted tokens that were the model's own choice / drafted tokens (acceptance).",
        ),
        Reading(
            key=f"{plugin}_per_step",
            label="  tokens per step",
            value=(n.steps + n.kept) / n.steps if n.steps else None,
            digits=2,
            better="higher",
            help="Tokens per evaluation, over the evaluations that checked a draft.",
        ),
        Reading(
            key=f"{plugin}_times",
            label="  draft : verify",
            value=f"{n.draft_ms:.0f} : {n.verify_ms:.0f} ms" if spent else None,
            help="Time to make guesses : time of the evaluations that checked them.",
        ),
        Reading(
            key=f"{plugin}_saved",
            label="  saved (est.)",
            value=saved / told if saved is not None and told > 0 else None,
            unit="ms/tok",
            digits=2,
            better="higher",
            doubtful=numbers.singles < SAMPLES,
            help=f"(tokens of drafted steps x time of a step without draft - time spent on them) / tokens of the reply. "
            f"An estimate: it rests on the median of {numbers.singles} steps without draft"
            + (f", {single:.1f} ms." if single is not None else "."),
        ),
        Reading(
            key=f"{plugin}_without",
            label="  TPOT without (est.)",
            value=numbers.tpot_ms + saved / told if numbers.tpot_ms and saved is not None and told > 0 else None,
            unit="ms",
            digits=2,
            better="neither",
            doubtful=numbers.singles < SAMPLES,
            help="TPOT plus what was saved per token: what it would have been with this plugin off. An estimate.",
        ),
    ]
