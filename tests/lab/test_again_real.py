"""On the embedded model: a bundle alone is run again with the same words, and a rollback is proved."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest
from fader import models
from fader.compare.spec import Makers
from fader.lab import bundle, experiment, recorder, replay, restore, workload
from fader.lab.evidence import Side, Variable
from fader.lab.proof import prove
from fader.lab.seats import Here
from fader.paths import Paths
from fader.profiles import load
from fader.switchboard import Switchboard
from fader_plugins.registry import Registry

MODEL = models.embedded()


@pytest.mark.slow
@pytest.mark.skipif(MODEL is None, reason="needs the embedded model")
def test_a_bundle_alone_gives_the_same_words(registry: Registry, paths: Paths, around: recorder.Surroundings) -> None:
    """In exact mode, from the zip's contents, with the model found by its hash."""
    profile = msgspec.structs.replace(load("exact", paths), model=str(MODEL))
    quick = workload.load(str(Path(__file__).with_name("quick.toml")), paths)
    quick = msgspec.structs.replace(quick, case=quick.case[:1], output=4)
    makers = Makers(lambda name: load(name, paths), lambda one: one)
    both = ["context.length=512", "context.rows=2"]
    wanted = experiment.build(quick, Switchboard(registry, profile), ["prefix_cache=off"], makers, both=both, rounds=1)

    def seat(_: Side) -> Here:
        return Here(registry)

    around = msgspec.structs.replace(around, clock=time.perf_counter_ns)
    then = recorder.record(wanted, around, seat)
    opened = bundle.load(then.folder)
    locate = restore.locator(opened.manifest.model, None, paths, os.environ, Path.home())
    again = restore.experiment_of(opened, registry, locate)
    assert again.boards["a"].profile.model == str(MODEL)
    found = replay.compare(opened, recorder.record(again, around, seat))
    words = [(row.name, row.outcome) for row in found.rows if row.kind == "replies"]
    assert words == [("replies of talk, side a", "same"), ("replies of talk, side b", "same")]
    assert not [line for line in found.environment if line.startswith("model")]
    assert prove(again.boards["a"], [Variable(key="prefix_cache", before=True, after=False)]).output_tokens == 8
