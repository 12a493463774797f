"""What a report says of a bundle that was made from a chat, where it says other things of a measured one.

Knows manifests.
"""

from __future__ import annotations

import shlex

from .bundle import PROFILES
from .evidence import Manifest
from .experiment import valued, worded


def marks(manifest: Manifest) -> list[str]:
    """Return what a reader must know first; nothing for a measured bundle."""
    if manifest.origin != "chat":
        return []
    said = [
        f"From a chat: {_turns(manifest.rounds)} on each side, as they were. That is what happened, and no claim may rest on it."
    ]
    if manifest.left_out:
        said.append(
            f"Left out: {'; '.join(manifest.left_out)}. Its numbers can be checked, but it cannot be run again."
        )
    return said


def no_claim(manifest: Manifest) -> str:
    """Return what stands in place of a conclusion."""
    changed = " and ".join(map(worded, manifest.variables))
    return (
        f"No conclusion: {changed} in {_turns(manifest.rounds)} of a chat on each side. "
        f"To measure it, in this bundle's folder: {bench_hint(manifest)}"
    )


def how(manifest: Manifest) -> str:
    """Return how it came about."""
    return f"{_turns(manifest.rounds)} on each side in a running chat, in the order {manifest.order}"


def method() -> list[str]:
    """Return how it was measured."""
    return [
        "Turns of a running chat, taken from its record: nothing was run for this. No warm-up, no baseline against itself, and "
        "replies ended where they ended.",
        "Cold: the first question of a conversation, asked for the first time, of which nothing was reused. Warm: all others.",
        "Both sides had the same prompt, and the same settings but for the one that is named; seeds may differ.",
    ]


def bench_hint(manifest: Manifest) -> str:
    """Return a command that measures the same change, from the profile of side a, in the bundle's folder."""
    (one, *_) = manifest.variables
    value = "" if one.after is None else valued(one.after) if isinstance(one.after, bool | float) else str(one.after)
    return f"fader bench chat -p {PROFILES[0]} --change {shlex.quote(f'{one.key}={value}')}"


def _turns(count: int) -> str:
    return "one turn" if count == 1 else f"{count} turns"
