"""The screen with columns as text, compared with stored files. `FADER_UPDATE_SNAPSHOTS=1` writes them anew."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from .beside_house import Beside
from .house import stage

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parent / "snapshots"
LEFT = (
    "The |Nile |is |the |longest |river: |it |flows |north |through |eleven |countries, |and |**floods** |each |summer.\n\n"
    "- |one\n- |two"
)
RIGHT = "The |Nile |is |a |river: |it |flows |`north` |and |floods |each |日本語 |🎉 |summer."


async def fresh(_: Beside) -> None: ...


async def running(sides: Beside) -> None:
    await sides.type("/sweep temperature 0.2..1.4 x4")
    await sides.type("Name a river")
    for number in range(4):
        await sides.begin(number, reused=29 if number else 0)
    texts = (LEFT, RIGHT, LEFT[:40], RIGHT[:30])
    for number, text in enumerate(texts):
        sides.say(number, text, gap_ms=20 + number)
    pieces = [text.count("|") + 1 for text in texts]
    await sides.scene.until(lambda: [view.seen for view in sides.screen.views] == pieces, "all texts")
    sides.screen.show()


async def ended(sides: Beside) -> None:
    await sides.columns("", "temperature=1.2 min_p=0.1", "seed=7 prompt_lookup=on")
    await sides.type("Name a river")
    await sides.whole(LEFT, RIGHT, RIGHT)
    await sides.press("tab", "tab", "right")


async def blind(sides: Beside) -> None:
    await ended(sides)
    await sides.press("f9")


async def different(sides: Beside) -> None:
    await ended(sides)
    await sides.press("d")


async def editing(sides: Beside) -> None:
    await sides.press("f2", "right", "0", ".", "4")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=["80x24", "120x40", "200x50"])
@pytest.mark.parametrize("act", [fresh, running, ended, blind, different, editing], ids=lambda act: act.__name__)
async def test_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Beside], Awaitable[None]], size: tuple[int, int]
) -> None:
    monkeypatch.setattr("secrets.randbits", lambda _: 7)
    monkeypatch.setattr("random.SystemRandom.shuffle", lambda _, order: order.reverse())
    async with stage(tmp_path, size) as scene:
        sides = Beside(scene)
        await sides.open()
        await act(sides)
        scene.app.clear_notifications()
        await scene.settled()
        shown = scene.text() + "\n"
    path = FOLDER / f"beside-{act.__name__}-{size[0]}x{size[1]}.txt"
    if os.environ.get("FADER_UPDATE_SNAPSHOTS"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")
