"""`/why`: a sheet on what each mechanism did for the last turn.

Knows where the last turn's record is and how to show reasons, not how they come about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fader_backends.errors import FaderError
from fader_plugins.turn import RunRecord

from ..why import Reason, why
from .flow import clean
from .messages import record_of
from .screens import HelpScreen

if TYPE_CHECKING:
    from .talk import Talk


def show(app: Talk) -> None:
    """Open the sheet. Raises FaderError when no turn has ended yet."""
    record = next(filter(None, map(record_of, reversed(app.ready().nodes()))), None)
    if record is None:
        raise FaderError("No turn has ended yet in this conversation.", "", "Send a message first.")
    app.push_screen(WhyScreen([_title(record), *map(_section, why(record))]))


class WhyScreen(HelpScreen):
    """What each mechanism saved and cost."""


def _title(record: RunRecord) -> tuple[str, list[tuple[str, str]]]:
    n = record.numbers
    times = [f"{name} {value:,.0f} ms" for name, value in (("TTFT", n.ttft_ms), ("TPOT", n.tpot_ms)) if value]
    rows = [("", clean(" · ".join([*times, f"{n.output_tokens:,} tokens"])))]
    return "The last turn", [*rows, ("device", clean(n.device))] if " (" in n.device else rows


def _section(reason: Reason) -> tuple[str, list[tuple[str, str]]]:
    rows = [("saved", reason.saved), ("cost", reason.cost), ("baseline", reason.baseline), ("off", reason.off)]
    return clean(reason.mechanism), [(name, clean(text)) for name, text in rows if text]
