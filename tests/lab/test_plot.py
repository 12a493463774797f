from __future__ import annotations

import pytest
from fader.lab.plot import Axis, Look, curves, dots, histogram, look, stacked
from hypothesis import given
from hypothesis import strategies as st

ASCII = Look(unicode=False)
numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


def test_a_histogram_has_a_bar_per_range() -> None:
    assert histogram([0, 0, 0, 0, 1, 1, 9], 10, Look()) == "█▄       ▂"
    assert histogram([0, 0, 0, 0, 1, 1, 9], 10, ASCII) == "@=       :"
    assert histogram([5.0], 5, Look()) == "  █  "
    assert histogram([5.0], 5, Look(), 0, 5) == "    █"
    assert histogram([], 5, Look()) == ""


def test_dots_show_each_sample() -> None:
    assert dots({"a": [0, 10, 10], "b": [5]}, 11, "ms", ASCII) == [
        "a .         2",
        "b      .",
        "  0     10 ms",
    ]
    assert "+" in dots({"a": [1.0] * 10}, 5, "", ASCII)[0]
    assert dots({"a": []}, 5, "", ASCII) == []


def test_curves_climb_from_the_lowest_to_the_highest() -> None:
    assert curves({"a": [0, 5, 10], "b": [10, 10, 20]}, 21, 3, "ms", ASCII) == [
        "100% |          o         x",
        " 50% |     o    x",
        "  0% |o         x",
        "      0               20 ms",
        "      o a  x b",
    ]
    assert curves({}, 10, 3, "ms", ASCII) == []


def test_where_both_sides_are_one_mark_stands_for_both() -> None:
    assert curves({"a": [0, 10], "b": [0, 5]}, 11, 2, "", ASCII)[1] == "  0% |*"


@given(numbers, numbers, st.integers(1, 40), st.integers(1, 12))
def test_no_plot_is_wider_than_it_may(a: list[float], b: list[float], width: int, height: int) -> None:
    for line in curves({"a": a, "b": b}, width, height, "", ASCII)[:height]:
        assert len(line) <= width + 6
    assert len(histogram(a, width, ASCII)) == width
    assert all(len(line) <= width + 2 for line in dots({"a": a, "b": b}, width, "", ASCII)[:2])


def test_bars_show_what_a_whole_is_made_of() -> None:
    sides = {"a": {"prefill": 60.0, "queue": 20.0}, "b": {"prefill": 20.0, "restore": 20.0}}
    assert stacked(sides, 8, "ms", ASCII) == [
        "a ######== 80 ms",
        "b ##++ 40 ms",
        "  # prefill: 60 -> 20 ms",
        "  = queue: 20 -> - ms",
        "  + restore: - -> 20 ms",
    ]
    assert stacked({"a": {}}, 8, "ms", ASCII) == []


@pytest.mark.parametrize(
    ("environ", "tty", "encoding", "expected"),
    [
        ({}, True, "utf-8", Look(True, True)),
        ({"NO_COLOR": "1"}, True, "utf-8", Look(True, False)),
        ({"NO_COLOR": ""}, True, "utf-8", Look(True, True)),
        ({"TERM": "dumb"}, True, "utf-8", Look(True, False)),
        ({}, False, "cp1252", Look(False, False)),
        ({}, False, None, Look(False, False)),
    ],
)
def test_what_the_terminal_can_show(environ: dict[str, str], tty: bool, encoding: str, expected: Look) -> None:
    assert look(environ, tty, encoding) == expected


def test_colour_tells_sides_apart_and_nothing_else() -> None:
    plain, painted = (curves({"a": [0, 5], "b": [9, 9]}, 10, 3, "", Look(False, colour)) for colour in (False, True))
    assert "\x1b[36m" in painted[0] + painted[2]
    for code in ("\x1b[36m", "\x1b[33m", "\x1b[0m"):
        painted = [line.replace(code, "") for line in painted]
    assert painted == plain


def test_an_axis_without_length_has_a_middle() -> None:
    assert Axis(3, 3, 9).at(3) == 4
