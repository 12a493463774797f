"""The tree against a dictionary and a loop over all of it."""

from __future__ import annotations

from fader_plugins.prefix.radix import Ids, Radix, ids, shared
from hypothesis import given, settings
from hypothesis import strategies as st

TOKENS = st.lists(st.integers(0, 2), max_size=9).map(tuple)
STEPS = st.lists(st.tuples(st.sampled_from(["put", "pop", "ask"]), TOKENS), max_size=60)


def naive(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_like_a_dictionary(steps: list[tuple[str, tuple[int, ...]]]) -> None:
    tree: Radix[int] = Radix()
    model: dict[tuple[int, ...], int] = {}
    for number, (what, tokens) in enumerate(steps):
        if what == "put":
            tree.put(ids(tokens), number)
            model[tokens] = number
        elif what == "pop":
            assert tree.pop(ids(tokens)) == model.pop(tokens, None)
        assert len(tree) == len(model)
        assert tree.get(ids(tokens)) == model.get(tokens)
        begins = sorted((len(key) for key in model if key == tokens[: len(key)]), reverse=True)
        assert [found.length for found in tree.beginnings(ids(tokens))] == begins
        near = list(tree.nearest(ids(tokens)))
        assert {found.value for found in near} == set(model.values())
        assert [found.shared for found in near] == sorted((naive(key, tokens) for key in model), reverse=True)
        by_value = {value: key for key, value in model.items()}
        for found in near:
            assert found.shared == naive(by_value[found.value], tokens)
            assert found.length == len(by_value[found.value])
        check_shape(tree)


def check_shape(tree: Radix[int]) -> None:
    """Every leaf holds a value, no node but the root is idle, edges are of the right length."""
    nodes = [tree._root]
    for node in nodes:
        nodes += node.children.values()
        if node.parent is not None:
            assert len(node.edge) > 0
            assert node.parent.children[int(node.edge[0])] is node
            assert node.length == node.parent.length + len(node.edge)
            assert node.value is not None or len(node.children) > 1


@given(TOKENS, TOKENS)
def test_shared(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert shared(ids(one), ids(other)) == naive(one, other)


def test_an_entry_does_not_hold_on_to_the_prompt() -> None:
    """A view of an edge would keep the array it is cut from."""
    tree: Radix[int] = Radix()
    tree.put(ids(range(100)), 1)
    tree.put(ids([*range(50), 7]), 2)

    def bases(node: object) -> list[Ids | None]:
        return [child.edge.base for child in node.children.values()]  # type: ignore[attr-defined]

    assert bases(tree._root) == [None]
