"""Owns one sequence of tokens in a llama.cpp context, and keeps the two in step.

Knows its row; other rows and batches are the backend's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fader_backends.base import Scores, Session, SessionState
from fader_backends.batches import check_room, extensions
from fader_backends.errors import BadScores, NotSupported, OutOfMemory

if TYPE_CHECKING:
    from fader_backends.llamacpp.backend import LlamaCpp


class LlamaSession:
    """A row of the context. `base.Session` says what each method promises."""

    def __init__(self, backend: LlamaCpp, row: int) -> None:
        self._backend = backend
        self.row = row
        """Sequence id; -1 once closed."""
        self.held: list[int] = []
        self.lost = False
        """The context no longer holds `held`; it is evaluated again before the next use."""

    @property
    def tokens(self) -> Sequence[int]:
        """The evaluated tokens. Do not change them."""
        return self.held

    def extend(self, tokens: Sequence[int], rows: int = 1) -> Scores:
        """Evaluate `tokens`, in as many calls as their number takes; all of them, or none when it raises."""
        before, batch = len(self.held), self._backend.context.batch
        check_room(self._backend.context, before + len(tokens))
        scores: list[Scores] = []
        try:
            for part in extensions(self, tokens, rows, batch):
                scores.append(self._backend.evaluate([part])[0].copy())
                if not all(math.isfinite(row.max()) for row in scores[-1]):  # the maximum of a row with a NaN is NaN
                    raise BadScores(
                        "The model returned scores that are no numbers.",
                        "The model file may be damaged, or its number type overflows on this device.",
                        "Try another quantisation, or flash_attention = off.",
                    )
        except BaseException:
            if len(self.held) > before:
                self.restore(before)
            raise
        return scores[0] if len(scores) == 1 else np.concatenate(scores)

    def rewind(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        context = self._backend.context_of(self)
        if not 0 <= length <= len(self.held):
            raise ValueError(f"cannot rewind {len(self.held)} tokens to {length}")
        if length == len(self.held):
            return
        if not self.lost and not context.reaches(self.row, length):
            raise NotSupported(
                "This model cannot take back so many tokens.", "It has forgotten what lies before its attention window."
            )
        if not self.lost and not context.cut(self.row, length if length else -1):
            raise NotSupported(
                "This model cannot take tokens back.", "Its state is a running sum, not a list of tokens."
            )
        del self.held[length:]

    def restore(self, length: int) -> None:
        """Go back to the first `length` tokens after a call that went wrong, whatever it left behind."""
        context = self._backend.context_of(self)
        if not self.lost and not (
            context.reaches(self.row, length) and context.cut(self.row, length if length else -1)
        ):
            context.cut(self.row, -1)
            self.lost = True
        del self.held[length:]

    def fork(self) -> LlamaSession:
        """Return a session that holds the same tokens; they share their state until one is changed."""
        other = self._backend.open()
        other.copy(self)
        return other

    def copy(self, other: Session) -> None:
        """Hold what `other` holds; they share their state until one is changed."""
        if not isinstance(other, LlamaSession):
            raise ValueError("this session is another backend's")
        context = self._backend.context_of(self)
        self._backend.context_of(other)
        if other is self:
            return
        context.cut(self.row, -1)
        self.held, self.lost = list(other.held), other.lost
        if self.held and not self.lost and not context.share(other.row, self.row):
            context.cut(self.row, -1)
            self.lost = True

    def save(self) -> SessionState:
        """Copy tokens and state out."""
        self._backend.rebuild(self)
        data = self._backend.context_of(self).save(self.row) if self.held else b""
        return SessionState(tuple(self.held), self._backend.state_key, data)

    def load(self, state: SessionState) -> None:
        """Replace what is held by `state`."""
        context = self._backend.context_of(self)
        if state.key != self._backend.state_key:
            raise NotSupported(
                "This saved state belongs to another model or context.", f"It is for {state.key}.", "Start without it."
            )
        context.cut(self.row, -1)
        if state.tokens and not context.load(self.row, state.data):
            context.cut(self.row, -1)
            self.lost = bool(self.held)
            raise OutOfMemory(
                f"There is no room for {len(state.tokens):,} saved tokens.", "", "Close other rows first."
            )
        self.held, self.lost = list(state.tokens), False

    def close(self) -> None:
        """Give the row back."""
        if self.row >= 0:
            self._backend.release(self)
            self.row, self.held, self.lost = -1, [], False
