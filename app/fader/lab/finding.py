"""What a suspicious reader says, and what of a bundle they look at.

Knows the raw record, not what is suspicious.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from fader_plugins.turn import GenerationRequest

from .evidence import Manifest, Output
from .raw import Measured

Level: TypeAlias = Literal["objection", "doubt"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a suspicious reader would say."""

    level: Level
    """objection: the claim cannot stand on this. doubt: it may, but a reader must know."""
    about: str
    said: str


class Record(NamedTuple):
    """What a bundle holds."""

    manifest: Manifest
    runs: Sequence[Measured]
    outputs: Mapping[int, Output]

    @property
    def compared(self) -> list[Measured]:
        """The runs that figures come from."""
        return [one for one in self.runs if one.run.phase == "ab"]

    def pairs(self) -> Iterator[tuple[Measured, Measured]]:
        """Yield runs of a and b with the same round, case and turn."""
        places: dict[tuple[int, str, int], Measured] = {}
        for one in self.compared:
            place = (one.run.round, one.run.case, one.run.turn)
            if one.run.side == "a":
                places[place] = one
            elif place in places:
                yield places[place], one


Suspicion: TypeAlias = Callable[[Record], Iterator[Finding]]


def objection(about: str, said: str) -> Finding:
    """Return what a claim cannot stand on."""
    return Finding(level="objection", about=about, said=said)


def doubt(about: str, said: str) -> Finding:
    """Return what a reader must know."""
    return Finding(level="doubt", about=about, said=said)


def asked(request: GenerationRequest) -> str:
    """Return all that a request says."""
    return "\n".join(message.content for message in request.messages)
