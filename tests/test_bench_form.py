"""The benchmarks' common form: all are listed, each is declared in full, and the last line of a run parses."""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.bench.catalogue import ALL, BENCHES
from tests.bench.harness import Bench, Missing, Options, Outcome, Result, alternate, missing, result

ROOT = Path(__file__).parents[1]
EXPECTED = {
    "decode-overhead": 1.03,
    "tui-decode-overhead": 1.10,
    "ui-cpu": 10.0,
    "prefill-overhead": 1.05,
    "prefix-turn2": 0.10,
    "prefix-restart": 0.08,
    "typeahead": 0.15,
    "radix-cost": 5.0,
    "first-frame": 1.4,
    "idle-cpu": 1.0,
    "one-shot": 0.6,
    "chain-cost": 0.5,
    "lookup-copy": 0.67,
    "lookup-prose": 1.03,
    "logprobs-cost": 1.08,
    "full-chain-cost": 1.5,
    "turn2-vs-llama-server": 1.0,
    "tpot-vs-llama-server": 1.0,
    "compare-4": 0.45,
    "compare-prefill": 0.02,
    "compare-step": 2.9,
    "compare-identity": 0.0,
    "compare-keypress": 50.0,
    "kv-bytes": 0.55,
    "torch-load-first": 10.0,
    "torch-load-later": 3.0,
    "torch-tpot": 0.95,
    "torch-prefill": 1.05,
    "torch-best-cpu": 0.5,
    "torch-prefix-turn2": 0.15,
    "torch-first-frame": 1.1,
    "gpu-compiled-tpot": 0.33,
    "gpu-bandwidth": 1.43,
    "lab-aa": 2.0,
    "lab-planted": 2.0,
    "lab-recording": 1.01,
    "lab-bundle-size": 2.0,
    "lab-verify": 2.0,
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / name) for name in ("app", "backends", "plugins", "profiles"))
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_every_bench_is_listed_with_its_bound() -> None:
    lines = bench("--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPECTED)
    assert {name: one.bound for name, one in BENCHES.items()} == EXPECTED


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_declaration_is_complete(one: Bench) -> None:
    module, _, function = one.place.partition(":")
    if module == "screen":
        pytest.importorskip("pty")
        pytest.importorskip("pyte")
    assert callable(getattr(importlib.import_module(f"tests.bench.{module}"), function))
    assert (one.bounded == "ratio") == bool(one.b)
    assert one.unit


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_the_result_follows_the_declaration(one: Bench) -> None:
    just = one.bound if one.bounded == "a" else one.bound * 2
    fine = result(one, Outcome([just] * 3, [2.0] * 3 if one.b else None, "m"))
    over = result(one, Outcome([just * 1.1 or 0.1] * 3, [2.0] * 3 if one.b else None, "m"))
    assert (fine.ok, over.ok, fine.n) == (True, False, 3)
    assert (fine.ratio is None) == (fine.b is None) == (not one.b)
    assert missing(one, "why") == Result(
        bench=one.name, a=None, b=None, ratio=None, bound=one.bound, ok=None, n=0, unit=one.unit, method="why"
    )


def test_runs_alternate_and_the_warm_up_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[str, int]] = []

    def measure(side: str, number: int) -> float:
        seen.append((side, number))
        return float(number)

    a, b, said = alternate(lambda number: measure("a", number), lambda number: measure("b", number), 3)
    assert seen[:4] == [("a", -1), ("b", -1), ("a", 0), ("b", 0)]
    assert a == b
    assert len(a) in (3, 6)
    assert min(a) >= 0
    assert "ABAB" in said
    assert capsys.readouterr().out == ""


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.bench import chain_cost, harness

    def refuse(options: Options) -> Outcome:
        raise Missing("There is no such thing.")

    monkeypatch.setattr(chain_cost, "chain_cost", refuse)
    card, found = harness.run(BENCHES["chain-cost"], Options())
    assert "There is no such thing." in card
    assert (found.ok, found.method) == (None, "There is no such thing.")


@pytest.mark.parametrize("name", ["gpu-compiled-tpot", "gpu-bandwidth"])
def test_without_a_gpu_it_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, and nothing is written to disk first."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.bench import harness

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    card, found = harness.run(BENCHES[name], Options())
    assert (found.ok, found.n) == (None, 0)
    assert "needs a CUDA device" in found.method
    assert "\n" not in card


def test_the_last_line_is_the_result() -> None:
    done = bench("chain-cost", "--quick")
    assert done.returncode in (0, 1), done.stderr
    found = msgspec.json.decode(done.stdout.splitlines()[-1], type=Result)
    assert found.bench == "chain-cost"
    assert found.a is not None
    assert math.isfinite(found.a)
    assert found.a > 0
    assert (found.b, found.ratio, found.bound, found.unit) == (None, None, 0.5, "ms")


def test_an_unknown_name_is_refused() -> None:
    done = bench("no-such-bench")
    assert done.returncode == 2
    assert "no-such-bench" in done.stderr
