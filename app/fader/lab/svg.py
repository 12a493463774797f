"""Plots as inline SVG: distribution curves and stacked bars. Colours and strokes are the page's classes.

Knows numbers, not what they are of. Names are escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 320, 160
LEFT, BOTTOM, TOP, RIGHT = 34, 22, 6, 8
LINE = 16
"""Height of a bar and of a line of a legend."""
SHADES = (1.0, 0.68, 0.44, 0.26, 0.14)


def curves(sides: Mapping[str, Sequence[float]], unit: str) -> str:
    """Return the share of samples (upwards) below each value (to the right); empty without samples.

    Each side is its percentiles at equal steps, ends included; its name is the class of its line.
    """
    every = [value for values in sides.values() for value in values]
    if not every:
        return ""
    low, high = min(every), max(every)
    span, right, floor = (high - low) or 1.0, WIDTH - RIGHT, HEIGHT - BOTTOM

    def place(value: float, share: float) -> str:
        x = LEFT + (value - low) / span * (right - LEFT)
        return f"{x:.1f},{floor - share * (floor - TOP):.1f}"

    drawn = [
        f'<polyline class="{escape(name)}" stroke-width="2" points="'
        + " ".join(place(value, step / max(len(values) - 1, 1)) for step, value in enumerate(values))
        + '"/>'
        for name, values in sides.items()
        if values
    ]
    axis = f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{floor}H{right}"/>'
    marks = [(LEFT - 4, floor, "end", "0 %"), (LEFT - 4, TOP + 9, "end", "100 %")]
    marks += [(LEFT, HEIGHT - 7, "start", f"{low:,.4g}"), (right, HEIGHT - 7, "end", f"{high:,.4g} {unit}")]
    return _svg(HEIGHT, axis + "".join(_text(*mark) for mark in marks) + "".join(drawn))


def bars(sides: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """Return a bar per side, of which each part has its own shade, above a legend with the values; empty where all is 0."""
    most = max((sum(parts.values()) for parts in sides.values()), default=0.0)
    if most <= 0:
        return ""
    names = list(dict.fromkeys(part for parts in sides.values() for part in parts))
    shade = {name: SHADES[min(place, len(SHADES) - 1)] for place, name in enumerate(names)}
    drawn, y = "", 0
    for side, parts in sides.items():
        drawn += _text(LEFT - 20, y + 12, "start", side)
        x = float(LEFT)
        for name in names:
            width = parts.get(name, 0.0) / most * (WIDTH - LEFT - RIGHT)
            drawn += f'<rect class="part" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE - 3}" opacity="{shade[name]}"/>'
            x += width
        y += LINE
    for name in names:
        values = " → ".join(f"{parts.get(name, 0.0):,.4g}" for parts in sides.values())
        drawn += f'<rect class="part" x="{LEFT}" y="{y + 5}" width="9" height="9" opacity="{shade[name]}"/>'
        drawn += _text(LEFT + 14, y + 14, "start", f"{name}: {values} {unit}")
        y += LINE
    return _svg(y + 4, drawn)


def _svg(height: int, inside: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">{inside}</svg>'


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
