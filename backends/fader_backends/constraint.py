"""The verbs of a grammar that a reply must follow.

Knows no grammar language: a backend with the capability `grammar` makes constraints from texts.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from fader_backends.base import Scores


class Constraint(Protocol):
    """What may come next in one reply. It moves forward only, and belongs to the thread that owns the backend."""

    def allows(self, token: int) -> bool:
        """Whether `token` may come next; an end token may where the grammar is complete."""
        ...

    def mask(self, scores: Scores) -> Scores:
        """Return a copy of one row of scores, shape (vocabulary,), with -inf for every token that may not come next."""
        ...

    def accept(self, token: int) -> None:
        """Go on after `token`, which must be allowed."""
        ...

    def close(self) -> None:
        """Free it. Closing twice is fine."""
        ...


@runtime_checkable
class Constraining(Protocol):
    """A backend that can hold a reply to a grammar."""

    def constrain(self, grammar: str, json_schema: str) -> Constraint:
        """Return a constraint at its beginning; one of the texts is empty.

        Raises BadValue, for a grammar with line and column.
        """
        ...
