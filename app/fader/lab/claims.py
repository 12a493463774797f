"""Claims: which of the main figures can be told from noise, and where a middle gains what a tail pays.

Knows figures; says nothing in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .values import Compared, Figure

MAIN = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
"""Metrics that a conclusion may rest on; the others follow from them."""
MINOR = {"itl_ms": 2, "e2e_ms": 1}
"""What is named after the others where several figures changed."""


class Claim(NamedTuple):
    """One statistic that can be told from noise."""

    figure: Figure
    compared: Compared

    @property
    def better(self) -> bool:
        """Whether it is a gain."""
        return self.compared.verdict == "better"

    @property
    def size(self) -> float:
        """How large the change is, the same in both directions."""
        return max(self.compared.ratio, 1 / self.compared.ratio) if self.compared.ratio > 0 else float("inf")

    @property
    def middle(self) -> bool:
        """Whether it is about the middle of the samples, not a tail."""
        return self.compared.statistic in ("p50", "mean")


def claims(figures: Sequence[Figure]) -> list[Claim]:
    """Return what of the main figures can be told from noise, over all cases, the largest change first."""
    found = [
        Claim(figure, compared)
        for figure in figures
        if figure.metric in MAIN and not figure.case
        for compared in figure.compared
        if compared.verdict in ("better", "worse")
    ]
    return sorted(found, key=lambda claim: (MINOR.get(claim.figure.metric, 0), -claim.size))


def torn(figures: Sequence[Figure]) -> list[tuple[Claim, Claim]]:
    """Return pairs (gain in the middle, loss in the tail) of one phase: TTFT, or decoding as TPOT and ITL tell of it."""
    found = claims(figures)
    gains = [one for one in found if one.better and one.middle]
    gains.sort(key=lambda one: one.compared.statistic, reverse=True)  # p50 before mean
    losses = [one for one in found if not one.better and not one.middle]
    losses.sort(key=lambda one: one.compared.statistic, reverse=True)  # p99 before p95
    return [(one, other) for one in gains for other in losses if _family(one) == _family(other)]


def _family(claim: Claim) -> tuple[str, str]:
    return ("decode" if claim.figure.metric in ("tpot_ms", "itl_ms") else claim.figure.metric, claim.figure.condition)
