"""Each trick is planted in a sound record, and named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from fader.cli import main
from fader.lab import bundle, raw
from fader.lab.bundle import Bundle
from fader.lab.evidence import Hardware, ModelNote, Output, Run, Variable
from fader.lab.experiment import Experiment
from fader.lab.finding import Record as Reading
from fader.lab.method import order
from fader.lab.raw import Line
from fader.lab.review import review
from fader.lab.tricks import acceptance
from fader.switchboard import Switchboard
from fader_plugins.turn import Loaded, PluginState, Restored, Token

from tests.lab.made import manifest, measured

Build = Callable[..., Experiment]
Record = Callable[..., Bundle]
Change = Callable[[Any], Any]


def planted(
    sound: Bundle,
    *,
    run: Change = lambda one: one,
    line: Change = lambda one: one,
    output: Change = lambda one: one,
    **manifest: Any,
) -> Bundle:
    """Write the record again with each value changed (None: left out), and seal it: the hashes are those of a forger."""
    folder = sound.folder
    record: dict[str, list[Any]] = {
        raw.RUNS: [run(one) for one in raw.lines(folder / raw.RUNS, Run)],
        raw.EVENTS: [line(one) for one in raw.lines(folder / raw.EVENTS, Line)],
        raw.OUTPUTS: [output(one) for one in raw.lines(folder / raw.OUTPUTS, Output)],
    }
    import gzip

    for name, values in record.items():
        data = b"".join(msgspec.json.encode(one) + b"\n" for one in values if one is not None)
        (folder / name).write_bytes(gzip.compress(data))
    return bundle.seal(sound, msgspec.structs.replace(sound.manifest, **manifest))


def said(found: Bundle) -> list[str]:
    return [f"{one.level} {one.about}: {one.said}" for one in review(found)]


@pytest.fixture
def sound(build: Build, record: Record) -> Bundle:
    return record(build("prefix_cache.min_tokens=8", rounds=8, aa_rounds=1))


def replaced(value: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(value, **changes)


def event(kind: type, change: Callable[[Any, Line], Any]) -> Change:
    """Change events of one kind."""
    return lambda line: replaced(line, event=change(line.event, line)) if isinstance(line.event, kind) else line


def request(change: Callable[[Any, Line], Any]) -> Change:
    return lambda line: replaced(line, request=change(line.request, line)) if line.request is not None else line


def odd(line: Line) -> bool:
    """Runs of side b: the sides take turns by conversation, so their requests say so themselves."""
    return "-b-" in line.request.owner if line.request is not None else False


def test_a_sound_record_gets_no_objection(sound: Bundle) -> None:
    assert said(planted(sound)) == []
    done = CliRunner().invoke(main, ["review", "last"])
    assert done.exit_code == 0
    assert done.stdout.endswith("suspicions checked against the raw record: no objections, no doubts.\n")


def side_b(run: Run) -> bool:
    return run.phase == "ab" and run.side == "b"


PLANTED: list[tuple[str, dict[str, Any], str]] = [
    (
        "no a",
        {"run": lambda one: None if one.phase == "ab" and one.side == "a" else one},
        "objection baseline: only side b was run",
    ),
    (
        "no aa",
        {"run": lambda one: None if one.phase == "aa" else one},
        "doubt baseline: the baseline was not run against itself",
    ),
    (
        "two",
        {"variables": (Variable(key="x", before=1, after=2), Variable(key="y", before=1, after=2))},
        "objection variables: 2 settings",
    ),
    (
        "hidden",
        {"line": request(lambda one, line: replaced(one, chunk=9) if odd(line) else one)},
        "objection variables: chunk differs too (256 → 9), and the manifest does not say so",
    ),
    (
        "switch",
        {
            "line": request(
                lambda one, line: (
                    replaced(one, plugins={**one.plugins, "typeahead": PluginState(False, {})}) if odd(line) else one
                )
            )
        },
        "objection variables: typeahead differs too (on → off)",
    ),
    ("few", {"run": lambda one: None if one.round > 0 else one}, "objection samples: 4 and 4 counted runs"),
    (
        "failed",
        {"run": lambda one: replaced(one, state="failed") if side_b(one) and one.round == 1 else one},
        "objection failures: 4 runs of side b did not end as they were to",
    ),
    (
        "warm",
        {"line": event(Restored, lambda one, line: replaced(one, reused=500))},
        "objection cold prompts: 16 runs of side a are called cold, but up to 500 tokens of their prompts were known",
    ),
    (
        "warm-up",
        {
            "run": lambda one: (
                replaced(one, phase="warm-up")
                if (one.phase, one.side, one.round, one.case, one.turn) == ("aa", "a", 0, "talk", 0)
                else one
            )
        },
        "objection warm-up: the warm-up asked the very prompt of 'talk'",
    ),
    (
        "ends",
        {"line": request(lambda one, line: replaced(one, ignore_end=False))},
        "objection length: 64 runs could end before",
    ),
    (
        "short",
        {
            "line": lambda line: (
                None
                if isinstance(line.event, Token) and line.event.index == 7 and line.run > 40 and line.run % 4 < 2
                else line
            )
        },
        "objection length:",
    ),
    (
        "acceptance",
        {"line": event(Token, lambda one, line: replaced(one, drafted=True))},
        "objection acceptance: run ",
    ),
    (
        "models",
        {
            "line": event(
                Loaded,
                lambda one, line: replaced(one, facts=replaced(one.facts, model="other" if line.run % 2 else "echo")),
            )
        },
        "objection model: the runs were of 2 models: echo, other",
    ),
    (
        "named",
        {"model": ModelNote(name="huge", backend="echo")},
        "objection model: the manifest says huge, the runs say echo",
    ),
    ("hash", {"model": ModelNote(name="echo", backend="llama.cpp")}, "doubt model: its hash is not recorded"),
    (
        "seed",
        {"run": lambda one: replaced(one, seed=99) if side_b(one) else one},
        "objection order: the sides were asked other things in 32 pairs",
    ),
    (
        "words",
        {"output": lambda one: replaced(one, ids=(1, 2))},
        "objection outputs: the words kept for run 0 are not those its events brought",
    ),
    (
        "clock",
        {"line": event(Token, lambda one, line: replaced(one, at_ns=one.at_ns - 10**12) if one.index == 5 else one)},
        "objection clock: times run backwards in ",
    ),
    (
        "busy",
        {"run": lambda one: replaced(one, load_average=9.0), "hardware": Hardware(threads=2)},
        "doubt machine: other programs ran beside 64 runs (load up to 9.0 on 2 processors)",
    ),
    (
        "partial",
        {"state": "partial", "stopped": "the disk was full"},
        "objection completeness: it is partial: the disk was full",
    ),
]


def test_sides_that_did_not_take_turns(board: Callable[..., Switchboard]) -> None:
    runs = [measured(board(), place, side="ab"[place // 3], round=place % 3) for place in range(6)]
    note = manifest(variables=(Variable(key="x", before=1, after=2),))
    assert [one.about for one in order(Reading(note, runs, {}))] == ["order"]
    turns = [measured(board(), place, side="ab"[place % 2], round=place // 2) for place in range(6)]
    assert list(order(Reading(note, turns, {}))) == []


@pytest.mark.parametrize(("plant", "expected"), [case[1:] for case in PLANTED], ids=[case[0] for case in PLANTED])
def test_what_was_planted_is_found(sound: Bundle, plant: dict[str, Any], expected: str) -> None:
    found = said(planted(sound, **plant))
    assert any(line.startswith(expected) for line in found), found


def test_looping_replies_make_no_acceptance(board: Callable[..., Switchboard]) -> None:
    """Half of the tokens were drafted and kept, of a reply that says one thing over and over."""
    run = measured(board(), 0)
    run.stats.ids, run.stats.drafted, run.stats.proposed, run.stats.steps = [7] * 9, 4, 8, 5
    found = list(acceptance(Reading(manifest(), [run], {})))
    assert [one.said for one in found] == ["1 of 1 replies with drafts go in circles, which any draft can guess"]
    run.stats.ids = list(range(9))
    assert list(acceptance(Reading(manifest(), [run], {}))) == []


def test_a_changed_report_is_an_objection(sound: Bundle) -> None:
    from fader.lab import report

    made, found = report.write(sound)
    changed = msgspec.structs.replace(found, conclusion="Everything is ten times as fast.")
    (made.folder / "report.json").write_bytes(report.encode(changed))
    again = bundle.seal(made, made.manifest)
    assert said(again) == [
        "objection report: the stored report says other than the raw record does; see: fader lab verify"
    ]
    done = CliRunner().invoke(main, ["review", str(Path(made.folder)), "--json"])
    assert done.exit_code == 1
    assert '"level":"objection","about":"report"' in done.stdout
