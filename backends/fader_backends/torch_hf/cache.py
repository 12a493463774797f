"""Owns the keys and values of sessions, and the one adapter between them and transformers' cache protocol.

Knows neither tokens nor models. Written against transformers 5.24, whose models call `cache.update` once in each layer and
hand what it returns to the attention function. Here that is a `Parts`: one tensor for each session of a call, so that rows of
any lengths share the matrix products without padding, and each attends to its own keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Cache

from fader_backends.torch_hf.kv_types import Buffer, make

STEP = 256
"""Buffers grow to a multiple of this, and at least by half."""


class Kinds(NamedTuple):
    """How keys and values are kept."""

    keys: str = ""
    """A name of `kv_types.NAMES`; empty: the model's own type."""
    values: str = ""
    whole: bool = False
    """Whether buffers are made for the whole context at once."""


class Store:
    """Buffers of all layers, used by one session, or by several that share a beginning."""

    def __init__(self, kinds: Kinds, limit: int) -> None:
        """Take the most tokens it may ever hold."""
        self.kinds = kinds
        self.limit = limit
        self.layers: dict[int, tuple[Buffer, Buffer]] = {}
        self.capacity = 0
        self.users = 1
        self.top = 0
        """Places that may belong to some user; only kept while there are several."""
        self.keys: Any = None
        """What `graph` makes of the buffers, once; None until it does."""

    def reserve(self, length: int) -> None:
        """Make room for `length` tokens."""
        if length <= self.capacity:
            return
        wanted = self.limit if self.kinds.whole else max(length, self.capacity * 3 // 2)
        capacity = min(self.limit, -(-wanted // STEP) * STEP)
        grown = {
            layer: (_grown(keys, capacity), _grown(values, capacity)) for layer, (keys, values) in self.layers.items()
        }
        self.layers, self.capacity, self.keys = grown, capacity, None

    def clone(self, length: int) -> Store:
        """Return a store of its own with the first `length` tokens."""
        twin = Store(self.kinds, self.limit)
        twin.capacity = self.capacity
        for layer, pair in self.layers.items():
            keys, values = (_copied(buffer, self.capacity if self.kinds.whole else length) for buffer in pair)
            twin.layers[layer] = keys, values
        return twin

    def buffers(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Buffer, Buffer]:
        """Return a layer's buffers, made for states like these where there are none."""
        pair = self.layers.get(layer)
        if pair is None:
            pair = make(self.kinds.keys, keys, self.capacity), make(self.kinds.values, values, self.capacity)
            for part in (part for buffer in pair for part in buffer.parts if self.kinds.whole):
                part.zero_()  # a step of fixed shape multiplies what is empty by nothing, and a NaN would stay one
            self.layers[layer] = pair
        return pair

    @property
    def bytes(self) -> int:
        """What the buffers take."""
        return sum(part.nbytes for pair in self.layers.values() for buffer in pair for part in buffer.parts)


def _grown(buffer: Buffer, capacity: int) -> Buffer:
    def larger(part: Tensor) -> Tensor:
        fresh = part.new_empty(part.shape[0], capacity, *part.shape[2:])
        fresh[:, : part.shape[1]] = part
        return fresh

    return buffer.with_parts(tuple(larger(part) for part in buffer.parts))


def _copied(buffer: Buffer, length: int) -> Buffer:
    def same(part: Tensor) -> Tensor:
        fresh = torch.empty_like(part)
        fresh[:, :length] = part[:, :length]
        return fresh

    return buffer.with_parts(tuple(same(part) for part in buffer.parts))


class Held:
    """One session's share of a store: its first `length` places."""

    def __init__(self, kinds: Kinds, limit: int) -> None:
        self.store = Store(kinds, limit)
        self.length = 0

    def prepare(self, count: int) -> None:
        """Make sure that `count` more places can be written without another session's losing any."""
        store = self.store
        if store.users > 1:
            if self.length < store.top:
                store.users -= 1
                self.store = store = store.clone(self.length)
            else:
                store.top = self.length + count
        store.reserve(self.length + count)

    def share(self, other: Held) -> None:
        """Hold what `other` holds."""
        self.drop()
        store = other.store
        store.top = max(store.top, other.length) if store.users > 1 else other.length
        store.users += 1
        self.store, self.length = store, other.length

    def drop(self) -> None:
        """Hold nothing, and free what nobody else uses."""
        kinds, limit = self.store.kinds, self.store.limit
        self.store.users -= 1
        self.store, self.length = Store(kinds, limit), 0


class Parts:
    """Keys, or values, of the sessions of one call."""

    def __init__(self, batch: Batch, tensors: Sequence[Tensor]) -> None:
        """Take a tensor (1, heads, length, width) for each."""
        self.batch = batch
        self.tensors = tensors


class Batch(Cache):  # type: ignore[misc]  # transformers is looked at as if it had no types
    """The sessions of one call, as transformers' models see them: a cache of one sequence, their tokens end to end."""

    def __init__(self, held: Sequence[Held], counts: Sequence[int]) -> None:
        """Take how many new tokens each session has. `Held.prepare` must have been called for each."""
        super().__init__(layers=[])
        self.held = held
        self.counts = list(counts)
        self.masks: dict[tuple[int, int, int, torch.dtype, torch.device], Tensor] = {}

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Parts, Parts]:
        """Write one layer's new states; return everything each session may attend to."""
        if len(self.held) == 1:
            pairs = [self._one(self.held[0], layer_idx, key_states[0], value_states[0])]
        else:
            split = (torch.split(states[0], self.counts, 1) for states in (key_states, value_states))
            pieces = zip(self.held, *split, strict=True)
            pairs = [self._one(held, layer_idx, keys, values) for held, keys, values in pieces]
        return Parts(self, [keys for keys, _ in pairs]), Parts(self, [values for _, values in pairs])

    @staticmethod
    def _one(held: Held, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        start, end = held.length, held.length + keys.shape[1]
        key_buffer, value_buffer = held.store.buffers(layer, keys, values)
        key_buffer.write(start, keys)
        value_buffer.write(start, values)
        return key_buffer.read(0, end, keys.dtype)[None], value_buffer.read(0, end, values.dtype)[None]

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002 - transformers' signature
        """Return the first session's length; positions are always given, so nothing depends on it."""
        return self.held[0].length

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return length and offset, should a model ask; masks are made in `attention`."""
        return self.get_seq_length(layer_idx) + query_length, 0
