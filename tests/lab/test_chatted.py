"""A bundle out of two turns of a chat: what goes in, what stays out, and what the lab's commands make of it."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from fader import kept
from fader.cli import main
from fader.kept import Kept
from fader.lab import bundle, chatted, report
from fader.lab.bundle import Bundle
from fader.lab.recorder import Surroundings
from fader.lab.review import review
from fader.switchboard import Switchboard
from fader_backends.base import ContextSpec, Message, ModelFacts
from fader_backends.errors import BadValue, FaderError
from fader_backends.odds import Odds
from fader_plugins.registry import Registry
from fader_plugins.turn import AnyEvent, Difference, Drafted, Finished, Loaded, Restored, Token

from tests.lab.made import asked, events

Boards = Callable[..., Switchboard]
SECRET = "xylophone"
TOLD = [Message("user", f"My {SECRET}?"), Message("assistant", f"A {SECRET}."), Message("user", f"Which {SECRET}?")]


def turn(board: Switchboard, text: str = SECRET, name: str = "run-0", reused: int = 0, gap: float = 20.0) -> Kept:
    """One turn with words in every place that has room for some."""
    request = msgspec.structs.replace(asked(board, text, name), owner="somebody")
    made: list[AnyEvent] = []
    facts = ModelFacts(backend="echo", model="echo", path="/home/somebody/echo.gguf")
    for event in events(request, 100, reused, 50 - reused / 4, [gap] * 40):
        match event:
            case Token():
                odds = Odds(-1.625, 1.0, 1, b"", b"", b"", b"")
                event = msgspec.structs.replace(
                    event, text=SECRET, token=424242424242, odds=odds, pieces={424242424242: SECRET.encode()}
                )
            case Restored():
                event = msgspec.structs.replace(event, note=SECRET, difference=Difference(3, SECRET, SECRET))
            case Finished():
                event = msgspec.structs.replace(event, text=SECRET, ids=(424242424242,) * 41)
        made.append(event)
    at = made[0].at_ns
    made.insert(1, Loaded(request_id=name, at_ns=at, facts=facts, context=ContextSpec(length=2048), load_ms=0.0))
    made.insert(
        4, Drafted(request_id=name, at_ns=at, step=0, proposed=0, kept=0, draft_ns=1, verify_ns=1, notes={"x": SECRET})
    )
    return kept.of(request, board.to_profile("test"), made)


@pytest.fixture
def two(board: Boards) -> list[Kept]:
    """The latest first: the same question with the prefix cache on and, before that, off."""
    drafts = {"draft_model": {"on": False, "model": "/home/somebody/a.gguf"}}
    off = board(system=f"You are a {SECRET}.", plugins={**drafts, "prefix_cache": {"on": False}})
    on = board(system=f"You are a {SECRET}.", plugins=drafts)
    return [turn(on, name="run-1", reused=80, gap=10.0), turn(off)]


Make = Callable[..., Bundle]


@pytest.fixture
def make(around: Surroundings, registry: Registry) -> Make:
    def made(turns: Sequence[Kept], told: Sequence[Message] | None = None) -> Bundle:
        return report.write(chatted.make(chatted.pair(turns, registry), around, registry, told))[0]

    return made


def contents(made: Bundle) -> dict[str, bytes]:
    return {
        path.name: gzip.decompress(data) if path.suffix == ".gz" else data
        for path in made.folder.rglob("*")
        if path.is_file() and (data := path.read_bytes()) is not None
    }


def fader(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


# --- which turns -------------------------------------------------------------------------------------------------------


def test_the_latest_earlier_turn_with_one_difference_is_the_baseline(board: Boards, registry: Registry) -> None:
    off = board(plugins={"prefix_cache": {"on": False}})
    turns = [turn(board(), name=name) for name in ("run-3", "run-2")] + [turn(off, name="run-1"), turn(off)]
    found = chatted.pair(turns, registry)
    assert [one.request.id for one in (*found.a, *found.b)] == ["run-1", "run-3"]


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        (lambda a, b: [], "No whole turn of this conversation is recorded."),
        (lambda a, b: [turn(a)], "No earlier recorded turn asked the same"),
        (lambda a, b: [turn(a), turn(b, "something else")], "No earlier recorded turn asked the same"),
        (lambda a, b: [turn(a), turn(a)], "No setting differs"),
        (lambda a, b: [turn(a), turn(b)], "More than one setting differs.*prefix_cache.*timing"),
    ],
    ids=["none", "one", "another question", "no switch", "two switches"],
)
def test_what_does_not_compare_says_why_and_what_to_do(
    board: Boards, registry: Registry, turns: Callable[..., list[Kept]], said: str
) -> None:
    other = board(plugins={"prefix_cache": {"on": False}, "timing": {"on": False}})
    with pytest.raises(chatted.NoPair, match=said) as caught:
        chatted.pair(turns(board(), other), registry)
    assert caught.value.failure.next_step


def test_a_limit_on_the_reply_is_a_difference_too(board: Boards, registry: Registry) -> None:
    found = chatted.pair([turn(board(max_tokens=7)), turn(board())], registry)
    assert [one.profile.max_tokens for one in (*found.a, *found.b)] == [None, 7]


def test_stopped_turns_are_passed_over(board: Boards, registry: Registry) -> None:
    stopped = turn(board(), name="run-2")
    end = msgspec.structs.replace(stopped.events[-1], reason="cancelled")
    stopped = msgspec.structs.replace(stopped, events=(*stopped.events[:-1], end))
    off = turn(board(plugins={"prefix_cache": {"on": False}}))
    with pytest.raises(chatted.NoPair, match="No earlier"):
        chatted.pair([stopped, off], registry)


# --- what goes in ------------------------------------------------------------------------------------------------------


def test_no_word_goes_in_unless_asked(two: list[Kept], make: Make) -> None:
    found = contents(make(two))
    assert {name for name, data in found.items() if SECRET.encode() in data} == set()
    for trace in (b"somebody", b"424242424242", b"-1.625"):
        assert {name for name, data in found.items() if trace in data} == set(), trace


def test_times_and_counts_are_those_of_the_turns(two: list[Kept], make: Make) -> None:
    made = make(two)
    built = report.build(made)
    for metric in ("tpot_ms", "itl_ms"):
        figure = next(one for one in built.figures if one.metric == metric and not one.case)
        assert figure.a is not None
        assert figure.b is not None
        assert (round(figure.a.p50, 6), round(figure.b.p50, 6)) == (20, 10)
    ttfts = [one for one in built.figures if one.metric == "ttfv_ms" and not one.case]
    assert ttfts, "the first visible character is still known"
    assert made.manifest.model.name == "echo"
    assert made.manifest.files["events.jsonl.gz"]


def test_with_text_the_words_are_there(two: list[Kept], make: Make) -> None:
    found = contents(make(two, TOLD))
    for name in ("events.jsonl.gz", "outputs.jsonl.gz", "workload.toml", "a.toml"):
        assert SECRET.encode() in found[name], name
    assert {name for name, data in found.items() if b"somebody" in data} == set()


def test_a_system_prompt_that_differs_does_not_slip_in(board: Boards, make: Make) -> None:
    with pytest.raises(chatted.NoPair, match="system prompt"):
        make([turn(board(system="one")), turn(board(system="two"))])


def test_a_setting_that_is_a_path_keeps_its_last_name(board: Boards, make: Make) -> None:
    one, other = (board(plugins={"draft_model": {"on": True, "model": f"/home/somebody/{name}.gguf"}}) for name in "ab")
    made = make([turn(other, name="run-1"), turn(one)])
    assert made.manifest.what == "from-chat: draft_model.model a.gguf → b.gguf"
    assert {name for name, data in contents(made).items() if b"somebody" in data} == set()


def test_cold_is_only_what_nothing_was_reused_of(board: Boards, registry: Registry) -> None:
    off = board(plugins={"prompt_lookup": {"on": True}})
    for reused, condition in ((0, "cold"), (60, "warm")):
        found = chatted.pair([turn(board(), name="run-1", reused=80), turn(off, reused=reused)], registry)
        assert found.conditions == (condition, "warm")
        assert bool(found.notes) == (condition == "cold")


# --- what the lab makes of it ------------------------------------------------------------------------------------------


def test_the_report_claims_nothing(two: list[Kept], make: Make) -> None:
    built = report.build(make(two))
    assert not built.reportable
    assert built.conclusion.startswith("No conclusion: prefix_cache off → on in one turn of a chat on each side.")
    assert (built.findings, built.phase_answer, built.same) == ((), (), None)
    assert not any(one.compared for one in built.figures), "40 gaps of half the length, and yet two turns tell nothing"
    assert any("From a chat" in mark for mark in built.marks)
    assert not any("fixed length" in line for line in built.method)


def test_show_and_verify_work_and_replay_says_why_not(two: list[Kept], make: Make) -> None:
    name = make(two).manifest.id
    shown = fader("lab", "show", name)
    assert shown.exit_code == 0, shown.output
    assert "No conclusion" in shown.output
    checked = fader("replay", name, "--verify")
    assert checked.exit_code == 0, checked.output
    assert "follow from the raw events" in checked.output
    run = fader("replay", name)
    assert run.exit_code == 2
    assert "its prompts were left out" in run.output
    assert "/bundle with text" in run.output


def test_it_can_be_run_again_where_its_words_are_in_it(two: list[Kept], make: Make) -> None:
    run = fader("replay", make(two, TOLD).manifest.id)
    assert "run again as" in run.output
    assert "TPOT, side a" in run.output
    assert "E2E (warm), side b" in run.output
    assert "no run here gave this figure" not in run.output
    assert "effect" not in run.output


def test_a_suspicious_reader_objects(two: list[Kept], make: Make) -> None:
    said = [f"{one.level} {one.about}" for one in review(make(two))]
    assert "objection samples" in said
    assert "doubt origin" in said
    assert "doubt words" in said
    assert not any("report" in one or "acceptance" in one or "clock" in one for one in said), said


def test_nothing_may_rest_on_it(two: list[Kept], make: Make) -> None:
    from fader.lab import adopt

    made = make(two)
    with pytest.raises(
        BadValue, match=r"made from a chat.*fader bench chat -p profiles/a\.toml --change prefix_cache=on"
    ):
        adopt.check(made, adopt.judged(made, ["tpot <= 1 s"]))
    assert fader("challenge", made.manifest.id).exit_code == 2


def test_nothing_is_left_behind_where_it_cannot_be_written(
    two: list[Kept], make: Make, around: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fader.lab.raw.Writer.event", full)
    with pytest.raises(FaderError, match="No space left"):
        make(two)
    assert bundle.ids(around.lab) == []
