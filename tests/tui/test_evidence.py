"""What the lab does in the chat: bundles, recording, the breakdown behind a change."""

from __future__ import annotations

from pathlib import Path

import pytest
from fader.lab import bundle, raw, report
from fader.lab.bundle import Bundle
from fader.tui.beside.screen import BesideScreen
from fader.tui.breakdown import BreakdownScreen

from .beside_house import Beside
from .house import Scene, stage

pytestmark = pytest.mark.slow


async def bundled(scene: Scene, command: str = "/bundle") -> Bundle:
    """The bundle that a command makes."""
    lab = scene.house.paths.lab
    before = set(bundle.ids(lab))
    await scene.send(command)
    await scene.app.workers.wait_for_complete()
    await scene.until(lambda: "To read it" in scene.toasts(), f"the bundle\n{scene.toasts()}")
    (name,) = set(bundle.ids(lab)) - before
    return bundle.load(lab / name)


# --- /bundle -----------------------------------------------------------------------------------------------------------


async def test_a_bundle_of_the_last_two_turns_has_no_word_of_them(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.paced("a xylophone?", prompt=300)
        await scene.send("/off prefix_cache")
        await scene.paced("/regen", prompt=300, gap_ms=10)
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
        await scene.paced("first")
        await scene.paced("a xylophone?")
        await scene.send("/off prefix_cache")
        await scene.paced("/regen")
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
        await scene.paced("hello")
        await scene.paced("hello again")
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
        await scene.paced("a turn of the chat")
        scene.app.clear_notifications()
        await scene.send("/bundle")
        assert "No earlier recorded turn asked the same" in scene.toasts(), "the chat is later now"


# --- /record -----------------------------------------------------------------------------------------------------------


async def test_recording_can_be_switched_off_and_on(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("/record off")
        assert "No turn's events are kept" in scene.toasts()
        await scene.paced("hello")
        chat = scene.app.ready()
        assert chat.conversation is not None
        assert chat.store.events(chat.conversation.id, 9) == []
        assert chat.board.to_profile("mine").record_mib == 0
        titles = [command.title for command in scene.app.get_system_commands(scene.app.screen)]
        assert "Recording on" in titles
        await scene.send("/record on")
        assert "at most 16 MiB" in scene.toasts()
        await scene.paced("hello")
        assert len(chat.store.events(chat.conversation.id, 9)) == 1


# --- the breakdown -----------------------------------------------------------------------------------------------------


async def test_the_change_opens_the_breakdown(tmp_path: Path) -> None:
    async with stage(tmp_path, (140, 45)) as scene:
        await scene.pilot.press("f5")
        assert "There is no turn before a switch and one after it yet" in scene.toasts()
        await scene.paced("hello", prompt=300, prefill_ms=400)
        await scene.send("/off prefix_cache")
        scene.app.clear_notifications()
        await scene.pilot.press("f5")
        assert "There is no turn before a switch and one after it yet" in scene.toasts()
        await scene.paced("/regen", gap_ms=30, prompt=300, reused=200, prefill_ms=150)
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
        await scene.paced("hello")
        await scene.send("/off prefix_cache")
        await scene.paced("something else")
        await scene.send("/breakdown")
        await scene.settled()
        assert "different things" in " ".join(scene.text().replace("│", "").split())
