"""`Comparer`: a comparison in a chat; columns are set up, asked, stored as they go, kept, chosen blindly, opened again.

Knows chat, store and engine, no screen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from fader_backends.errors import BadValue, FaderError
from fader_plugins.turn import AnyEvent

from ..chat import Chat
from . import export, make, place, spec
from .asked import Asked
from .column import Column
from .report import Report, report
from .sides import Runner, SideBySide
from .values import Comparison, decode, encode

SAVE_S = 1.0
"""How much of the replies may be lost when the app is killed."""
Aside: TypeAlias = Callable[[Callable[[], None]], object]
"""Does something soon."""
SHOWN = 4
"""Most columns on a screen."""


class Comparer:
    """One comparison after the other. `changed` is called when anything but a reply's text changes."""

    def __init__(self, chat: Chat, makers: spec.Makers, runner: Runner, seed: int, changed: Callable[[], None]) -> None:
        self.chat = chat
        self.makers = makers
        self.runner = runner
        self.seed = seed
        self.changed = changed
        self.fair = False
        self.columns: list[Column] = []
        self.side: SideBySide | None = None
        self.number: int | None = None
        """Under which the comparison is stored."""
        self._about: Comparison | None = None
        """What is known of its place; its columns are not kept up to date."""
        self._saved = 0.0
        self._lock = threading.Lock()
        self._turn = self._written = 0
        """How often it was to be written, and the last of these that was."""

    # --- columns ------------------------------------------------------------------------------------------------------

    def set_columns(self, changes: Sequence[spec.Changes]) -> None:
        """Replace all columns. Raises FaderError with the columns as they were."""
        if not 2 <= len(changes) <= SHOWN:
            step = 'More than that: fader compare "question" --sweep …'
            raise BadValue(f"The screen has room for 2 to {SHOWN} columns, not {len(changes)}.", "", step)
        self._idle()
        self.columns = make.columns(self.chat.board, changes, self.makers)
        self.side = self.number = self._about = None
        self.changed()

    def sweep(self, text: str) -> None:
        """Fill the columns from a range, on top of what all of them change alike. Raises FaderError."""
        shared = dict(set.intersection(*(set(column.changes.items()) for column in self.columns)))
        self.set_columns([{**shared, **one} for one in spec.sweep(text, self.chat.board, self.seed)])

    def add(self, changes: spec.Changes) -> None:
        """Add a column. Raises FaderError."""
        self.set_columns([*(column.changes for column in self.columns), changes])

    def drop(self, column: Column) -> None:
        """Take a column away. Raises FaderError."""
        self.set_columns([one.changes for one in self.columns if one is not column])

    def edit(self, column: Column, changes: Mapping[str, str]) -> None:
        """Let a column change these, from its next run on; an empty value takes one back. Raises FaderError."""
        merged = {**column.changes, **changes}
        make.change(column, self.chat.board, {name: value for name, value in merged.items() if value}, self.makers)
        self.changed()

    # --- running ------------------------------------------------------------------------------------------------------

    def ask(self, text: str) -> None:
        """Ask `text` in every column; empty: the chat's last question. Raises FaderError with nothing started."""
        self._idle()
        where = place.stand(self.chat, text)
        changes = [column.changes for column in self.columns]
        self.columns = make.columns(self.chat.board, changes, self.makers)  # the chat's settings may have changed
        asked = Asked(owner=where.conversation, messages=where.messages, now=where.clock, seed=self.seed)
        self._lay(asked)
        self.number, self._about = None, None
        comparison = msgspec.structs.replace(
            self.comparison(), conversation=where.conversation, parent=where.parent, question=where.question
        )
        self._about = comparison
        self.save()
        assert self.side is not None
        self.side.start()
        self.changed()

    def _lay(self, asked: Asked) -> None:
        self.side = SideBySide(
            self.columns,
            asked,
            self.runner,
            nanoseconds=self.chat.nanoseconds,
            new_id=self.chat.new_id,
            fair=self.fair,
            changed=self._ended,
        )

    def restart(self, column: Column) -> None:
        """Run a column again. Raises FaderError when nothing was asked yet."""
        self.running().restart(column)
        self.changed()

    def running(self) -> SideBySide:
        """Return the columns that were asked. Raises FaderError before that."""
        if self.side is None:
            raise FaderError("Nothing was asked yet.", "", "Write a question below and press Enter.")
        return self.side

    @property
    def busy(self) -> bool:
        """Whether any column runs or waits."""
        return self.side is not None and self.side.busy

    def on_event(self, event: AnyEvent) -> None:
        """Take one event of the engine."""
        if self.side is not None:
            self.side.on_event(event)

    def _ended(self) -> None:
        self.save()
        self.changed()

    def _idle(self) -> None:
        if self.busy:
            raise FaderError("Columns are running.", "", "Press Esc to stop them first.")

    # --- what becomes of it -------------------------------------------------------------------------------------------

    def comparison(self) -> Comparison:
        """Return the comparison as it stands."""
        now = make.stored(self.running(), self.chat.now(), self.chat.board.profile.name)
        if self._about is None:
            return now
        about = self._about
        return msgspec.structs.replace(about, columns=now.columns, fair=now.fair)

    def report(self) -> Report:
        """Return it as exports show it."""
        return report(self.comparison())

    def flush(self, aside: Aside) -> None:
        """Have what there is written, when a second has passed since it was written last."""
        if self.busy and self.chat.seconds() - self._saved >= SAVE_S:
            self.save(aside)

    def save(self, aside: Aside = lambda write: write()) -> None:
        """Write the comparison; `aside` may do it on another thread, for the disk takes its time. Raises StoreError."""
        self._saved = self.chat.seconds()
        comparison, number = self.comparison(), self.number
        data, self._turn = encode(comparison), self._turn + 1
        turn = self._turn

        def write() -> None:
            with self._lock:
                if turn > self._written:  # else something newer has overtaken it
                    self._written = turn
                    self.number = self.chat.store.put_comparison(
                        data, comparison.prompt, len(comparison.columns), comparison.conversation, number
                    )

        aside(write)

    def keep(self, column: Column) -> str:
        """Put a column's reply into the conversation and stop the others; return what must be said. Raises FaderError."""
        if column.state == "running":
            raise FaderError(f"Column {column.letter} is still writing.", "", "Let it end, or stop it first.")
        kept, notice = place.keep(self.chat, self.comparison(), self.columns.index(column))
        self._about = kept
        self.save()
        return notice

    def choose(self, column: Column) -> None:
        """Note that this column was picked without knowing which is which. Raises FaderError."""
        self._idle()
        if not column.text:
            raise FaderError("This column has no reply.", "", "Pick one that has.")
        self.chat.store.choose(column.title, [one.title for one in self.columns if one.text])

    def export(self, path: Path) -> None:
        """Write it to a file as its ending says. Raises FaderError."""
        export.write(self.report(), path)

    def open(self, number: int) -> None:
        """Show a stored comparison; asking or restarting runs it again. Raises FaderError."""
        self._idle()
        comparison = decode(self.chat.store.comparison(number), str(number))
        self.seed, self.fair, self.number, self._about = comparison.seed, comparison.fair, number, comparison
        self.columns = make.reopened(comparison, self.chat.board, self.makers)
        owner = comparison.conversation or f"comparison-{number}"
        asked = Asked(owner=owner, messages=comparison.messages, now=comparison.clock, seed=comparison.seed)
        self._lay(asked)
        self.changed()

    def again(self) -> None:
        """Run all columns of what was asked again. Raises FaderError."""
        self._idle()
        self.running().fair = self.fair
        self.running().start()
        self.changed()
