"""Experiments on echo with engines in this process, timed by a clock that only they move."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fader.compare import spec
from fader.lab import experiment, recorder, workload
from fader.lab.bundle import Bundle
from fader.lab.evidence import Side
from fader.lab.experiment import Experiment
from fader.lab.seats import Here
from fader.paths import Paths
from fader.profiles import Profile
from fader.switchboard import Switchboard
from fader_backends import echo
from fader_plugins.registry import Registry

QUICK = Path(__file__).with_name("quick.toml")
CREATED = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def paths(home: Path) -> Paths:
    return Paths.from_environment({"FADER_HOME": str(home)})


class Clock:
    """Nanoseconds that pass only while echo pretends to work, by 2 % more or less, and a little at every look."""

    def __init__(self) -> None:
        self.now = 0
        self.chance = random.Random(1)

    def __call__(self) -> int:
        self.now += self.chance.randint(5_000, 15_000)
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += round(seconds * 1e9 * self.chance.uniform(0.98, 1.02))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of echo and of whoever takes this clock; what it measures does not depend on the machine."""
    made = Clock()
    monkeypatch.setattr(echo, "load", lambda model, context, _: echo.EchoBackend(model, context, made.wait))
    return made


@pytest.fixture
def around(paths: Paths, clock: Clock) -> recorder.Surroundings:
    return recorder.Surroundings(lab=paths.lab, hashes=paths.hashes, created=CREATED, clock=clock)


@pytest.fixture
def makers(registry: Registry) -> spec.Makers:
    return spec.Makers(lambda name: Profile(name=name, backend="echo", chunk=7), lambda profile: profile)


Build = Callable[..., Experiment]


@pytest.fixture
def build(board: Callable[..., Switchboard], paths: Paths, makers: spec.Makers) -> Build:
    """Make an experiment on echo: `build("prefix_cache=off", both=["sampler.seed=1"])`."""

    def make(*changes: str, name: str = str(QUICK), keys: dict[str, Any] | None = None, **more: Any) -> Experiment:
        return experiment.build(workload.load(name, paths), board(**(keys or {})), changes, makers, **more)

    return make


Record = Callable[..., Bundle]


@pytest.fixture
def record(around: recorder.Surroundings, registry: Registry) -> Record:
    """Run an experiment with engines in this process."""

    def run(wanted: Experiment, **more: Any) -> Bundle:
        def seat(_: Side) -> Here:
            return Here(registry, around.clock)

        return recorder.record(wanted, around, seat, **more)

    return run
