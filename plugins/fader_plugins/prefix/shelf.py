"""`Shelf`: kept prefixes of one tier, within a budget; the least recently used one goes first, pinned ones last.

Knows who owns an entry and how large it is, not what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from .radix import Found, Ids, Radix

T = TypeVar("T")


class Place(NamedTuple):
    """Whose prefixes, computed how. Entries of one place never serve another."""

    owner: str | None
    """The conversation; None for what serves every one: system prompts, where the setting `share` allows it."""
    key: str
    """Equal keys mean equal bits: model, context layout, library and the shape of batches."""


@dataclass(slots=True, eq=False)
class Entry(Generic[T]):
    """One kept prefix."""

    place: Place
    tokens: Ids
    content: T
    size: int
    """In the unit of its shelf's budget."""
    pinned: bool


class Shelf(Generic[T]):
    """Entries by place and tokens. `drop` is told of each that goes, unless it was taken."""

    def __init__(self, drop: Callable[[Entry[T]], None] = lambda _: None) -> None:
        self._drop = drop
        self._trees: dict[Place, Radix[Entry[T]]] = {}
        self._entries: dict[Entry[T], None] = {}
        """In the order in which they were used last."""
        self.size = 0
        """Of all entries together."""

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: Entry[T], budget: int, replace: bool = True) -> bool:
        """Keep an entry, making room for it; False (and it is dropped) when it is larger than the budget.

        It takes the place of one with the same tokens and, with `replace`, of unpinned ones it begins with: they can be
        had from it.
        """
        if entry.size > budget:
            self.trim(budget)
            self._drop(entry)
            return False
        tree = self._trees.setdefault(entry.place, Radix())
        for found in tree.beginnings(entry.tokens):
            if found.length == len(entry.tokens) or (replace and not found.value.pinned):
                self.remove(found.value)
        self.trim(budget - entry.size)
        self._trees.setdefault(entry.place, tree).put(entry.tokens, entry)
        self._entries[entry] = None
        self.size += entry.size
        return True

    def covers(self, place: Place, tokens: Ids, beyond: int = 0) -> bool:
        """Whether an entry holds all of `tokens` but the last `beyond`; it counts as used."""
        for found in self.nearest(place, tokens):
            if found.shared < len(tokens) - beyond:
                return False
            self.touch(found.value)
            return True
        return False

    def nearest(self, place: Place, tokens: Ids) -> Iterator[Found[Entry[T]]]:
        """Yield the place's entries, those that share most with `tokens` first."""
        tree = self._trees.get(place)
        return tree.nearest(tokens) if tree is not None else iter(())

    def touch(self, entry: Entry[T]) -> None:
        """Count an entry as used now."""
        if entry in self._entries:
            del self._entries[entry]
            self._entries[entry] = None

    def trim(self, budget: int) -> None:
        """Drop entries until the rest fits."""
        while self.size > budget and self.drop_oldest():
            pass

    def drop_oldest(self) -> bool:
        """Drop one entry; False when there is none."""
        oldest = next((entry for entry in self._entries if not entry.pinned), next(iter(self._entries), None))
        if oldest is not None:
            self.remove(oldest)
        return oldest is not None

    def remove(self, entry: Entry[T]) -> None:
        """Drop this entry."""
        self.take(entry)
        self._drop(entry)

    def take(self, entry: Entry[T]) -> T:
        """Remove an entry without dropping it: its content is the caller's."""
        tree = self._trees[entry.place]
        tree.pop(entry.tokens)
        if not tree:
            del self._trees[entry.place]
        del self._entries[entry]
        self.size -= entry.size
        return entry.content

    def clear(self) -> None:
        """Drop everything."""
        self.trim(-1)
