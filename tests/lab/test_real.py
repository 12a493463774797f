"""The lab on the embedded model: KL of quantised keys, the model's name and hash, what threads are called."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from fader import models
from fader.compare.spec import Makers
from fader.lab import experiment, raw, recorder, report, workload
from fader.lab.evidence import Side
from fader.lab.seats import Here
from fader.paths import Paths
from fader.profiles import load
from fader.switchboard import Switchboard
from fader_plugins.registry import Registry

MODEL = models.embedded()


@pytest.mark.slow
@pytest.mark.skipif(MODEL is None, reason="needs the embedded model")
def test_smaller_keys_are_weighed_against_words(
    registry: Registry, paths: Paths, around: recorder.Surroundings
) -> None:
    profile = msgspec.structs.replace(load("default", paths), model=str(MODEL))
    board = Switchboard(registry, profile)
    quick = workload.load(str(Path(__file__).with_name("quick.toml")), paths)
    quick = msgspec.structs.replace(quick, case=quick.case[:1], output=4)
    # one thread: several that wait awake would hold each other up beside other tests
    both = ["context.length=512", "context.rows=1", "context.threads=1", "context.options.flash_attention=on"]
    makers = Makers(lambda name: load(name, paths), lambda one: one)
    wanted = experiment.build(quick, board, ["kv_cache.type_k=q8_0"], makers, both=both, rounds=1)
    assert [one.key for one in wanted.variables] == ["kv_cache.type_k"]
    around = msgspec.structs.replace(
        around, clock=time.perf_counter_ns, gates=("kl <= 0.05", "kv_peak <= 0.9 x baseline")
    )

    def seat(_: Side) -> Here:
        return Here(registry)

    made, found = report.write(recorder.record(wanted, around, seat))
    assert MODEL is not None
    assert made.manifest.acts == "context"
    assert made.manifest.model.quantisation
    assert made.manifest.model.sha256 == models.sha256(MODEL, paths.hashes)
    assert made.manifest.model.file == MODEL.name
    kl = raw.read_kl(made.folder)
    assert kl is not None
    assert len(kl.kl) == len(kl.floor) == len(kl.same_best) > 300
    assert 0 < sum(kl.kl) / len(kl.kl) < 0.05
    costs = {one.name: one for one in found.costs}
    buffers = costs["KV buffers"]
    assert buffers.a is not None
    assert buffers.b is not None
    assert buffers.b / buffers.a == pytest.approx((1 + 8.5 / 16) / 2, abs=0.01)
    assert [gate.holds for gate in found.gates] == [True, True]
    assert report.differences(made) == []
