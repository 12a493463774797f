"""`Evidence`: what the lab does in the chat: the live gate, the breakdown of a change, bundles, and what is recorded.

Knows the app's parts by name; what is judged and written is `fader.lab`'s. The lab is imported when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from fader_backends.errors import FaderError, UsageError
from textual.binding import Binding, BindingType

from .actions import Actions
from .contain import contained

if TYPE_CHECKING:
    from ..chat import Turn
    from ..lab.live import Trip, Watch
    from ..profiles import Profile

MIB = 16
"""What the turns may take when recording is switched on again."""


class Evidence(Actions):
    """What the chat is held against, and what can be made of its turns."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f5", "breakdown", "Breakdown")]
    limits: Watch | None = None
    """None: the profile names no limits."""
    viewed: Turn | None
    """The turn that runs in view."""
    sent_ns = 0
    """When the last turn was sent, on the clock of requests."""
    remark = ""
    """What is to be said below the running reply."""

    # --- the live gate ------------------------------------------------------------------------------------------------

    @contained
    def watch_chat(self) -> None:
        """Hold the chat against the limits of the profile from now on; one that cannot be meant is shown."""
        self.limits, self.remark = None, ""
        board = self.side.board
        if board is not None and board.profile.watch:
            from ..lab import live

            self.limits = live.Watch(live.parse(board.profile.watch, f"watch of profile {board.profile.name!r}"))

    def thrown(self, key: str, before: Any, after: Any) -> None:
        """Note that a switch or setting was changed."""
        if self.limits is not None:
            self.limits.thrown(key, before, after)

    def gate_begins(self, turn: Turn) -> None:
        """Note that a turn was sent."""
        self.sent_ns, self.remark = turn.request.submitted_ns, ""
        if self.limits is not None:
            self.limits.begin()

    @contained
    def gate_looks(self, turn: Turn) -> None:
        """Hold a running reply against the limits."""
        if self.limits is not None and (trip := self.limits.look(turn.stats)) is not None:
            self.notify(self.put_back(trip), title="Limit", severity="warning", timeout=12, markup=False)

    @contained
    def gate_ends(self, turn: Turn) -> None:
        """Hold a turn that ended against the limits, before the next one is sent; say below its reply what came of it."""
        if self.limits is not None and (trip := self.limits.end(turn.stats)) is not None:
            self.put_back(trip)
        if self.remark:
            self.transcript.remarks[turn.reply.id] = self.remark
            self.call_later(
                self.side.comparison.switched
            )  # once this turn's numbers stand there: it is from before now

    def put_back(self, trip: Trip) -> str:
        """Put the setting back that a limit was broken with; return the line that says so."""
        from ..lab import live

        back, self.remark = trip.back, live.told(trip)
        if back is not None:
            try:
                plugin, _, key = back.key.partition(".")
                if key:
                    self.side.set_value(plugin, key, back.after, live=False)  # the reply that runs is the evidence
                else:
                    self.side.throw(plugin, back.after)
            except FaderError as error:
                self.remark = f"{live.measured(trip)} {back.key} could not be put back: {error}"
        return self.remark

    def set_watch(self, text: str) -> None:
        """Hold the chat against one limit, `off`: none; empty: say what it is held against. Raises FaderError."""
        board = self.ready().board
        if text:
            from ..lab import live

            limits = [] if text.lower() == "off" else [text]
            live.parse(limits, "/watch")
            self.become(msgspec.structs.replace(board.profile, watch=limits))
            self.watch_chat()
        said = "; ".join(board.profile.watch)
        self.notify(f"Held against: {said}." if said else "Held against no limit.", title="Watch", markup=False)

    # --- the breakdown ------------------------------------------------------------------------------------------------

    def action_breakdown(self) -> None:
        """Show where time went before the last switch and since. Raises FaderError where there are no two turns."""
        from .breakdown import opened

        opened(self)

    @contained
    def on_overlay_asked(self) -> None:
        """A click on the numbers."""
        self.action_breakdown()

    # --- bundles and recording ----------------------------------------------------------------------------------------

    def bundle(self, argument: str) -> None:
        """Make a bundle of the last two turns that compare, or of the comparison where that came later."""
        from . import bundling

        bundling.of_chat(self, bundling.with_text(argument, "/bundle"))

    def record(self, argument: str) -> None:
        """Keep turns' events, or keep none; empty: say which. Raises UsageError."""
        if argument not in ("", "on", "off"):
            raise UsageError("/record takes on or off.", "", "/record alone says what is kept.")
        board = self.ready().board
        if argument:
            kept = board.profile.record_mib or MIB
            self.become(msgspec.structs.replace(board.profile, record_mib=kept if argument == "on" else 0))
        mib = board.profile.record_mib
        said = f"The events of the last turns are kept, in at most {mib} MiB." if mib else "No turn's events are kept."
        self.notify(f"{said} Save as profile (Ctrl+P) makes it last.", title="Recording", markup=False)

    def become(self, profile: Profile) -> None:
        """Use another profile of the same switches."""
        self.profile = self.ready().board.profile = profile
