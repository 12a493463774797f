"""`Comparison`: what each number was before the last switch was thrown, and how to say the change.

Knows readings, not the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fader_plugins.turn import Reading

if TYPE_CHECKING:
    from ..metrics import Stats


class Comparison:
    """Keeps the readings of the last whole turn, and of the one before the last switch."""

    def __init__(self) -> None:
        self.last: dict[str, Reading] = {}
        self.before: dict[str, Reading] = {}
        self.turn: Stats | None = None
        """The turn of `last`."""
        self.turn_before: Stats | None = None
        """The turn of `before`."""
        self.pair: tuple[Stats | None, Stats | None] = (None, None)
        """The turns whose change was drawn last: before, and then."""

    def turned(self, readings: Sequence[Reading], turn: Stats | None = None) -> None:
        """Take in a turn that came to its end, and its readings; stopped and failed turns are not given."""
        self.last, self.turn = {reading.key: reading for reading in readings}, turn
        self.pair = self.turn_before, turn

    def switched(self) -> None:
        """Note that a switch or setting was changed now."""
        if self.last:
            self.before, self.turn_before = self.last, self.turn

    def change(self, reading: Reading) -> tuple[str, str]:
        """Return the change as text, and whether it is good, bad or neither."""
        before = self.before.get(reading.key)
        if before is None or not isinstance(before.value, int | float) or not isinstance(reading.value, int | float):
            return "", "neither"
        difference = reading.value - before.value
        if abs(difference) * 10**reading.digits < 0.5:
            return "=", "neither"
        if not before.value:
            return f"{difference:+,.{reading.digits}f}", _sense(reading, difference)
        percent = 100 * difference / before.value
        text = f"×{reading.value / before.value:.1f}" if percent > 900 else f"{percent:+.0f} %"
        small = abs(percent) < 0.5
        return ("=" if small else text), "neither" if small else _sense(reading, difference)


def _sense(reading: Reading, difference: float) -> str:
    if reading.better == "neither":
        return "neither"
    return "good" if (difference < 0) == (reading.better == "lower") else "bad"


def shown(reading: Reading) -> str:
    """Return a reading's value with its unit."""
    if reading.value is None:
        return "—"
    if isinstance(reading.value, str):
        return reading.value
    return f"{reading.value:,.{reading.digits}f} {reading.unit}".rstrip()
