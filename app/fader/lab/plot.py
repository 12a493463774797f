"""Plots in a terminal: distribution curves, strips of dots, histograms, stacked bars; in Unicode or ASCII.

Knows numbers and characters, not what they are of. Plots are lists of lines; colour only tells sides apart that also
have characters of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

SIDES = {"a": "36", "b": "33"}
"""Side -> colour of ANSI: cyan and yellow, which differ in brightness too."""


class Look(NamedTuple):
    """What a terminal can show."""

    unicode: bool = True
    colour: bool = False

    def paint(self, side: str, text: str) -> str:
        """Return the text in its side's colour."""
        return f"\x1b[{SIDES[side]}m{text}\x1b[0m" if self.colour and side in SIDES and text else text


def look(environ: Mapping[str, str], tty: bool, encoding: str | None) -> Look:
    """Return how to draw: no colour with NO_COLOR, TERM=dumb or into a file; ASCII where blocks cannot be encoded."""
    try:
        "█▏·●○".encode(encoding or "ascii")
        unicode = True
    except (UnicodeEncodeError, LookupError):
        unicode = False
    colour = tty and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return Look(unicode, colour)


class Axis(NamedTuple):
    """Maps values to columns."""

    low: float
    high: float
    width: int

    def at(self, value: float) -> int:
        """Return the column of a value, those outside at the edges."""
        if self.high <= self.low:
            return self.width // 2
        place = (value - self.low) / (self.high - self.low) * (self.width - 1)
        return min(max(round(place), 0), self.width - 1)

    def labels(self, unit: str) -> str:
        """Return the line under a plot: both ends of the axis."""
        left, right = f"{self.low:,.4g}", f"{self.high:,.4g} {unit}".rstrip()
        return left + right.rjust(max(self.width - len(left), len(right) + 1))


def curves(sides: Mapping[str, Sequence[float]], width: int, height: int, unit: str, look: Look) -> list[str]:
    """Return the share of samples (upwards, 0 to 100 %) below each value (to the right), one mark per side.

    Each side is its percentiles at equal steps, ends included. Where sides meet, `*` stands.
    """
    points = {name: list(values) for name, values in sides.items() if values}
    if not points:
        return []
    every = [value for values in points.values() for value in values]
    axis = Axis(min(every), max(every), width)
    marks = dict(zip(points, "●○" if look.unicode else "ox", strict=False))
    cells: dict[tuple[int, int], str] = {}
    for name, values in points.items():
        for row in range(height):
            share = row / (height - 1) if height > 1 else 0.5
            cell = (row, axis.at(_between(values, share)))
            cells[cell] = name if cells.get(cell, name) == name else "*"
    bar = "│" if look.unicode else "|"
    lines = []
    for row in reversed(range(height)):
        label = f"{row / (height - 1):.0%}" if height > 1 and row in (0, (height - 1) / 2, height - 1) else ""
        drawn = [cells.get((row, column), " ") for column in range(width)]
        text = "".join(look.paint(cell, marks.get(cell, cell)) for cell in drawn)
        lines.append(f"{label:>4} {bar}{text}".rstrip())
    lines.append("      " + axis.labels(unit))
    legend = "  ".join(f"{look.paint(name, mark)} {name}" for name, mark in marks.items())
    return [*lines, f"      {legend}"]


def _between(values: Sequence[float], share: float) -> float:
    place = share * (len(values) - 1)
    low = min(int(place), len(values) - 1)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def dots(sides: Mapping[str, Sequence[float]], width: int, unit: str, look: Look) -> list[str]:
    """Return every sample as a mark on one axis, a line per side; a digit says how many share a column, + more than 9."""
    every = [value for values in sides.values() for value in values]
    if not every:
        return []
    axis = Axis(min(every), max(every), width)
    single = "·" if look.unicode else "."
    lines = []
    for name, values in sides.items():
        counts = [0] * width
        for value in values:
            counts[axis.at(value)] += 1
        text = "".join(" " if not n else single if n == 1 else str(n) if n < 10 else "+" for n in counts)
        lines.append(f"{name} {look.paint(name, text.rstrip())}")
    return [*lines, f"  {axis.labels(unit)}"]


def histogram(
    samples: Sequence[float], width: int, look: Look, low: float | None = None, high: float | None = None
) -> str:
    """Return how samples are spread over `width` equal ranges, as a line of bars; an empty range is a space."""
    if not samples:
        return ""
    axis = Axis(min(samples) if low is None else low, max(samples) if high is None else high, width)
    counts = [0] * width
    for value in samples:
        counts[axis.at(value)] += 1
    steps = "▁▂▃▄▅▆▇█" if look.unicode else ".:-=+*#@"
    most = max(counts)
    return "".join(steps[-(-count * len(steps) // most) - 1] if count else " " for count in counts)


def stacked(sides: Mapping[str, Mapping[str, float]], width: int, unit: str, look: Look) -> list[str]:
    """Return a bar per side, of which each part has its own filling, and a legend with the values.

    The longest bar is as long as `width`; a part below half a column has no column but a place in the legend.
    """
    totals = {name: sum(parts.values()) for name, parts in sides.items()}
    if not totals or not (most := max(totals.values())):
        return []
    names = list(dict.fromkeys(part for parts in sides.values() for part in parts))
    fillings = dict(zip(names, ("█▓▒░▚▞▤▥" if look.unicode else "#=+-:%o~") * 3, strict=False))
    lines = []
    for name, parts in sides.items():
        bar, done = "", 0.0
        for part in names:
            done += parts.get(part, 0.0)
            bar += fillings[part] * (round(done / most * width) - len(bar))
        lines.append(f"{name} {bar} {totals[name]:,.4g} {unit}".rstrip())
    for part in names:
        values = (" → " if look.unicode else " -> ").join(
            f"{parts[part]:,.4g}" if part in parts else "-" for parts in sides.values()
        )
        lines.append(f"  {fillings[part]} {part}: {values} {unit}".rstrip())
    return lines
