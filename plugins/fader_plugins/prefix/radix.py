"""A radix tree over token ids: which stored sequences share how much with a prompt.

Knows neither sessions nor what its values are. As in SGLang's RadixAttention (arXiv:2312.07104), edges hold runs of
tokens and are split where sequences part; they are int32 arrays, compared whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:  # imported when used: the app's process knows this plugin, but has no ids
    import numpy as np
    import numpy.typing as npt

T = TypeVar("T")
Ids: TypeAlias = "npt.NDArray[np.int32]"


def ids(tokens: Sequence[int]) -> Ids:
    """Return token ids as an array of their own."""
    import numpy as np

    return np.frombuffer(array("i", tokens), np.int32)


def shared(one: Ids, other: Ids) -> int:
    """Return how many ids two sequences share from the start."""
    length = min(len(one), len(other))
    differs = one[:length] != other[:length]
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length


class Found(NamedTuple, Generic[T]):
    """A stored sequence and what it shares with the one that was asked for."""

    shared: int
    """Tokens that both begin with."""
    length: int
    """Tokens of the stored one."""
    value: T


class Node(Generic[T]):
    """A place in the tree: `edge` leads to it from its parent."""

    __slots__ = ("children", "edge", "length", "parent", "value")

    def __init__(self, edge: Ids, parent: Node[T] | None) -> None:
        self.edge = edge
        self.parent = parent
        self.length: int = len(edge) + (parent.length if parent else 0)
        self.children: dict[int, Node[T]] = {}
        self.value: T | None = None


class Radix(Generic[T]):
    """Values at sequences of tokens; a value is never None. Every leaf holds one."""

    def __init__(self) -> None:
        self._root: Node[T] = Node(ids(()), None)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, tokens: Ids, value: T) -> None:
        """Store `value` at `tokens`, in place of one that was there."""
        node, depth, fits = self._descend(tokens)
        if fits < len(node.edge):
            node = self._split(node, fits)
        if depth < len(tokens):
            leaf = Node(tokens[depth:].copy(), node)  # a view would keep the whole prompt
            node.children[int(tokens[depth])] = leaf
            node = leaf
        self._count += node.value is None
        node.value = value

    def get(self, tokens: Ids) -> T | None:
        """Return the value at exactly `tokens`."""
        node, depth, fits = self._descend(tokens)
        return node.value if depth == len(tokens) and fits == len(node.edge) else None

    def pop(self, tokens: Ids) -> T | None:
        """Remove and return the value at exactly `tokens`; nodes that lead nowhere go with it."""
        node, depth, fits = self._descend(tokens)
        if depth < len(tokens) or fits < len(node.edge) or node.value is None:
            return None
        value, node.value = node.value, None
        self._count -= 1
        while node.value is None and not node.children and node.parent is not None:
            del node.parent.children[int(node.edge[0])]
            node = node.parent
        if node.value is None and len(node.children) == 1 and node.parent is not None:
            self._join(node)
        return value

    def beginnings(self, tokens: Ids) -> list[Found[T]]:
        """Return the stored sequences that `tokens` begins with, longest first."""
        node: Node[T] | None
        node, _, fits = self._descend(tokens)
        if fits < len(node.edge):
            node = node.parent
        found = []
        while node is not None:
            if node.value is not None:
                found.append(Found(node.length, node.length, node.value))
            node = node.parent
        return found

    def nearest(self, tokens: Ids) -> Iterator[Found[T]]:
        """Yield every stored sequence, those that share most with `tokens` first; of equals, short ones early."""
        node: Node[T] | None
        node, depth, _ = self._descend(tokens)
        came_from: Node[T] | None = None
        while node is not None:
            at = min(depth, node.length)
            for below in _below(node, came_from):
                if below.value is not None:
                    yield Found(at, below.length, below.value)
            came_from, node = node, node.parent

    def _descend(self, tokens: Ids) -> tuple[Node[T], int, int]:
        """Return the last node reached, how many of `tokens` fit in all, and how many fit on that node's edge."""
        node, depth, fits = self._root, 0, 0
        while fits == len(node.edge) and depth < len(tokens):
            child = node.children.get(int(tokens[depth]))
            if child is None:
                break
            fits = shared(child.edge, tokens[depth:])
            depth += fits
            node = child
        return node, depth, fits

    def _split(self, node: Node[T], place: int) -> Node[T]:
        """Put a node into `node`'s edge after `place` tokens; return it."""
        parent = node.parent
        assert parent is not None
        upper = Node(node.edge[:place].copy(), parent)
        parent.children[int(node.edge[0])] = upper
        node.edge, node.parent = node.edge[place:].copy(), upper
        upper.children[int(node.edge[0])] = node
        return upper

    def _join(self, node: Node[T]) -> None:
        """Take `node` out: its only child's edge becomes one with its own."""
        (child,) = node.children.values()
        assert node.parent is not None
        import numpy as np

        child.edge, child.parent = np.concatenate([node.edge, child.edge]), node.parent
        node.parent.children[int(node.edge[0])] = child


def _below(node: Node[T], without: Node[T] | None) -> Iterator[Node[T]]:
    """Yield a node and what is below it, level by level, leaving one child's part out."""
    level = [node]
    while level:
        yield from level
        level = [child for one in level for child in one.children.values() if child is not without]
