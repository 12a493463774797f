"""The sheet on what each mechanism did."""

from __future__ import annotations

from pathlib import Path

from fader.tui.why import WhyScreen

from .house import stage


async def test_why_shows_the_last_turn(tmp_path: Path) -> None:
    """The command and the palette's entry open it; Esc closes it."""
    async with stage(tmp_path, (100, 40)) as scene:
        await scene.turn("hello", "one |two |three", prompt=300, reused=200, prefill_ms=500.0)
        await scene.send("/why")
        await scene.settled()
        assert isinstance(scene.app.screen, WhyScreen)
        shown = " ".join(scene.text().split())
        assert "200 of 300 prompt tokens reused" in shown
        assert "200 tok/s over 100 new tokens" in shown
        assert "/off kv_cache" in shown
        await scene.pilot.press("escape")
        await scene.settled()
        assert not isinstance(scene.app.screen, WhyScreen)
        assert "Why" in [command.title for command in scene.app.get_system_commands(scene.app.screen)]


async def test_why_before_any_turn(tmp_path: Path) -> None:
    """It says that there is nothing yet, and the command stays in the prompt."""
    async with stage(tmp_path) as scene:
        await scene.send("/why")
        assert "No turn has ended yet" in scene.toasts()
        assert scene.app.prompt.text == "/why"
