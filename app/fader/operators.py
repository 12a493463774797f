"""Tables of operators as rows of text, for the command line and the screen.

Knows figures, no screen.
"""

from __future__ import annotations

from fader_backends.operators import Operators


def rows_of(one: Operators) -> list[tuple[str, str, str]]:
    """Return a table's rows, its title first: what, calls, and milliseconds, all per token. Facts are apart."""
    rows = [
        (one.label.upper(), "CALLS", "MS"),
        ("step, nobody looking", "", f"{one.step_ms:.2f}"),
    ]
    if one.calls is not None:
        rows.append(("operator calls", f"{one.calls:,.0f}", ""))
    if one.kernels is not None:
        rows.append(("kernels", f"{one.kernels:,.0f}", ""))
    rows += [(f"  {each.name}", f"{each.calls:,.0f}", f"{each.ms:.2f}") for each in one.classes]
    return rows
