"""Limits that watch the running chat: the switch that broke one goes back, and a line below the reply says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from fader.tui.messages import Answer

from .house import Scene, stage

pytestmark = pytest.mark.slow
LIMIT = ["itl_p95 <= 60 ms over 20 tokens"]


def remarks(scene: Scene) -> list[str]:
    return [answer.remark for answer in scene.app.query(Answer)]


async def test_the_switch_that_broke_the_limit_goes_back_at_the_next_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=LIMIT) as scene:
        await scene.paced("hello", tokens=30)
        await scene.send("/on prompt_lookup")
        await scene.paced("hello", gap_ms=90, tokens=30)
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
        await scene.paced("hello", tokens=30)
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
        await scene.paced("hello", gap_ms=90, tokens=30)
        await scene.paced("hello", gap_ms=90, tokens=30)
        first, second = remarks(scene)
        assert first.endswith("It has not held yet, so nothing is known to break it, and nothing goes back.")
        assert second == ""


async def test_the_line_is_there_again_when_the_conversation_is_shown_again(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=LIMIT) as scene:
        await scene.paced("hello", gap_ms=90, tokens=30)
        await scene.paced("/regen", tokens=30)
        assert remarks(scene) == [""]
        scene.app.transcript.focus()
        await scene.pilot.press("j", "left")
        await scene.settled()
        assert "It has not held yet" in remarks(scene)[0]


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
        await scene.paced("hello", gap_ms=90, tokens=30)
        assert remarks(scene) == [""]
        assert scene.app.ready().board.to_profile("mine").watch == []


async def test_a_profile_with_a_bad_limit_still_opens_the_chat(tmp_path: Path) -> None:
    async with stage(tmp_path, watch=["nonsense"]) as scene:
        assert "watch of profile 'echo': gate 'nonsense' is not FIGURE <= LIMIT" in scene.toasts()
        await scene.paced("hello")
        assert remarks(scene) == [""]
