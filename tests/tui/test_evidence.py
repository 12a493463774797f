"""What the lab does in the chat: bundles, recording, the breakdown behind a change, the live gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fader.lab import bundle, raw, report
from fader.lab.bundle import Bundle
from fader.tui.beside.screen import BesideScreen
from fader.tui.breakdown import BreakdownScreen
from fader.tui.messages import Answer

from .beside_house import Beside
from .house import Scene, stage

WORDS = "one |two |three |four"


async def turn(scene: Scene, text: str, gap_ms: float = 20.0, tokens: int = 4, **begin: Any) -> None:
    """A whole turn whose tokens come that far apart; `text` may be a command that asks."""
    await scene.send(text)
    await scene.until(lambda: scene.app.transcript.running is not None, "a window for the reply")
    scene.engine.begin(**begin)
    scene.engine.say("|".join(f"w{n} " for n in range(tokens)), gap_ms)
    scene.engine.finish()
    await scene.until(lambda: scene.app.transcript.running is None, "the end of the turn")
    await scene.settled()


async def bundled(scene: Scene, command: str = "/bundle") -> Bundle:
    """The bundle that a command makes."""
    lab = scene.house.paths.lab
    before = set(bundle.ids(lab))
    await scene.send(command)
    await scene.until(lambda: "To read it" in scene.toasts(), f"the bundle\n{scene.toasts()}")
    (name,) = set(bundle.ids(lab)) - before
    return bundle.load(lab / name)


def remarks(scene: Scene) -> list[str]:
    return [answer.remark for answer in scene.app.query(Answer)]


# --- /bundle -----------------------------------------------------------------------------------------------------------


async def test_a_bundle_of_the_last_two_turns_has_no_word_of_them(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await turn(scene, "a xylophone?", prompt=300)
        await scene.send("/off prefix_cache")
        await turn(scene, "/regen", prompt=300, gap_ms=10)
        made = await bundled(scene)
        assert made.manifest.what == "from-chat: prefix_cache on → off"
        assert "No word of the conversation is in it" in scene.toasts()
        runs = raw.read(made.folder)
        assert [round(run.stats.numbers().tpot_ms or 0) for run in runs] == [20, 10]
        assert raw.outputs(made.folder) == {}
        assert not report.build(made).reportable
        assert report.differences(made) == []


async def test_with_text_prompt_and_replies_are_in_it(tmp_path: Path) -> None:
    async with stage(tmp_path, system="Be brief.") as scene:
        await turn(scene, "first")
        await turn(scene, "a xylophone?")
        await scene.send("/off prefix_cache")
        await turn(scene, "/regen")
        made = await bundled(scene, "/bundle with text")
        runs = raw.read(made.folder)
        for run in runs:
            said = [(message.role, message.content) for message in run.stats.request.messages]
            assert said == [
                ("system", "Be brief."),
                ("user", "first"),
                ("assistant", "w0 w1 w2 w3 "),
                ("user", "a xylophone?"),
            ]
        assert {output.text for output in raw.outputs(made.folder).values()} == {"w0 w1 w2 w3 "}
        assert "xylophone" in (made.folder / bundle.WORKLOAD).read_text("utf-8")


async def test_a_bundle_without_two_turns_that_compare_says_what_to_do(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("/bundle")
        assert "No whole turn of this conversation is recorded" in scene.toasts()
        assert scene.app.prompt.text == "/bundle"
        scene.app.prompt.put("")
        await turn(scene, "hello")
        await turn(scene, "hello again")
        scene.app.clear_notifications()
        await scene.send("/bundle")
        assert "No earlier recorded turn asked the same" in scene.toasts()
        assert "/regen" in scene.toasts()
        scene.app.prompt.put("")
        await scene.send("/bundle everything")
        assert "'everything' is not understood" in scene.toasts()
        assert bundle.ids(scene.house.paths.lab) == []


async def test_nothing_is_bundled_while_a_reply_runs(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("hello")
        await scene.send("/bundle")
        assert "A reply is running" in scene.toasts()


async def test_a_bundle_of_a_comparison_wants_fair_timing(tmp_path: Path) -> None:
    async with stage(tmp_path, (120, 40)) as scene:
        sides = Beside(scene)
        await sides.open()
        await sides.press("enter")
        await sides.whole("left |words", "right |words")
        await sides.type("/bundle")
        assert "The columns ran together" in scene.toasts()
        sides.screen.prompt.put("")
        await sides.press("f8")
        await sides.press("enter")
        for number in range(2, 6):
            await sides.begin(number)
            sides.say(number, "some |words", gap_ms=10 * number)
            sides.end(number)
            await scene.settled()
        await scene.until(lambda: not sides.screen.comparer.busy, "the end")
        await sides.press("escape")
        assert not isinstance(scene.app.screen, BesideScreen)
        made = await bundled(scene)
        assert made.manifest.what == "from-chat: sampler.temperature unset → 1.2"
        runs = raw.read(made.folder)
        assert [(run.run.side, run.run.round) for run in runs] == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
        assert [round(run.stats.numbers().tpot_ms or 0) for run in runs] == [20, 30, 40, 50]
        assert {run.run.condition for run in runs} == {"cold"}
        await turn(scene, "a turn of the chat")
        scene.app.clear_notifications()
        await scene.send("/bundle")
        assert "No earlier recorded turn asked the same" in scene.toasts(), "the chat is later now"


# --- /record -----------------------------------------------------------------------------------------------------------


async def test_recording_can_be_switched_off_and_on(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("/record off")
        assert "No turn's events are kept" in scene.toasts()
        await turn(scene, "hello")
        chat = scene.app.ready()
        assert chat.conversation is not None
        assert chat.store.events(chat.conversation.id, 9) == []
        assert chat.board.to_profile("mine").record_mib == 0
        titles = [command.title for command in scene.app.get_system_commands(scene.app.screen)]
        assert "Recording on" in titles
        await scene.send("/record on")
        assert "at most 16 MiB" in scene.toasts()
        await turn(scene, "hello")
        assert len(chat.store.events(chat.conversation.id, 9)) == 1


# --- the breakdown -----------------------------------------------------------------------------------------------------


async def test_the_change_opens_the_breakdown(tmp_path: Path) -> None:
    async with stage(tmp_path, (140, 45)) as scene:
        await scene.pilot.press("f5")
        assert "There is no turn before a switch and one after it yet" in scene.toasts()
        await turn(scene, "hello", prompt=300, prefill_ms=400)
        await scene.send("/off prefix_cache")
        scene.app.clear_notifications()
        await scene.pilot.press("f5")
        assert "There is no turn before a switch and one after it yet" in scene.toasts()
        await turn(scene, "/regen", gap_ms=30, prompt=300, reused=200, prefill_ms=150)
        await scene.pilot.click("#overlay")
        await scene.settled()
        assert isinstance(scene.app.screen, BreakdownScreen)
        shown = " ".join(scene.text().split())
        assert "Before and after: prefix_cache on → off │" in shown
        assert "evaluating the prompt 400 ms 150 ms -250 ms" in shown
        assert "one step 20.0 ms 30.0 ms +10.0 ms" in shown
        assert "reused 0 200 +200" in shown
        assert "different things" not in shown
        await scene.pilot.press("escape")
        assert not isinstance(scene.app.screen, BreakdownScreen)


async def test_the_breakdown_says_when_other_things_were_asked(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await turn(scene, "hello")
        await scene.send("/off prefix_cache")
        await turn(scene, "something else")
        await scene.send("/breakdown")
        await scene.settled()
        assert "different things" in " ".join(scene.text().replace("│", "").split())


# --- the live gate -----------------------------------------------------------------------------------------------------

LIMIT = ["itl_p95 <= 60 ms over 20 tokens"]


async def test_the_switch_that_broke_the_limit_goes_back_at_the_next_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=LIMIT) as scene:
        await turn(scene, "hello", tokens=30)
        await scene.send("/on prompt_lookup")
        await turn(scene, "hello", gap_ms=90, tokens=30)
        assert scene.engine.request.plugins["prompt_lookup"].on
        assert scene.app.ready().board.states["prompt_lookup"].on is False
        said = (
            "itl_p95 over the last 20 tokens was 90 ms; the limit is <= 60 ms. prompt_lookup goes back to off at the next "
            "turn. To have on again: /on prompt_lookup"
        )
        assert remarks(scene) == ["", said]
        assert scene.app.side.comparison.before["tpot"].value == 90, (
            "what comes now is compared with the turn that tripped"
        )
        assert said in " ".join(scene.text().split())
        await turn(scene, "hello", tokens=30)
        assert scene.engine.request.plugins["prompt_lookup"].on is False
        assert remarks(scene) == ["", said, ""]


async def test_a_waiting_prompt_is_sent_without_the_switch_already(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=LIMIT) as scene:
        await scene.send("/set sampler.top_k=7")
        await scene.send("hello")
        await scene.until(lambda: scene.app.transcript.running is not None, "a window for the reply")
        await scene.send("this one waits")
        scene.engine.begin()
        scene.engine.say("|".join("x" * 30), gap_ms=90)
        scene.engine.finish()
        await scene.until(lambda: len(scene.engine.requests) == 2, "the waiting prompt")
        assert [request.sampler.top_k for request in scene.engine.requests] == [7, 40]


async def test_it_trips_while_the_reply_runs_and_the_line_stands_below_it(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=LIMIT) as scene:
        await scene.send("/off prefix_cache")
        await scene.send("hello")
        await scene.until(lambda: scene.app.transcript.running is not None, "a window for the reply")
        scene.engine.begin()
        scene.app.drawn_numbers = float("-inf")
        scene.engine.say("|".join("x" * 30), gap_ms=90)
        await scene.until(lambda: scene.app.ready().board.states["prefix_cache"].on, "the switch put back")
        await scene.until(lambda: "prefix_cache goes back to on" in scene.toasts(), "a notice")
        await scene.pilot.press("escape")
        scene.engine.finish("cancelled")
        await scene.until(lambda: scene.app.transcript.running is None, "the end of the turn")
        await scene.settled()
        assert "prefix_cache goes back to on" in remarks(scene)[0]


async def test_a_live_setting_goes_back_at_the_next_turn_only(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=LIMIT) as scene:
        await scene.send("/set sampler.top_k=5")
        await scene.send("hello")
        await scene.until(lambda: scene.app.transcript.running is not None, "a window for the reply")
        scene.engine.begin()
        scene.app.drawn_numbers = float("-inf")
        scene.engine.say("|".join("x" * 30), gap_ms=90)
        await scene.until(lambda: scene.app.ready().board.states["sampler"].settings["top_k"] is None, "it put back")
        assert scene.engine.adjusted == []


async def test_without_a_switch_it_says_so_once(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=LIMIT) as scene:
        await turn(scene, "hello", gap_ms=90, tokens=30)
        await turn(scene, "hello", gap_ms=90, tokens=30)
        first, second = remarks(scene)
        assert first.endswith("Nothing was changed since it last held, so nothing goes back.")
        assert second == ""


async def test_the_line_is_there_again_when_the_conversation_is_shown_again(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=LIMIT) as scene:
        await turn(scene, "hello", gap_ms=90, tokens=30)
        await turn(scene, "/regen", tokens=30)
        assert remarks(scene) == [""]
        scene.app.transcript.focus()
        await scene.pilot.press("j", "left")
        await scene.settled()
        assert "Nothing was changed" in remarks(scene)[0]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/watch", "Held against no limit"),
        ("/watch itl_p95 <= 60", "needs a unit"),
        ("/watch ttft <= 300 ms", "Held against: ttft <= 300 ms."),
    ],
)
async def test_watch_sets_and_says_the_limit(tmp_path: Path, command: str, said: str) -> None:
    async with stage(tmp_path) as scene:
        await scene.send(command)
        assert said in scene.toasts()


async def test_watch_off_ends_it(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=LIMIT) as scene:
        await scene.send("/watch off")
        await turn(scene, "hello", gap_ms=90, tokens=30)
        assert remarks(scene) == [""]
        assert scene.app.ready().board.to_profile("mine").watch == []


async def test_a_profile_with_a_bad_limit_still_opens_the_chat(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=["nonsense"]) as scene:
        assert "watch of profile 'echo': gate 'nonsense' is not FIGURE <= LIMIT" in scene.toasts()
        await turn(scene, "hello")
        assert remarks(scene) == [""]
