"""Owns one session: its tokens, and its share of keys and values.

Knows other sessions only to share with them; batches are the backend's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fader_backends.base import Scores, Session, SessionState
from fader_backends.batches import check_room, extensions
from fader_backends.errors import NotSupported
from fader_backends.torch_hf import states
from fader_backends.torch_hf.cache import Held

if TYPE_CHECKING:
    from fader_backends.torch_hf.backend import TorchBackend


class TorchSession:
    """A row. `base.Session` says what each method promises."""

    def __init__(self, backend: TorchBackend, held: Held) -> None:
        self._backend = backend
        self.held = held
        self.ids: list[int] = []

    @property
    def tokens(self) -> Sequence[int]:
        """The evaluated tokens. Do not change them."""
        return self.ids

    def extend(self, tokens: Sequence[int], rows: int = 1) -> Scores:
        """Evaluate `tokens`, in as many calls as their number takes; all of them, or none when it raises."""
        before, batch = len(self.ids), self._backend.context.batch
        self._backend.check_open(self)
        check_room(self._backend.context, before + len(tokens))
        scores: list[Scores] = []
        try:
            for part in extensions(self, tokens, rows, batch):
                scores += self._backend.all_scores([part])
        except BaseException:
            self.rewind(before)
            raise
        return scores[0] if len(scores) == 1 else np.concatenate(scores)

    def rewind(self, length: int) -> None:
        """Forget everything after the first `length` tokens."""
        self._backend.check_open(self)
        if not 0 <= length <= len(self.ids):
            raise ValueError(f"cannot rewind {len(self.ids)} tokens to {length}")
        del self.ids[length:]
        self.held.length = length

    def fork(self) -> TorchSession:
        """Return a session that holds the same tokens; they share their state until both go on."""
        other = self._backend.open()
        other.copy(self)
        return other

    def copy(self, other: Session) -> None:
        """Hold what `other` holds; they share their state until both go on."""
        self._backend.check_open(self)
        if not isinstance(other, TorchSession):
            raise ValueError("this session is another backend's")
        self._backend.check_open(other)
        if other is self:
            return
        self.held.share(other.held)
        self.ids = list(other.ids)

    def save(self) -> SessionState:
        """Copy tokens and state out, the state in safetensors form."""
        self._backend.check_open(self)
        return SessionState(tuple(self.ids), self._backend.state_key, states.pack(self.held) if self.ids else b"")

    def load(self, state: SessionState) -> None:
        """Replace what is held by `state`."""
        self._backend.check_open(self)
        if state.key != self._backend.state_key:
            raise NotSupported(
                "This saved state belongs to another model or context.", f"It is for {state.key}.", "Start without it."
            )
        check_room(self._backend.context, len(state.tokens))
        fresh = Held(self.held.store.kinds, self.held.store.limit)
        if state.tokens:
            states.unpack(fresh, state.data, len(state.tokens), self._backend.device)
        self.held.drop()
        self.held, self.ids = fresh, list(state.tokens)

    def close(self) -> None:
        """Give the row back."""
        self._backend.release(self)
        self.held.drop()
        self.ids = []
