"""The search finds what overturns a claim where there is something, says so where there is not, and keeps the evidence."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from fader.compare.spec import Makers
from fader.lab import bundle, inputs, recorder, report
from fader.lab.bundle import Bundle
from fader.lab.challenge import Bench, Claim, challenge, claim_of, dimensions_of
from fader.lab.counter import stored
from fader.lab.experiment import Experiment
from fader.lab.inputs import SCALES, Point, near, smaller, text, workload
from fader.lab.review import review
from fader.lab.search import Confirmed, Grade, Search, Tried
from fader.lab.seats import Here
from fader_backends.errors import BadValue
from fader_plugins.registry import Registry

Build = Callable[..., Experiment]
Record = Callable[..., Bundle]
EVERY = list(SCALES)


def search(truth: Callable[[Point], float], claimed: float, trials: int = 40, seed: int = 1) -> Search:
    """A search in a world where the ratio at a point is known; in full, it is a loss from 0.98 on and reversed above 1.02."""

    def full(point: Point) -> Confirmed:
        ratio = truth(point)
        grade: Grade = "reversed" if ratio > 1.02 else "gone" if ratio > 0.98 else ""
        return Confirmed(point, grade, "x")

    return Search(lambda point: Tried(point=point, ratio=truth(point)), full, claimed, EVERY, trials=trials, seed=seed)


@pytest.mark.parametrize("seed", range(8))
def test_a_loss_in_a_corner_is_found_and_made_small(seed: int) -> None:
    """Drafts that gain everywhere but on hot, unrepeated text: found, and the rest of the point is at its smallest."""

    def truth(point: Point) -> float:
        return 1.2 if point.temperature >= 0.8 and point.repetition <= 0.25 else 0.5

    outcome = search(truth, 0.5, seed=seed).run(Point())
    assert outcome.counter is not None
    found = outcome.counter.point
    assert outcome.counter.grade == "reversed"
    assert found.temperature >= 0.8
    assert found.prompt + found.output < Point().prompt + Point().output
    assert len(outcome.tried) <= 40


def test_a_slope_is_followed() -> None:
    """The longer the prompt and the reply, the worse: no point at random needs to hit the corner."""

    def truth(point: Point) -> float:
        steps = SCALES["prompt"].index(point.prompt) + SCALES["output"].index(point.output) + (point.script == "code")
        return 0.5 + 0.07 * steps

    outcome = search(truth, 0.5, trials=60, seed=3).run(Point())
    assert outcome.counter is not None
    assert outcome.counter.grade == "reversed"


def test_where_there_is_nothing_nothing_is_found() -> None:
    outcome = search(lambda point: 0.5 + 0.01 * (point.output == 8), 0.5).run(Point())
    assert outcome.counter is None
    assert outcome.checked == 0


def test_what_only_seemed_to_hurt_is_no_counter_example() -> None:
    made = search(lambda point: 0.5, 0.5)
    made.quick = lambda point: Tried(point=point, ratio=1.1)
    outcome = made.run(Point())
    assert (outcome.counter, outcome.checked) == (None, 3)


def test_a_claim_of_no_difference_is_overturned_by_one() -> None:
    outcome = search(lambda point: 1.3 if point.warm else 1.0, 1.0).run(Point())
    assert outcome.counter is not None
    assert outcome.counter.point.warm


def test_points_that_cannot_be_run_are_passed_over() -> None:
    made = search(lambda point: 0.5, 0.5)
    made.quick = lambda point: Tried(point=point, ratio=None, why="too long")
    assert made.run(Point()).counter is None


def test_texts_are_as_their_points_say() -> None:
    for script in inputs.WORDS:
        plain = text(Point(prompt=80, script=script), 1)
        assert plain == text(Point(prompt=80, script=script), 1) != text(Point(prompt=80, script=script), 2)
    words = text(Point(prompt=80, repetition=0.0), 1).split()[1:]
    again = text(Point(prompt=80, repetition=1.0), 1).split()[1:]
    assert len(words) == len(again) == 80
    assert again == again[:8] * 10
    assert words != words[:8] * 10
    load = workload(Point(beside=True, warm=True, temperature=0.8), 1, "x", ("sampler.on",))
    assert load.settings == {"sampler.temperature": 0.8}
    assert (load.case[0].again, bool(load.case[0].beside)) == (True, True)
    assert load.warm_up.turns[0] != load.case[0].turns[0]


def test_steps_are_steps() -> None:
    generator, point = random.Random(1), Point()
    for _ in range(50):
        other = near(point, generator, EVERY)
        assert sum(getattr(point, name) != getattr(other, name) for name in EVERY) <= 2
    for one in smaller(Point(script="code", warm=True), EVERY):
        assert one.size < Point(script="code", warm=True).size
    assert smaller(Point(prompt=4, output=8), EVERY) == []


@pytest.fixture
def bench(around: recorder.Surroundings, registry: Registry, makers: Makers) -> Callable[[Claim, Experiment], Bench]:
    work = msgspec.structs.replace(around, lab=around.lab / ".work")
    return lambda claim, wanted: Bench(claim, wanted, work, lambda _: Here(registry, work.clock), makers, 1)


@pytest.mark.slow
def test_a_counter_example_goes_into_the_bundle(
    build: Build, record: Record, bench: Callable[[Claim, Experiment], Bench]
) -> None:
    """On echo, drafts from the prompt gain on what is repeated word by word, and nothing on what a hot sampler makes of it."""
    slow = ["load.step_ms=2", "load.token_ms=0.5", "load.noise=1.5"]
    wanted = build("prompt_lookup=on", both=[*slow, "sampler.on=on", "sampler.temperature=0"], rounds=10, aa_rounds=4)
    made, _ = report.write(record(wanted))
    claim = claim_of(made)
    assert claim.ratio < 0.9
    sealed, found = challenge(made, bench(claim, wanted), 40, dimensions_of(claim, wanted))
    assert found.counter is not None, found.tried
    assert found.counter.grade in ("gone", "reversed")
    inner = bundle.load(sealed.folder / found.counter.folder)
    assert inner.manifest.workload.startswith("point-")
    assert [one.key for one in inner.manifest.variables] == ["prompt_lookup"]
    again = bundle.load(sealed.folder)
    assert stored(again.folder) == found
    assert f"{found.counter.folder}/events.jsonl.gz" in again.manifest.files
    assert report.differences(again) == []
    assert any("counter-example" in mark for mark in report.build(again).marks)
    assert not (made.folder.parent / ".work").exists()
    assert [one for one in review(again) if one.level == "objection"] == []


def test_what_claims_nothing_cannot_be_challenged(build: Build, record: Record) -> None:
    with pytest.raises(BadValue, match="claims nothing that could be overturned"):
        claim_of(record(build()))


def test_the_variable_itself_is_not_varied(build: Build) -> None:
    wanted = build("sampler.temperature=0.5", both=["sampler.on=on"])
    assert dimensions_of(Claim("ttft_ms", "warm", 0.5, "better"), wanted) == [
        "prompt", "output", "script", "repetition", "beside",
    ]  # fmt: skip
