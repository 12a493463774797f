"""How the distance of two models' words is printed: the columns that every quality gate shares.

Knows no backend.
"""

from __future__ import annotations

from ..quality import Distance

MEASURED_HEAD = "SAVED   KL MEAN     KL P95     KL MAX   SAME BEST   GREEDY AGAINST"


def measured_text(one: Distance, saved: float | None) -> str:
    """Return a comparison's part of a line under `MEASURED_HEAD`."""
    greedy = f"the same {one.greedy_tokens} tokens"
    if one.divergence is not None:
        parted = one.divergence
        greedy = f"parts after {parted.at}: {parted.got!r} for {parted.wanted!r}, which led by {parted.gap:.2f}"
    less = "-" if saved is None else f"{saved:.0%}"
    return f"{less:>6} {one.kl_mean:>9.5f}  {one.kl_p95:>9.5f}  {one.kl_max:>9.5f} {one.same_best:>11.1%}   {greedy}"
