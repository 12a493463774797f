"""The controller of draft lengths against simulated models: it finds the best length, goes idle, and comes back."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime

import msgspec
import pytest
from fader_backends.base import ContextSpec, ModelSpec
from fader_plugins.drafting import BACKOFF, REFRESH, STALE, Chances, Costs, Pace, Rhythm, Turns, before, rows, shape
from fader_plugins.turn import Drafted, DraftNumbers, GenerationRequest, Numbers, RequestDraft

MOST = 24
Curve = Callable[[int], float]


def slow(tokens: int) -> float:
    """Two cores: a batch is hardly cheaper than its tokens one by one."""
    return shape(tokens) * 0.5


def steep(tokens: int) -> float:
    return 10.0 * tokens


def flat(tokens: int) -> float:
    """A GPU: a batch of a few costs as much as one token."""
    return 8.0 + 0.05 * tokens


def step(proposed: int, ms: float, others: int = 0) -> Drafted:
    return Drafted(
        request_id="turn",
        at_ns=0,
        step=1,
        proposed=proposed,
        kept=0,
        draft_ns=0,
        verify_ns=round(ms * 1e6),
        batch=1 + proposed + others,
    )


def best_length(chance: float, curve: Curve) -> tuple[int, float]:
    """By trying them all: the length of the least time per token, and that time / the time without drafts."""
    found = []
    for length in range(MOST + 1):
        tokens = sum(chance**place for place in range(length + 1))
        found.append((curve(1 + length) / tokens / curve(1), length))
    ratio, length = min(found)
    return length, ratio


class Simulation:
    """Steps of a model with a true cost curve and a true chance per guess."""

    def __init__(self, curve: Curve, chance: float, seed: int = 1) -> None:
        self.curve = curve
        self.chance = chance
        self.luck = random.Random(seed)
        self.pace = Pace()
        self.chances = Chances(lambda _: 0.7)
        self.rhythm = Rhythm()

    def run(self, steps: int) -> tuple[float, list[int]]:
        """Return (time / time without drafts of the same tokens, lengths)."""
        spent, tokens, lengths = 0.0, 0, []
        for _ in range(steps):
            length = self.pace.plan([self.chances.of(0)] * MOST).length
            if not length and self.pace.retry():
                length = 1
            if length and self.rhythm.rests():
                length = 0
            self.rhythm.drafted(length > 0)
            kept = 0
            while kept < length and self.luck.random() < self.chance:
                kept += 1
            for place in range(min(kept + 1, length)):
                self.chances.learn(0, place < kept)
            if not length:  # a guess that is not evaluated can be compared for nothing
                self.chances.learn(0, self.luck.random() < self.chance)
            ms = self.curve(1 + length) * self.luck.uniform(0.97, 1.1)
            self.pace.learn(step(length, ms))
            spent, tokens = spent + ms, tokens + kept + 1
            lengths.append(length)
        return spent / tokens / (self.curve(1) * 1.035), lengths


@pytest.mark.parametrize("curve", [slow, flat, steep])
@pytest.mark.parametrize("chance", [0.1, 0.4, 0.8, 0.95, 0.99])
def test_it_comes_close_to_the_best_length(curve: Curve, chance: float) -> None:
    """Over 600 steps it takes little more than the best fixed length would, and never 3 % more than no drafts."""
    ratio, _ = Simulation(curve, chance).run(600)
    _, best = best_length(chance, curve)
    assert ratio <= min(1.03, 1.12 * best + 0.02), f"{ratio:.3f}; the best is {best:.3f}"


def test_it_goes_idle_and_comes_back() -> None:
    """A text that stops repeating stops the drafts, and one that repeats again starts them again."""
    simulation = Simulation(slow, 0.97)
    assert simulation.run(150)[1][-20:] != [0] * 20
    simulation.chance = 0.1
    simulation.run(60)
    idle = simulation.run(200)[1]
    assert sum(length > 0 for length in idle) <= 4
    simulation.chance = 0.97
    assert max(simulation.run(80)[1]) >= 4


def test_a_belief_in_dear_batches_is_corrected() -> None:
    """Where batches are cheap, drafts of a middling chance are found to pay although the belief says they do not."""
    assert best_length(0.45, slow)[0] == 0
    ratio, lengths = Simulation(flat, 0.45).run(400)
    assert max(lengths[200:]) >= 3
    assert ratio < 0.75


def test_retries_become_rarer() -> None:
    """While drafts do not pay, tries come after 64 chances, then after twice as many each time, up to 1,024."""
    pace = Pace()
    tries = [number for number in range(6000) if pace.retry()]
    gaps = [later - earlier for earlier, later in zip([-1, *tries], tries, strict=False)]
    assert gaps[:5] == [64, 128, 256, 512, 1024]
    assert max(gaps) == BACKOFF[1]


def test_costs_before_and_after_measuring() -> None:
    """At first the belief's shape; one measured size scales all of it; a second one bends it."""
    costs = Costs()
    assert costs.ms(8) == 98
    assert costs.ms(24) > costs.ms(16) > costs.ms(10) > costs.ms(8)
    costs.learn(1, 2.3)
    assert costs.ms(8) == pytest.approx(9.8)
    for _ in range(9):
        costs.learn(8, 4.9)
    assert costs.ms(8) == pytest.approx(4.9)
    assert 4.9 <= costs.ms(16) < 8.4, "what fell goes on falling, but never below the largest that was measured"
    assert costs.ms(1) == pytest.approx(2.3)
    assert 2.9 < costs.ms(4) < 5.8


def test_costs_ignore_disturbances_and_forget() -> None:
    """A few evaluations that took far too long change nothing, and a size not seen for long is believed again."""
    costs = Costs()
    for number in range(9):
        costs.learn(4, 500 if number in (2, 5, 8) else 58)
    assert costs.ms(4) == pytest.approx(58)
    costs.learn(12, 10.0)
    for _ in range(STALE + 1):
        costs.learn(1, 23)
    assert costs.ms(12) == pytest.approx(shape(12))


def test_a_copy_is_soon_forgotten_in_the_next_turn() -> None:
    """What held a hundred times in one turn is doubted after two misses in the next one."""
    chances = Chances(lambda _: 0.4)
    for _ in range(100):
        chances.learn(3, True)
    assert chances.of(3) > 0.9
    chances.fade()
    for _ in range(2):
        chances.learn(3, False)
    assert chances.of(3) < 0.6


def test_other_rows_are_counted() -> None:
    """Beside a row that brings 31 tokens, one more token costs its share of a large batch and not a second step."""
    pace = Pace()
    pace.learn(step(0, shape(32), others=31))
    assert pace.plan([0.4] * 4).length >= 3
    pace.learn(step(0, shape(1)))
    assert pace.plan([0.4] * 4).length == 0


def test_a_slow_draft_never_pays() -> None:
    """Guesses that take as long as the target's own tokens are not made, however good."""
    pace = Pace()
    assert pace.plan([1.0] * 8).length == 8
    assert pace.plan([1.0] * 8, draft_ms=23).length == 0
    assert pace.plan([]).length == 0
    assert not pace.worth(1, 1.0, 23)
    assert pace.worth(1, 1.0, 0)


def test_rhythm() -> None:
    """The first step rests, then one after 64 drafted ones; any step without a draft counts as rest."""
    rhythm, rests = Rhythm(), []
    for _ in range(2 * REFRESH + 3):
        rests.append(rhythm.rests())
        rhythm.drafted(not rests[-1])
    assert [place for place, rest in enumerate(rests) if rest] == [0, REFRESH + 1, 2 * REFRESH + 2]


def request(name: str) -> GenerationRequest:
    model, context = ModelSpec(backend="echo"), ContextSpec(rows=2)
    return RequestDraft(owner="me", messages=[], model=model, context=context, now=datetime(2026, 1, 1)).freeze(name, 0)


def test_turns_keep_apart_and_are_freed() -> None:
    """Each running turn has its own; a new history under an old name is a new turn; the oldest give way."""
    dropped: list[str] = []
    turns: Turns[str] = Turns(lambda request: f"of {request.id}", dropped.append)
    one, other = [1], [1]
    assert turns.of(request("a"), one) == "of a"
    turns.of(request("a"), one)
    assert not dropped
    turns.of(request("a"), other)
    assert dropped == ["of a"]
    turns.of(request("b"), [])
    turns.of(request("c"), [])
    assert dropped == ["of a"] * 2
    turns.end(request("c"))
    turns.end(request("c"))
    assert dropped == ["of a", "of a", "of c"]
    assert len(turns) == 1


def test_before() -> None:
    """Guesses are cut before the first end token."""
    assert before([1, 2, 9, 3], frozenset({9})) == [1, 2]
    assert before([9], frozenset({9})) == []
    assert before([1, 2], frozenset()) == [1, 2]


def test_rows_say_what_was_saved() -> None:
    """20 tokens in 5 drafted steps of 40 ms, at 23 ms a token without drafts, save 260 ms, over 26 gaps 10 ms each."""
    mine = DraftNumbers(steps=5, proposed=20, kept=15, draft_ms=5, verify_ms=195, note="active")
    numbers = Numbers(output_tokens=27, tpot_ms=12.0, single_ms=23.0, singles=9, drafts={"one": mine})
    found = {row.key.removeprefix("one_"): row for row in rows(numbers, "one", "one")}
    assert found["state"].value == "active"
    assert found["kept"].value == "15 of 20 (75%)"
    assert found["per_step"].value == 4.0
    assert found["times"].value == "5 : 195 ms"
    assert found["saved"].value == pytest.approx(10.0)
    assert found["without"].value == pytest.approx(22.0)
    assert not found["saved"].doubtful
    assert all(row.value is None for row in rows(numbers, "other", "other"))
    assert "one_memory" not in {row.key for row in rows(numbers, "one", "one")}
    large = msgspec.structs.replace(numbers, drafts={"one": msgspec.structs.replace(mine, held_bytes=3 * 2**20)})
    assert {row.key: row.value for row in rows(large, "one", "one")}["one_memory"] == 3.0
    unmeasured = Numbers(output_tokens=27, tpot_ms=12.0, drafts={"one": mine})
    assert {row.key: row.value for row in rows(unmeasured, "one", "one")}["one_without"] is None
