"""The lab measured: does it call differences that are none, does it find those that are there, and what does it cost."""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from fader.compare.spec import Makers
from fader.lab import bundle, experiment, recorder, report, words, workload
from fader.lab.bundle import Bundle
from fader.lab.claims import claims as claims_of
from fader.lab.evidence import Side
from fader.lab.experiment import Experiment
from fader.lab.raw import Writer
from fader.lab.seats import Here
from fader.lab.taking import Step, Taking
from fader.lab.workload import Workload
from fader.metrics import Stats
from fader.paths import Paths
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import Registry, build
from fader_plugins.turn import AnyEvent, GenerationRequest

from tests.bench.harness import Options, Outcome, alternate
from tests.bench.sides import CONTEXT, LENGTH, NOW, SAMPLER, THREADS, model

SLOWER = 0.10
AA_ROUNDS, PLANTED_ROUNDS, SELF_ROUNDS = 10, 16, 4
"""Of the comparisons, and of the baseline against itself before them."""
AA_TOKENS, PLANTED_TOKENS = 8, 16
DECODE = ("tpot_ms", "itl_ms")
TURNS, TOKENS = 100, 128
ASK = [Message("user", "Tell me a long story about a lighthouse keeper who finds a map.")]
SLOW = '''\
"""Waits awake before each step for a share of the time since the last one, so that decoding is slower by that share."""

import time

from fader_plugins import PluginInfo, Settings, hookimpl


class Slow(Settings, frozen=True, kw_only=True):
    """How much."""

    share: float = 0.0


info = PluginInfo(name="slow", summary="Waits before each step", settings=Slow)
ends = {}


@hookimpl
def propose_tokens(request, history, limit):
    now = time.perf_counter_ns()
    until = now + (now - ends.pop(request.id, now)) * request.settings("slow", Slow).share
    while time.perf_counter_ns() < until:
        pass
    ends.clear()
    ends[request.id] = time.perf_counter_ns()
    return None
'''


class Lab:
    """Experiments with engines in this process, each into a folder that is gone afterwards."""

    def __init__(self, folder: Path, registry: Registry, profile: Profile) -> None:
        self.folder = folder
        self.registry = registry
        self.board = Switchboard(registry, profile)
        self.paths = Paths(config=folder, data=folder, state=folder, cache=folder)
        self.makers = Makers(lambda _: profile, lambda one: one)
        self.count = 0

    def run(self, wanted: Experiment) -> Bundle:
        """Run an experiment into a bundle with its report."""
        self.count += 1
        around = recorder.Surroundings(
            lab=self.folder / f"lab-{self.count}",
            hashes=self.folder / "hashes.json",
            created=datetime(2026, 1, 1, tzinfo=UTC),
        )
        made = recorder.record(wanted, around, lambda _: Here(self.registry), quality=False)
        return report.write(made)[0]

    def experiment(self, load: Workload, change: str, rounds: int) -> Experiment:
        """Return the baseline and one change on a workload."""
        return experiment.build(load, self.board, [change], self.makers, rounds=rounds, aa_rounds=SELF_ROUNDS)

    def same(self, load: Workload, rounds: int, seed: int) -> Experiment:
        """Return an experiment whose sides differ in nothing, though it believes they do."""
        wanted = self.experiment(load, "chunk=128", rounds)
        boards: dict[Side, Switchboard] = {"a": wanted.boards["a"], "b": wanted.boards["a"]}
        return msgspec.structs.replace(wanted, boards=boards, seed=seed)


@contextmanager
def real(plugins: str = "") -> Iterator[Lab]:
    """Give a lab on the embedded model; `plugins` is the text of one more plugin."""
    with tempfile.TemporaryDirectory(prefix="fader-bench-", ignore_cleanup_errors=True) as folder:
        place = Path(folder) / "plugins"
        place.mkdir()
        if plugins:
            (place / "slow.py").write_text(plugins, "utf-8")
        tables: dict[str, dict[str, Any]] = {"sampler": {**SAMPLER}, "prefix_cache": {"disk_mib": 0}}
        if plugins:
            tables["slow"] = {"on": True}
        context = msgspec.convert(CONTEXT, ContextTable)
        profile = Profile(name="bench", backend="llama.cpp", model=model(), context=context, plugins=tables)
        yield Lab(Path(folder), build(place), profile)


def short(name: str, lab: Lab, output: int) -> Workload:
    """Return a shipped workload with shorter replies."""
    return msgspec.structs.replace(workload.load(name, lab.paths), output=output)


def lab_aa(options: Options) -> Outcome:
    """Count the runs of the baseline against itself that are called different."""
    runs, wrong, said = options.pairs(40, 6), 0, []
    with real() as lab:
        load = short("chat", lab, AA_TOKENS)
        for number in range(runs):
            found = report.build(lab.run(lab.same(load, AA_ROUNDS, number * 100)))
            claims = claims_of(found.figures)
            wrong += bool(claims)
            said += [f"run {number}: {words.told(claim)}" for claim in claims]
            print(f"run {number + 1} of {runs}: {len(claims)} claims", file=sys.stderr, flush=True)
    return Outcome(
        [float(wrong)],
        None,
        f"runs of `chat` whose sides differ in nothing and that claim a difference in TTFT, TPOT, ITL or E2E, of {runs}; "
        f"{AA_ROUNDS} rounds, {AA_TOKENS} tokens, {THREADS} threads",
        said,
    )


def lab_planted(options: Options) -> Outcome:
    """Count the runs in which a decode that is slower by a tenth is not found."""
    runs, missed, found_ratios = options.pairs(20, 3), 0, []
    with real(SLOW) as lab:
        load = short("chat", lab, PLANTED_TOKENS)
        for number in range(runs):
            wanted = msgspec.structs.replace(
                lab.experiment(load, f"slow.share={SLOWER}", PLANTED_ROUNDS), seed=number * 100
            )
            figures = report.build(lab.run(wanted)).figures
            claims = [one for one in claims_of(figures) if one.figure.metric in DECODE and not one.better]
            missed += not claims
            found_ratios += [one.compared.ratio for one in claims[:1]]
            print(
                f"run {number + 1} of {runs}: {'found' if claims else 'missed'}",
                *map(words.told, claims[:1]),
                file=sys.stderr,
                flush=True,
            )
    ratio = f"{statistics.median(found_ratios):.3f}" if found_ratios else "none"
    return Outcome(
        [float(missed)],
        None,
        f"runs of `chat` in which a plugin waits awake for a tenth of each step's time and no slower decoding (TPOT or ITL) is "
        f"claimed, of {runs}; {PLANTED_ROUNDS} rounds, {PLANTED_TOKENS} tokens, {THREADS} threads; ratio of those found: {ratio} "
        "(median)",
    )


def lab_recording(options: Options) -> Outcome:
    """Compare TPOT with every event kept and written with TPOT without."""
    case = workload.Case(name="story", turns=[ASK[0].content])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, real() as lab:
        writer, seat, count = Writer(Path(folder)), Here(lab.registry), itertools.count()
        lab.board.switch("prefix_cache", False)

        def request(number: int) -> GenerationRequest:
            lab.board.set("sampler", "seed", number + 10)
            draft = lab.board.plan("bench", ASK, NOW)
            draft.max_tokens, draft.ignore_end = TOKENS, True
            return draft.freeze(f"run-{next(count)}", time.perf_counter_ns())

        def plain(number: int) -> float:
            stats = Stats(request=request(number))

            def take(event: AnyEvent) -> None:
                stats.fold(event)

            seat.ask(stats.request, take, lambda: True)
            return stats.numbers().tpot_ms or 0.0

        def recorded(number: int) -> float:
            taking = Taking(number, request(number))
            stats = Stats(request=taking.request)

            def take(event: AnyEvent) -> None:
                taking.take(event)
                stats.fold(event)

            seat.ask(taking.request, take, lambda: True)
            run = taking.run(Step("ab", number, case, "a"), case.name, 0, "cold", "ok", number, 0.0, None)
            writer.begin(run.index, taking.request)
            for event in taking.events:
                writer.event(event)
            writer.end(run, taking.output())
            return stats.numbers().tpot_ms or 0.0

        a, b, said = alternate(recorded, plain, options.pairs(15, 2))
        writer.close()
        seat.close()
    method = f"TPOT over {TOKENS} tokens, same seed on both sides, {THREADS} threads, context {LENGTH}; {said}"
    return Outcome(a, b, method)


@contextmanager
def hundred() -> Iterator[Bundle]:
    """Give a bundle of 100 turns of 128 tokens, made on echo with scores that surprise as a model's do."""
    with tempfile.TemporaryDirectory(prefix="fader-bench-", ignore_cleanup_errors=True) as folder:
        plugins = {"sampler": {"base": "neutral", "temperature": 1.0}, "prefix_cache": {"disk_mib": 0}}
        profile = msgspec.convert(
            {"name": "bench", "backend": "echo", "plugins": plugins, "load": {"noise": 1.5}}, Profile
        )
        lab = Lab(Path(folder), build(None), profile)
        load = msgspec.structs.replace(workload.load("prose", lab.paths), output=TOKENS, settings={})
        yield lab.run(lab.experiment(load, "chunk=128", TURNS // 4))


def lab_bundle_size(options: Options) -> Outcome:
    """Weigh a bundle of 100 turns."""
    with hundred() as made:
        sizes = {path.name: path.stat().st_size for path in made.folder.rglob("*") if path.is_file()}
    parts = ", ".join(
        f"{name} {size / 1000:,.0f} kB" for name, size in sorted(sizes.items(), key=lambda one: -one[1])[:4]
    )
    return Outcome(
        [sum(sizes.values()) / 1e6],
        None,
        f"all files of a bundle of {TURNS} turns of {TOKENS} tokens on echo, both sides and phases, report and page included",
        [parts],
    )


def lab_verify(options: Options) -> Outcome:
    """Time the check of every printed number of that bundle."""
    took = []
    with hundred() as made:
        for _ in range(options.pairs(5, 2)):
            begin = time.perf_counter()
            wrong = report.differences(bundle.load(made.folder))
            took.append(time.perf_counter() - begin)
            assert wrong == []
    return Outcome(
        took,
        None,
        f"hashes, fold of all events, all figures with their intervals and tests, both pages, of {TURNS} turns",
    )
