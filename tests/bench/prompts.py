"""Prompts of a wanted size that differ from their first word on, and yet have one shape."""

from __future__ import annotations

import bisect
from collections.abc import Callable

SUBJECTS = (
    "tide",
    "garden",
    "engine",
    "library",
    "harbour",
    "winter",
    "orchard",
    "signal",
    "river",
    "market",
    "lantern",
)
VERBS = ("carries", "remembers", "measures", "crosses", "repairs", "follows", "answers", "gathers", "describes")
OBJECTS = (
    "every letter",
    "the old bridge",
    "a quiet number",
    "its own shadow",
    "the first frost",
    "two small boats",
    "a map",
)


def prompt(number: int, size: int, measure: Callable[[str], int] = len) -> str:
    """Return prompt `number`, its size at `size` or just below as `measure` counts it (characters by default)."""
    words = f"{SUBJECTS[number % 11].title()} {number}.".split()
    at = 0
    while len(words) < size:
        words += sentence(number, at).split()
        at += 1
    return " ".join(
        words[: bisect.bisect_right(range(len(words)), size, key=lambda end: measure(" ".join(words[:end]))) - 1]
    )


def sentence(number: int, at: int) -> str:
    """Return the `at`-th sentence of prompt `number`."""
    k = number * 17 + at * 7 + at * at
    return f"The {SUBJECTS[k % 11]} {VERBS[(k + at) % 9]} {OBJECTS[(k + number) % 7]} in part {at % 10} of year {k % 90 + 10}."
