"""A bundle's claim against inputs that may overturn it; what is found goes into the bundle as a bundle of its own.

Knows bundles, the runner and the search. A claim is the largest difference that the bundle can tell from noise in TTFT,
TPOT, ITL or E2E, or that there is none in TPOT.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec
from fader_backends.errors import BadValue, FaderError, StoreError

from ..compare.spec import Makers
from ..metrics import Stats
from . import bundle as bundles
from . import inputs, raw, recorder, report, statistics
from .bundle import Bundle
from .claims import claims
from .counter import FILE, FOLDER, Challenge, Counter
from .evidence import Condition, Side
from .experiment import Experiment, change
from .figures import BY_NAME, figures, find, samples, statistic
from .inputs import Point
from .raw import Measured
from .runner import SECOND, Runner, Unfit
from .search import Confirmed, Grade, Search, Tried
from .seats import Seat
from .taking import Taken

QUICK, FULL = 2, 9
"""Rounds a side of a trial, and of a measurement in full (which has as many of the baseline against itself)."""


class Claim(NamedTuple):
    """What is to be overturned."""

    metric: str
    condition: Literal["cold", "warm", ""]
    ratio: float
    verdict: str
    """better, worse or ~."""

    def told(self) -> str:
        """Return it in words."""
        name = BY_NAME[self.metric].label + (f" ({self.condition})" if self.condition else "")
        return f"{name} p50 × {self.ratio:.3g}: " + ("no difference" if self.verdict == "~" else self.verdict)


def claim_of(found: Bundle) -> Claim:
    """Return what the bundle claims. Raises BadValue where it claims nothing."""
    if not found.whole or not found.manifest.variables:
        raise BadValue(
            f"{found.manifest.id} claims nothing that could be overturned.", "", "Run it to its end, with --change."
        )
    said = figures(raw.read(found.folder))
    for one in claims(said):
        if one.compared.statistic == "p50":
            return Claim(one.figure.metric, one.figure.condition, one.compared.ratio, one.compared.verdict)
    figure = find(said, "tpot_ms") or find(said, "ttft_ms", "cold")
    compared = statistic(figure, "p50") if figure else None
    if figure is None or compared is None:
        raise BadValue(f"{found.manifest.id} has too few runs to claim anything.", "", "Run it with more rounds.")
    return Claim(figure.metric, figure.condition, compared.ratio, "~")


def dimensions_of(claim: Claim, wanted: Experiment) -> list[str]:
    """Return what may be varied: not what the claim itself names, and not the variable."""
    changed = {one.key for one in wanted.variables}
    left_out = {"warm"} if claim.condition else set()
    if any(key in ("sampler", "sampler.temperature") for key in changed):
        left_out.add("temperature")
    return [name for name in inputs.SCALES if name not in left_out]


class Bench:
    """Measures points for a claim, on engines that stay loaded between trials."""

    def __init__(
        self,
        claim: Claim,
        wanted: Experiment,
        around: recorder.Surroundings,
        seat: Callable[[Side], Seat],
        makers: Makers,
        seed: int,
        heard: Callable[[Tried, int], None] = lambda *_: None,
        checking: Callable[[Point], None] = lambda _: None,
    ) -> None:
        self.claim = claim
        self.wanted = wanted
        self.around = around
        self.seat = seat
        self.makers = makers
        self.seed = seed
        self.heard = heard
        self.checking = checking
        self.trials = 0
        self.quicks = 0
        self.stopped = False
        self.running: Runner | None = None
        self._seats: dict[Side, Seat] = {}

    def stop(self) -> None:
        """End soon; from a signal's handler."""
        self.stopped = True
        if self.running is not None:
            self.running.stop()

    def close(self) -> None:
        """End the engines."""
        while self._seats:
            self._seats.popitem()[1].close()

    def experiment(self, point: Point, rounds: int, aa_rounds: int) -> Experiment:
        """Return the bundle's experiment with the point as its workload."""
        self.trials += 1
        changed = {one.key for one in self.wanted.variables}
        load = inputs.workload(
            point,
            self.seed,
            f"point-{self.trials}",
            ("sampler.on", "sampler.temperature") if "sampler" in changed else tuple(changed),
        )
        boards = {side: board.copy() for side, board in self.wanted.boards.items()}
        for board in boards.values():
            for name, value in load.settings.items():
                change(board, name, str(value).lower() if isinstance(value, bool) else str(value), self.makers)
        return msgspec.structs.replace(
            self.wanted, workload=load, boards=boards, rounds=rounds, aa_rounds=aa_rounds, seed=self.seed, notes=()
        )

    def quick(self, point: Point) -> Tried:
        """Measure a point with a few runs, and tell whoever listens."""
        tried = self._tried(point)
        self.quicks += 1
        self.heard(tried, self.quicks)
        return tried

    def _tried(self, point: Point) -> Tried:
        runs: list[Measured] = []

        def took(taken: Taken) -> None:
            stats = Stats(request=taken.request)
            for event in taken.events:
                stats.fold(event)
            runs.append(Measured(taken.run, stats))

        self.running = Runner(self.experiment(point, QUICK, 0), self._lent, took)
        try:
            self.running.run()
        except Unfit as error:
            return Tried(point=point, ratio=None, why=error.title)
        except FaderError as error:
            self.close()  # an engine may have died of it
            return Tried(point=point, ratio=None, why=str(error))
        a, b = (self._values(point, runs, side) for side in ("a", "b"))
        found = statistics.ratio(a, b) if a and b else None
        return Tried(point=point, ratio=found.value if found else None, why="" if found else "no run ended whole")

    def _values(self, point: Point, runs: Sequence[Measured], side: Side) -> list[float]:
        chosen = _first(runs, "warm" if point.warm else "cold")
        return samples(BY_NAME[self.claim.metric], chosen, "ab", side).values

    def _lent(self, side: Side) -> Seat:
        if side not in self._seats:
            self._seats[side] = self.seat(side)
        return Lent(self._seats[side])

    def full(self, point: Point) -> Confirmed:
        """Measure a point as a bundle is measured, after saying so; it takes minutes. Return whether the claim stands there."""
        self.checking(point)
        self.close()

        def started(runner: Runner) -> None:
            self.running = runner

        made = recorder.record(
            self.experiment(point, FULL, FULL), self.around, self.seat, started=started, quality=False
        )
        if not made.whole:
            return Confirmed(point, "", made.manifest.id)
        made, _ = report.write(made)
        return Confirmed(point, self.grade(point, raw.read(made.folder)), made.manifest.id)

    def grade(self, point: Point, runs: Sequence[Measured]) -> Grade:
        """Return what of the claim is left where these runs were made."""
        condition: Condition = "warm" if point.warm else "cold"
        said = figures(_first(runs, condition))
        figure = find(said, self.claim.metric, condition if BY_NAME[self.claim.metric].by_condition else "")
        compared = statistic(figure, "p50") if figure else None
        if compared is None:
            return ""
        if self.claim.verdict == "~":
            return "reversed" if compared.verdict in ("better", "worse") else ""
        if compared.verdict in ("better", "worse"):
            return "reversed" if compared.verdict != self.claim.verdict else ""
        weaker = compared.low > self.claim.ratio if self.claim.ratio < 1 else compared.high < self.claim.ratio
        return "gone" if weaker else ""


def _first(runs: Sequence[Measured], condition: Condition) -> list[Measured]:
    """Return the counted runs of a point itself, without prompts that came beside it."""
    return [
        one for one in runs if one.run.counted and one.run.condition == condition and not one.run.case.endswith(SECOND)
    ]


class Lent:
    """A seat that outlives the runner it is lent to."""

    def __init__(self, seat: Seat) -> None:
        self.ask, self.submit, self.cancel, self.kill = seat.ask, seat.submit, seat.cancel, seat.kill

    def close(self) -> None:
        """Leave the engine running."""


def challenge(found: Bundle, bench: Bench, trials: int, dimensions: Sequence[str]) -> tuple[Bundle, Challenge]:
    """Search, write what was found into the bundle, seal it anew; return both. Raises FaderError.

    `bench.around.lab` is a folder for the work, which is gone afterwards.
    """
    search = Search(
        bench.quick,
        bench.full,
        bench.claim.ratio,
        dimensions,
        trials=trials,
        seed=bench.seed,
        stopped=lambda: bench.stopped,
    )
    try:
        outcome = search.run(Point(warm=bench.claim.condition == "warm"))
        counter = _kept(found, bench, outcome.counter) if outcome.counter is not None else None
    finally:
        bench.close()
        shutil.rmtree(bench.around.lab, ignore_errors=True)  # what was measured in full and is no counter-example
    said = Challenge(
        claim=bench.claim.told(),
        dimensions=tuple(dimensions),
        seed=bench.seed,
        tried=tuple(outcome.tried),
        checked=outcome.checked,
        counter=counter,
        stopped=bench.stopped,
    )
    bundles.write(found.folder / FILE, msgspec.json.format(msgspec.json.encode(said), indent=1) + b"\n")
    sealed, _ = report.write(bundles.seal(found, found.manifest))
    return sealed, said


def _kept(found: Bundle, bench: Bench, counter: Confirmed) -> Counter:
    """Move the evidence of a counter-example into the bundle."""
    source, target = bench.around.lab / counter.name, found.folder / FOLDER / counter.name
    try:
        target.parent.mkdir(exist_ok=True)
        shutil.move(source, target)
    except OSError as error:
        raise StoreError(
            f"Cannot write {target}: {error.strerror or error}.", "", "Make room, or check the folder."
        ) from error
    conclusion = report.build(bundles.load(target)).conclusion
    return Counter(
        point=counter.point,
        grade=counter.grade,
        said=f"With {counter.point.told()}: {conclusion}",
        folder=f"{FOLDER}/{counter.name}",
    )
