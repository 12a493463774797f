"""Wrapping of a growing reply: the same rows however it is cut, at a cost that does not grow."""

from __future__ import annotations

import random

import pytest
from fader.tui.flow import BOLD, CODE, FENCE, Flow, Row, clean, spans
from rich.cells import cell_len

TEXT = (
    "# Head\n\nSome **bold words that go on** and `code` here.\n```py\nx = [b]1[/b]\n```\n"
    "日本語のテキストは幅が二つ 🎉👩‍👩‍👧‍👦 e\u0301 done\n" + "w" * 57 + "\n  indented  text\n\n- last"
)


def flow(text: str, width: int, pieces: int = 1) -> Flow:
    made = Flow(width)
    for start in range(0, len(text), pieces):
        made.feed(text[start : start + pieces])
    return made


@pytest.mark.parametrize("width", [4, 11, 20, 33, 80])
def test_no_row_is_wider_than_the_window(width: int) -> None:
    assert all(cell_len(row.text) <= width for row in flow(TEXT, width).rows)


@pytest.mark.parametrize("width", [7, 20, 80])
def test_rows_do_not_depend_on_how_the_text_came(width: int) -> None:
    whole = Flow(width)
    whole.feed(TEXT)
    assert flow(TEXT, width, 1).rows == whole.rows
    rng = random.Random(1)
    for _ in range(20):
        cut = Flow(width)
        rest = TEXT
        while rest:
            size = rng.randint(1, 9)
            cut.feed(rest[:size])
            rest = rest[size:]
        assert [row.text for row in cut.rows] == [row.text for row in whole.rows]


def test_nothing_is_lost_but_spaces_at_row_ends() -> None:
    shown = "".join(row.text for row in flow(TEXT, 20).rows)
    assert shown.replace(" ", "") == TEXT.replace(" ", "").replace("\n", "")


def test_feed_names_the_first_row_that_changed() -> None:
    made = Flow(10)
    assert made.feed("abc") == 0
    assert made.feed("\ndef") == 0
    assert made.feed(" ghi jkl mno") == 1
    assert [row.text for row in made.rows] == ["abc", "def ghi", "jkl mno"]


def test_styles_go_on_over_rows_and_end_with_the_line() -> None:
    made = Flow(12)
    made.feed("a **bold thing here** z\n**open\nplain")
    assert [row.mode for row in made.rows] == [0, BOLD, 0, 0, 0]
    assert spans(made.rows[0])[0] == [("a ", "text"), ("**", "mark"), ("bold", "bold")]


def test_a_fence_keeps_its_contents_from_being_styled() -> None:
    made = Flow(30)
    made.feed("```py\na = **b**\n```\n**c**")
    assert [row.mode for row in made.rows] == [0, FENCE, FENCE, 0]
    assert spans(made.rows[1])[0] == [("a = **b**", "code")]


def test_code_hides_stars() -> None:
    found, mode = spans(Row("`a ** b` **c**", 0, True))
    assert [style for _, style in found] == ["mark", "code", "code", "code", "mark", "text", "mark", "bold", "mark"]
    assert mode & (CODE | BOLD) == 0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a␛[31mb"),
        ("a\x9b31mb", "a·31mb"),
        ("a\rb\r\nc", "ab\nc"),
        ("a\x0cb\u2028c\x85d", "a\nb\nc\nd"),
        ("a\tb", "a    b"),
        ("a\u202eb", "ab"),
        ("a\ud800b", "a\ufffdb"),
    ],
)
def test_control_codes_never_reach_the_terminal(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_one_huge_line_is_wrapped_in_linear_time() -> None:
    made = Flow(80)
    made.feed("word " * 40_000)
    assert len(made.rows) == 40_000 / 16


def test_a_step_costs_the_same_late_as_early() -> None:
    class Counted(str):
        lengths: list[int] = []  # noqa: RUF012

    made = Flow(80)
    made.feed("word " * 20_000)
    before = len(made.rows)
    made.feed("one more ")
    assert len(made.rows) - before <= 1
    assert len(made.rows[-1].text) <= 80
