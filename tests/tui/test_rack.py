"""Rack, numbers and palette in a running app."""

from __future__ import annotations

from pathlib import Path

import pytest
from fader_plugins.turn import PluginFault

from .house import stage

pytestmark = pytest.mark.slow
LONG = "\n\n".join(f"paragraph {number}" for number in range(60))


async def test_a_switch_acts_on_the_next_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, (140, 45)) as scene:
        rack = scene.app.side.rack
        rack.focus()
        await scene.pilot.press("home", "space")
        await scene.settled()
        assert "[ ] sampler" in scene.text()
        await scene.send("hello")
        assert not scene.engine.request.plugins["sampler"].on
        assert scene.engine.request.sampler.temperature == 0


async def test_settings_are_changed_in_the_form(tmp_path: Path) -> None:
    async with stage(tmp_path, (140, 45)) as scene:
        side = scene.app.side
        side.rack.focus()
        await scene.pilot.press("home", "down", "right")
        await scene.settled()
        assert side.board is not None
        assert side.board.states["sampler"].settings["temperature"] == 0.9
        await scene.pilot.press("1", ".", "5", "enter")
        await scene.settled()
        assert side.board.states["sampler"].settings["temperature"] == 1.5
        await scene.pilot.press("9", "9", "enter")
        await scene.settled()
        assert "cannot be used" in scene.toasts()
        assert "0 to 5" in scene.toasts()
        await scene.pilot.press("backspace")
        await scene.settled()
        assert side.board.states["sampler"].settings["temperature"] == 0.8


async def test_the_rack_is_a_drawer_in_a_narrow_terminal(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        assert "sampler" not in scene.text()
        await scene.pilot.press("f2")
        await scene.settled()
        assert "[●] sampler" in scene.text()
        assert scene.app.transcript.size.width > 70
        await scene.pilot.press("escape")
        await scene.settled()
        assert "sampler" not in scene.text()
        assert scene.app.prompt.has_focus


async def test_f2_brings_the_keys_to_a_rack_that_stands_and_hides_it_after(tmp_path: Path) -> None:
    async with stage(tmp_path, (140, 45)) as scene:
        rack = scene.app.side.rack
        assert "F2 brings the keys here" in scene.text()
        await scene.pilot.press("f2")
        await scene.settled()
        assert rack.has_focus
        assert "switching it off acts" in " ".join(scene.text().split())
        await scene.pilot.press("f2")
        await scene.settled()
        assert "sampler" not in scene.text()
        assert scene.app.prompt.has_focus
        await scene.pilot.press("f2")
        await scene.settled()
        assert rack.has_focus


async def test_what_the_backend_cannot_is_greyed_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "plugins"
    folder.mkdir(parents=True)
    (folder / "needy.py").write_text(
        "from fader_plugins.turn import PluginInfo\n"
        "info = PluginInfo(name='needy', summary='Needs much', needs=frozenset({'telepathy'}))\n"
    )
    (folder / "broken.py").write_text("raise RuntimeError('no [b]luck[/b]')\n")
    async with stage(tmp_path, (140, 45)) as scene:
        side = scene.app.side
        shown = "\n".join(line.text for line in side.rack.lines)
        assert "the echo backend cannot telepathy" in shown
        assert "RuntimeError: no [b]luck[/b]" in shown
        await scene.send("/on needy")
        assert "cannot be used" in scene.toasts()
        assert "broken" in scene.toasts()


async def test_a_plugin_that_fails_in_the_engine_is_named(tmp_path: Path) -> None:
    async with stage(tmp_path, (140, 45)) as scene:
        await scene.send("hello")
        scene.engine.event(PluginFault, plugin="prefix_cache", hook="restore_prefix", detail="it broke")
        await scene.until(lambda: "'prefix_cache' failed" in scene.toasts(), "the notice")
        side = scene.app.side
        assert [line.usable for line in side.rack.lines if line.text == "prefix_cache"] == [False]
        assert "restore_prefix: it broke" in [line.text for line in side.rack.lines]


async def test_changes_since_the_last_switch(tmp_path: Path) -> None:
    async with stage(tmp_path, (140, 45)) as scene:
        await scene.turn("one", "a|b|c", prefill_ms=100)
        assert "%" not in next(line for line in scene.text().split("\n") if "  prefill " in line)
        await scene.send("/off sampler")
        await scene.turn("two", "a|b|c", prefill_ms=50)
        assert "-50 %" in next(line for line in scene.text().split("\n") if "  prefill " in line)
        await scene.turn("three", "a|b|c", "cancelled", prefill_ms=400)
        await scene.send("/on sampler")
        await scene.turn("four", "a|b|c", prefill_ms=50)
        assert "=" in next(line for line in scene.text().split("\n") if "  prefill " in line)


async def test_help_defines_every_number(tmp_path: Path) -> None:
    async with stage(tmp_path, (100, 100)) as scene:
        await scene.pilot.press("f1")
        await scene.settled()
        screen = scene.app.screen
        from fader.tui.screens import HelpScreen

        assert isinstance(screen, HelpScreen)
        defined = {left for _, rows in screen.sections for left, _ in rows}
        assert {"TTFT", "prefill", "TPOT", "ITL p50", "screen CPU", "context bar"} <= defined
        await scene.pilot.press("escape")
        assert scene.app.screen is not screen


async def test_the_palette_throws_switches(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        titles = [command.title for command in scene.app.get_system_commands(scene.app.screen)]
        assert "Switch off: sampler" in titles
        assert "Switch off: prefix_cache" in titles
        assert any(title.startswith("Profile: ") for title in titles)


async def test_switches_are_saved_as_a_profile(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.send("/off sampler")
        await scene.send("/save mine")
        path = scene.app.paths.profiles / "mine.toml"
        await scene.until(path.is_file, "the file")
        assert "on = false" in path.read_text()
        await scene.send("/on sampler")
        await scene.send("/save mine")
        assert "Replace it?" in scene.text()
        await scene.pilot.press("escape")
        assert "on = false" in path.read_text()
        await scene.send("/profile mine")
        assert scene.app.board is not None
        assert not scene.app.board.states["sampler"].on
        await scene.send("/save no/such")
        assert "cannot be a profile's name" in scene.toasts()


# --- looks ------------------------------------------------------------------------------------------------------------
