"""Which settings won blind choices, and how sure that is.

Knows stored choices only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import msgspec

from ..store import Choice

Z = 1.96
"""Standard deviations of a 95 % interval."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One setting's record in blind choices."""

    setting: str
    """What its column changed."""
    shown: int
    won: int
    share: float
    """Won / shown."""
    expected: float
    """What chance alone would give: the mean of 1 / number of columns."""
    low: float
    high: float
    """95 % Wilson interval of the share."""


def standings(choices: Iterable[Choice]) -> list[Standing]:
    """Return every setting that was shown, best share first."""
    shown: Counter[str] = Counter()
    won: Counter[str] = Counter()
    luck: Counter[str] = Counter()
    for choice in choices:
        won[choice.winner] += 1
        for setting in set(choice.shown):
            shown[setting] += 1
            luck[setting] += choice.shown.count(setting) / len(choice.shown)  # type: ignore[assignment]
    rows = []
    for setting, times in shown.items():
        low, high = wilson(won[setting], times)
        rows.append(
            Standing(
                setting=setting,
                shown=times,
                won=won[setting],
                share=won[setting] / times,
                expected=luck[setting] / times,
                low=low,
                high=high,
            )
        )
    return sorted(rows, key=lambda row: (-row.share, -row.shown, row.setting))


def wilson(won: int, times: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson, 1927); it stays in 0 to 1 for few trials."""
    share, square = won / times, Z * Z / times
    middle = (share + square / 2) / (1 + square)
    half = Z * math.sqrt(share * (1 - share) / times + square / (4 * times)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)
