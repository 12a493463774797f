"""`Flow`: growing text wrapped into rows of cells, at a cost per piece that does not depend on what came before.

Knows no widget and no colour: rows carry the names of styles.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

FENCE, BOLD, CODE, HEAD = 1, 2, 4, 8
"""Bits of the mode a row begins in."""
PIECE = 256
"""Characters wrapped at a time, so that one huge piece costs no more than many small ones."""

Span = tuple[str, str]
"""Text, and the name of its style: text, bold, code, mark, head."""

_MARK = re.compile(r"(\*\*|`+)")


def _characters() -> dict[int, str]:
    table = {code: chr(0x2400 + code) for code in range(0x20)}
    table |= dict.fromkeys(range(0x80, 0xA0), "·")
    table |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), "")
    table |= dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
    table |= dict.fromkeys((0x0A, 0x0B, 0x0C, 0x85, 0x2028, 0x2029), "\n")
    return table | {0x0D: "", 0x09: "    ", 0x7F: "␡"}


_CHARACTERS = _characters()


def clean(text: str) -> str:
    """Return text that is safe to draw: no control codes, no direction overrides, one kind of line end."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_CHARACTERS)


class Row(NamedTuple):
    """One row of cells."""

    text: str
    mode: int
    begins: bool
    """Whether a line of the text begins here, not just a row of it."""


class Flow:
    """Text wrapped at `width` cells. Only the last row is ever changed by `feed`."""

    def __init__(self, width: int) -> None:
        self.width = max(width, 2)
        self.rows: list[Row] = [Row("", 0, True)]

    def feed(self, text: str) -> int:
        """Append text; return the index of the first row that changed."""
        first = len(self.rows) - 1
        for number, line in enumerate(clean(text).split("\n")):
            if number:
                self._end_line()
            for start in range(0, len(line), PIECE):
                self._append(line[start : start + PIECE])
        return first

    def _append(self, piece: str) -> None:
        row = self.rows[-1]
        text = row.text + piece
        if len(text) * 2 <= self.width or cell_len(text) <= self.width:
            self.rows[-1] = row._replace(text=text)
            return
        while cell_len(text) > self.width:
            cut = self._cut(text)
            done = row._replace(text=text[:cut].rstrip(" "))
            text = text[cut:].removeprefix(" ")
            self.rows[-1] = done
            row = Row("", spans(done)[1], False)
            self.rows.append(row)
        self.rows[-1] = row._replace(text=text)

    def _cut(self, text: str) -> int:
        """Return where the row ends: after its last word, or inside a word that is wider than the row."""
        fitting = self.width if text.isascii() else len(chop_cells(text, self.width)[0])
        if text[fitting] == " ":
            return fitting
        space = text.rfind(" ", 0, fitting)
        return space + 1 if space > 0 and text[:space].strip() else max(fitting, 1)

    def _end_line(self) -> None:
        mode = spans(self.rows[-1])[1] & FENCE
        self.rows.append(Row("", mode, True))


def spans(row: Row) -> tuple[list[Span], int]:
    """Return a row's styled pieces, and the mode in which the next row of the same line begins."""
    text, mode = row.text, row.mode
    bare = text.lstrip()
    if row.begins and bare.startswith(("```", "~~~")):
        return [(text, "mark")], mode ^ FENCE
    if mode & FENCE:
        return [(text, "code")], mode
    if row.begins and bare.startswith("#") and bare.lstrip("#").startswith(" "):
        mode |= HEAD
    if "*" not in text and "`" not in text:
        return ([(text, _style(mode))] if text else []), mode
    found: list[Span] = []
    for part in _MARK.split(text):
        if part.startswith("`"):
            mode ^= CODE
            found.append((part, "mark"))
        elif part == "**" and not mode & CODE:
            mode ^= BOLD
            found.append((part, "mark"))
        elif part:
            found.append((part, _style(mode)))
    return found, mode


def _style(mode: int) -> str:
    if mode & CODE:
        return "code"
    return "head" if mode & HEAD else "bold" if mode & BOLD else "text"
