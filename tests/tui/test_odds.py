"""Probabilities on the screen: shades without colour, bars, branching, picking; at three sizes of terminal."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from fader.tui.odds_view import SHADINGS, Tokens, bar, percent, shade, visible, wrapped
from fader_backends.base import SamplerSettings
from fader_backends.odds import Odds
from fader_backends.sampling import chain
from fader_plugins.turn import Offered, Token

from .house import Scene, stage

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "snapshots"
WORDS = [" The", " sea", " is", " a", " vast", "\n", "mirror", ",", " and", " so", " on"]
PIECES = {1000 + place: word.encode() for place, word in enumerate(WORDS)} | {1011: b" lake", 1012: b" \xc3", 1013: b""}


def odds_for(place: int) -> Odds:
    """What a token of the scripted reply was chosen from: the later, the less likely."""
    row = np.full(1014, -30.0, dtype=np.float32)
    others = [1011, 1012, 1013, 1000 + (place + 1) % 11]
    for rank, token in enumerate(others):
        row[token] = 4.0 - rank
    row[1000 + place] = 6.5 - 0.75 * place
    sample = chain(SamplerSettings(temperature=0.8, top_k=4, top_p=0.97, seed=1), size=len(row), watch=5)
    odds = sample(row, []).odds
    assert odds is not None
    by = {one.token: one.logprob for one in odds.candidates()}
    return Odds(by.get(1000 + place, -9.0), odds.entropy, odds.left, odds.tokens, odds.before, odds.after, odds.removed)


async def noted(scene: Scene) -> None:
    """A turn whose tokens have notes, and the keys on the transcript."""
    await scene.send("/on logprobs")
    await scene.send("Tell me of the sea")
    await scene.until(lambda: scene.app.transcript.running is not None, "a window")
    assert scene.engine.request.logprobs == 10
    scene.engine.begin()
    for place, word in enumerate(WORDS):
        odds = odds_for(place)
        scene.engine.ids.append(1000 + place)
        scene.engine.event(
            Token,
            20.0,
            index=place,
            step=place,
            token=1000 + place,
            text=word,
            logprob=odds.logprob,
            odds=odds,
            pieces=PIECES,
        )
    scene.engine.finish()
    await scene.until(lambda: scene.app.transcript.running is None, "the end")
    scene.app.clear_notifications()
    scene.app.transcript.focus()
    await scene.settled()


async def view(scene: Scene) -> None:
    await noted(scene)
    await scene.pilot.press("p")
    await scene.until(lambda: "mean surprise" in scene.text(), "the view")
    await scene.settled()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)], ids=["80x24", "120x40", "200x50"])
async def test_the_view(tmp_path: Path, size: tuple[int, int]) -> None:
    async with stage(tmp_path, size) as scene:
        await view(scene)
        await scene.pilot.press("right", "right", "right", "down")
        await scene.settled()
        shown = scene.text() + "\n"
    path = FOLDER / f"odds-{size[0]}x{size[1]}.txt"
    if os.environ.get("FADER_UPDATE_SNAPSHOTS"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


async def test_keys_move_and_panel_follows(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await view(scene)
        assert "token 1 of 11  ␣The" in scene.text()
        await scene.pilot.press("right")
        assert "token 2 of 11  ␣sea" in scene.text()
        await scene.pilot.press("end")
        assert "token 11 of 11  ␣on" in scene.text()
        await scene.pilot.press("right", "home", "left", "pagedown")
        await scene.settled()
        assert "token 7 of 11  mirror" in scene.text(), "the row below, in the same column"
        await scene.pilot.press("n")
        assert "token 8" in scene.text()
        assert "probability after the chain" in scene.text()
        await scene.pilot.press("c")
        await scene.settled()
        assert "surprise before the chain" in scene.text()


async def test_enter_on_another_candidate_branches_there(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await view(scene)
        await scene.pilot.press("right", "enter")
        await scene.until(lambda: "the token that stands there" in scene.toasts(), "nothing to branch to")
        await scene.pilot.press("down", "enter")
        await scene.until(lambda: len(scene.engine.requests) == 2, "a branch")
        begin = scene.engine.request.begin
        assert begin is not None
        assert begin.ids == (1000, 1011)
        scene.engine.finish()
        await scene.until(lambda: scene.app.transcript.running is None, "its end")
        assert scene.app.chat is not None
        assert len(scene.app.chat.branches.twigs()) == 3


async def test_picking_by_hand(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await noted(scene)
        await scene.pilot.press("m")
        await scene.until(lambda: len(scene.engine.requests) == 2, "the first step")
        assert (scene.engine.request.until_bits, scene.engine.request.begin) == (-1.0, None)
        scene.engine.event(Offered, token=1000, odds=odds_for(0), pieces=PIECES)
        scene.engine.finish("surprise")
        await scene.until(lambda: "the model would take" in scene.text(), "candidates")
        await scene.pilot.press("down", "enter")
        await scene.until(lambda: len(scene.engine.requests) == 3, "the next step")
        begin = scene.engine.request.begin
        assert begin is not None
        assert begin.ids == (1011,)
        scene.engine.event(Offered, token=1001, odds=odds_for(1), pieces=PIECES)
        scene.engine.finish("surprise")
        await scene.until(lambda: "token 2" in scene.text(), "the second place")
        await scene.pilot.press("plus", "r")
        await scene.until(lambda: len(scene.engine.requests) == 4, "a run")
        assert scene.engine.request.until_bits == 4.5
        await scene.pilot.press("escape")
        await scene.until(lambda: "‹ 2 of 2 ›" in scene.text(), "the picked reply beside the other")
        assert scene.app.chat is not None
        assert scene.app.chat.nodes()[-1].content == " lake sea"


# --- parts -------------------------------------------------------------------------------------------------------------


def test_every_shade_is_an_attribute_of_its_own() -> None:
    """Without colour the four shades still differ: plain, underlined, bold, both; and none is the mark's reverse."""
    sheet = (Path(__file__).parents[2] / "app" / "fader" / "tui" / "chat.tcss").read_text(encoding="utf-8")
    styles = [next(line for line in sheet.splitlines() if f"Tokens > .odds--{n}" in line) for n in range(4)]
    attributes = [line.partition("text-style:")[2].strip(" ;}") for line in styles]
    assert attributes == ["", "underline", "bold", "bold underline"]
    assert "Tokens > .odds--cursor, Candidates > .odds--cursor { text-style: bold reverse; }" in sheet


def test_shades_rise_with_surprise() -> None:
    shades = [shade(SHADINGS[1], odds_for(place), 1000 + place) for place in range(11)]
    assert shades == sorted(shades)
    assert {shades[0], shades[-1]} == {"odds--0", "odds--3"}
    assert shade(SHADINGS[0], None, 5) == "odds--unknown"


@pytest.mark.parametrize("width", [4, 7, 20, 80])
def test_wrapping_loses_no_token_and_fits(width: int) -> None:
    texts = ["The", " 日本語", " internationalisation", "\n", "", "\n\n", "x" * 30, " end"]
    rows = wrapped(texts, width)
    assert sorted({place for row in rows for place, _ in row}) == list(range(len(texts)))
    from rich.cells import cell_len

    assert all(sum(cell_len(text) for _, text in row) <= width for row in rows)
    assert wrapped([], width) == [[]]


def test_bars_and_numbers() -> None:
    assert [bar(share, 2) for share in (0.0, 1e-9, 0.5, 1.0, 2.0)] == ["  ", "▏ ", "█ ", "██", "██"]
    assert (percent(0.0), percent(math.log(0.5)), percent(-20.0)) == ("100.0 %", " 50.0 %", " <0.1 %")
    assert [visible(text) for text in (" a b", "\n", "", "\x1b[31m")] == ["␣a b", "↵", "", "␛[31m"]


def test_an_empty_reply_can_be_shown() -> None:
    from fader.odds import NOTHING

    tokens = Tokens(NOTHING)
    tokens.rows = wrapped([], 20)
    assert (tokens.row_of(0), tokens.beside(1)) == (0, 0)
