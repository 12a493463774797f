"""What a challenge left in a bundle: the inputs that were tried, and the one that overturned the claim.

Knows files; how a challenge goes is in `challenge`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from fader_backends.errors import StoreError

from .inputs import Point
from .search import Grade, Tried

FILE, FOLDER = "challenge.json", "counter-examples"


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """An input that overturns the claim."""

    point: Point
    grade: Grade
    said: str
    """One sentence."""
    folder: str
    """Where in the bundle its evidence lies: a bundle of its own."""


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """What a search came to."""

    claim: str
    dimensions: tuple[str, ...]
    seed: int
    tried: tuple[Tried, ...]
    checked: int
    counter: Counter | None
    stopped: bool = False


def stored(folder: Path) -> Challenge | None:
    """Return what a challenge left in a bundle; None where there was none. Raises StoreError."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Challenge)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "", "Get the bundle again.") from error


def marks(folder: Path) -> list[str]:
    """Return what a reader of the bundle's report must know of it first. Raises StoreError."""
    said = stored(folder)
    if said is None:
        return []
    if said.counter is not None:
        word = {"reversed": "turns round", "gone": "is gone"}[said.counter.grade or "gone"]
        return [
            f"There is a counter-example ({said.counter.folder}), where the claim ({said.claim}) {word}. {said.counter.said}"
        ]
    ended = ", broken off" if said.stopped else ""
    return [
        f"Challenged with {len(said.tried)} made-up inputs{ended}: no counter-example to the claim ({said.claim}) was found."
    ]
