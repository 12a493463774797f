"""Forms from settings types, the comparison of numbers, and when a change acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from fader.switchboard import Switchboard
from fader.tui import bars, desk
from fader.tui.compare import Comparison, shown
from fader.tui.fields import Field, fields
from fader.tui.side import difference
from fader_plugins.turn import Difference, Numbers, Reading, Settings, setting


class Made(Settings, frozen=True, kw_only=True):
    """One field of each kind."""

    flag: Annotated[bool, setting("A flag", cost="live")] = True
    count: Annotated[int, setting("A count", ge=0, le=10, step=2, cost="load")] = 4
    share: Annotated[float, setting("A share", ge=0, le=1, step=0.1)] = 0.7
    open: Annotated[float, setting("No bounds")] = 1.0
    kind: Annotated[Literal["a", "b"], setting("A choice", cost="context")] = "a"
    word: str = "x"
    seed: Annotated[int | None, setting("May be empty")] = None
    maybe: Annotated[Literal["p", "q"] | None, setting("May be empty")] = None


FORM = {field.name: field for field in fields(Made)}


def test_every_kind_of_setting_has_its_control() -> None:
    kinds = {name: field.kind for name, field in FORM.items()}
    assert kinds == {
        "flag": "switch",
        "count": "whole",
        "share": "number",
        "open": "number",
        "kind": "choice",
        "word": "text",
        "seed": "whole",
        "maybe": "choice",
    }
    assert [name for name, field in FORM.items() if field.optional] == ["seed", "maybe"]
    assert FORM["count"] == Field(
        name="count", kind="whole", help="A count", cost="load", low=0, high=10, step=2, default=4
    )


@pytest.mark.parametrize(
    ("name", "value", "direction", "after"),
    [
        ("flag", True, 1, False),
        ("count", 4, 1, 6),
        ("count", 9, 1, 10),
        ("count", 0, -1, 0),
        ("share", 0.7, 1, 0.8),
        ("share", 0.1, -1, 0.0),
        ("open", 1.0, 1, 1.1),
        ("kind", "b", 1, "a"),
        ("seed", None, 1, 0),
        ("seed", 5, -1, 4),
        ("maybe", None, 1, "p"),
        ("maybe", "q", 1, None),
        ("word", "x", 1, "x"),
    ],
)
def test_steps(name: str, value: Any, direction: int, after: Any) -> None:
    assert FORM[name].stepped(value, direction) == after


def test_a_place_on_the_slider_is_a_value() -> None:
    assert FORM["count"].at(0.5) == 4
    assert FORM["share"].at(0.33) == 0.3
    assert FORM["share"].share(0.7) == pytest.approx(0.7)
    assert FORM["open"].share(1.0) is None


@pytest.mark.parametrize(("value", "text"), [(None, "—"), (True, "on"), (0.30000000000000004, "0.3"), ("x", "x")])
def test_values_are_shown_short(value: Any, text: str) -> None:
    assert FORM["share"].shown(value) == text


# --- when a change acts -----------------------------------------------------------------------------------------------


def row(board: Switchboard, plugin: str, text: str) -> desk.Line:
    return next(line for line in desk.lines(board, {}, frozenset()) if (line.plugin, line.text) == (plugin, text))


def test_the_cost_is_said_before_the_switch_is_thrown(board: Callable[..., Switchboard]) -> None:
    made = board(plugins={"kv_cache": {"length": 1024}})
    assert desk.explain(made, row(made, "sampler", "temperature"))[1] == "acts at once"
    assert "new context" in desk.explain(made, row(made, "kv_cache", "length"))[1]
    assert "new context" in desk.explain(made, row(made, "kv_cache", "kv_cache"))[1]
    assert made.states["kv_cache"].on


def test_a_setting_of_a_plugin_that_is_off_says_so(board: Callable[..., Switchboard]) -> None:
    made = board(plugins={"sampler": {"on": False}})
    assert desk.explain(made, row(made, "sampler", "top k"))[1] == "acts once it is on, from the next turn on"


# --- numbers ----------------------------------------------------------------------------------------------------------


def reading(value: float | str | None, better: Any = "lower", digits: int = 0) -> Reading:
    return Reading(key="k", label="K", value=value, unit="ms", better=better, digits=digits)


def compared(before: float, after: float, **kind: Any) -> tuple[str, str]:
    comparison = Comparison()
    comparison.turned([reading(before, **kind)])
    comparison.switched()
    return comparison.change(reading(after, **kind))


def test_changes_are_against_the_last_turn_before_the_last_switch() -> None:
    comparison = Comparison()
    comparison.turned([reading(100)])
    assert comparison.change(reading(50)) == ("", "neither")
    comparison.switched()
    assert comparison.change(reading(50)) == ("-50 %", "good")
    comparison.turned([reading(50)])
    assert comparison.change(reading(60)) == ("-40 %", "good")
    comparison.switched()
    comparison.switched()
    assert comparison.change(reading(60)) == ("+20 %", "bad")


def test_how_changes_are_said() -> None:
    assert compared(100, 100) == ("=", "neither")
    assert compared(1000, 1004, digits=0) == ("=", "neither")
    assert compared(10, 200) == ("×20.0", "bad")
    assert compared(0, 5) == ("+5", "bad")
    assert compared(10, 20, better="higher") == ("+100 %", "good")
    assert compared(10, 20, better="neither") == ("+100 %", "neither")


def test_values_have_their_unit() -> None:
    assert shown(reading(1234.56, digits=1)) == "1,234.6 ms"
    assert shown(reading(None)) == "—"
    assert shown(reading("3 reused + 4 new")) == "3 reused + 4 new"


def test_the_first_difference_is_named() -> None:
    numbers = Numbers(difference=Difference(position=5, held="old words", wanted="new words"))
    assert [row.value for row in difference(numbers)] == ["'old words' → 'new words'"]
    assert difference(Numbers()) == []


def said(parts: list[bars.Part]) -> str:
    return "".join(text for text, _ in parts)


def test_the_context_bar_warns_before_it_is_full() -> None:
    assert said(bars.context_parts(1000, 4000, 500, 8)) == "██▒░░░░░ 1,000 used · 500 reply · 2,500 free"
    assert "nearly full: Ctrl+N" in said(bars.context_parts(3600, 4000, 500, 8))
    assert "context full: Ctrl+N" in said(bars.context_parts(4000, 4000, 500, 8))
    assert said(bars.context_parts(0, 4096, None, 8)).endswith("0 used · 512 reply · 3,584 free")
    assert "once the model is loaded" in said(bars.context_parts(None, None, None, 8))
