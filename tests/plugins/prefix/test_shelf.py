"""Budgets, eviction, pinning and isolation of what is kept."""

from __future__ import annotations

import random

import pytest
from fader_plugins.prefix.radix import ids
from fader_plugins.prefix.shelf import Entry, Place, Shelf

MINE, YOURS, OURS = Place("me", "k"), Place("you", "k"), Place(None, "k")


class Kept:
    """A shelf of names that notes what it dropped."""

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self.shelf: Shelf[str] = Shelf(lambda entry: self.dropped.append(entry.content))

    def put(self, tokens: str, size: int = 1, budget: int = 3, place: Place = MINE, **more: bool) -> bool:
        entry = Entry(place, ids(list(tokens.encode())), tokens, size, more.pop("pinned", False))
        return self.shelf.put(entry, budget, **more)

    def names(self, tokens: str = "", place: Place = MINE) -> list[str]:
        return [found.value.content for found in self.shelf.nearest(place, ids(list(tokens.encode())))]


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_the_least_recently_used_goes_first(kept: Kept) -> None:
    for name in "abc":
        kept.put(name)
    assert kept.shelf.covers(MINE, ids([ord("a")]))
    kept.put("d")
    kept.put("e", size=2)
    assert kept.dropped == ["b", "c", "a"]
    assert sorted(kept.names()) == ["d", "e"]
    assert kept.shelf.size == 3


def test_pinned_ones_go_last(kept: Kept) -> None:
    kept.put("p", pinned=True, place=OURS)
    for name in "abcd":
        kept.put(name)
    assert kept.names(place=OURS) == ["p"]
    kept.put("whole", size=3)
    assert kept.names(place=OURS) == []
    assert kept.dropped[-1] == "p"


def test_what_a_longer_one_holds_is_not_kept_twice(kept: Kept) -> None:
    kept.put("ab", pinned=True)
    kept.put("abc")
    kept.put("abcd")
    assert sorted(kept.names()) == ["ab", "abcd"]
    kept.put("abcde", replace=False)
    assert sorted(kept.names()) == ["ab", "abcd", "abcde"]
    kept.put("abcde")
    assert sorted(kept.names()) == ["ab", "abcde"]


def test_larger_than_the_budget(kept: Kept) -> None:
    kept.put("a")
    assert not kept.put("huge", size=4)
    assert kept.dropped == ["huge"]
    assert kept.names() == ["a"]


def test_taken_is_not_dropped(kept: Kept) -> None:
    kept.put("a")
    (found,) = kept.shelf.nearest(MINE, ids([]))
    assert kept.shelf.take(found.value) == "a"
    assert (kept.dropped, len(kept.shelf), kept.shelf.size) == ([], 0, 0)
    assert not kept.shelf.drop_oldest()


def test_places_never_meet(kept: Kept) -> None:
    """Law 11: equal tokens of another owner or key are not there."""
    kept.put("secret")
    for other in (YOURS, OURS, Place("me", "another model")):
        assert kept.names("secret", other) == []
        assert not kept.shelf.covers(other, ids(list(b"secret")))


def test_never_over_budget(kept: Kept) -> None:
    chance = random.Random(3)
    alive: set[str] = set()
    for _ in range(500):
        name = "".join(chance.choices("ab", k=chance.randint(1, 8)))
        budget = chance.randint(1, 30)
        kept.dropped.clear()
        alive.add(name) if kept.put(name, chance.randint(1, 9), budget, pinned=chance.random() < 0.1) else None
        alive = {found for found in alive if found in kept.names()}
        assert kept.shelf.size <= budget
        assert sorted(alive) == sorted(kept.names())
    kept.shelf.clear()
    assert (len(kept.shelf), kept.shelf.size) == (0, 0)
