"""What each mechanism that was on did for a turn: what it saved, what that cost, and how to switch it off.

Knows a turn's record, no engine and no screen; what each mechanism has to say is `accounts`' business.
"""

from __future__ import annotations

import msgspec
from fader_plugins.turn import RunRecord

from .accounts import ACCOUNTS, Account, drafts, unknown

NOT_MECHANISMS = frozenset({"known_backends"})


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One mechanism in one turn. Texts are for people, numbers for programs; a number that is not known is null."""

    mechanism: str
    saved: str
    cost: str
    estimate: bool
    """Whether anything said here is estimated and not measured."""
    baseline: str
    """What the estimate rests on, or why there is none; empty where nothing is estimated."""
    off: str
    """How to switch it off."""
    saved_ms: float | None = None
    saved_tokens: int | None = None
    """Evaluations of a token that were not needed, or for `typeahead` not any more after the turn was sent."""
    cost_ms: float | None = None
    cost_bytes: int | None = None
    saved_bytes: int | None = None


def why(record: RunRecord) -> list[Reason]:
    """Return a reason for each mechanism that was on, in the order of the plugins."""
    return [
        _reason(name, _account(name, record), f"/off {name}, or --off {name} on the command line")
        for name, state in record.request.plugins.items()
        if state.on and name not in NOT_MECHANISMS
    ]


def _account(name: str, record: RunRecord) -> Account:
    if name in ACCOUNTS:
        return ACCOUNTS[name](record)
    return drafts(record, name) if name in record.numbers.drafts else unknown(record)


def _reason(name: str, account: Account, off: str) -> Reason:
    return Reason(mechanism=name, off=off, **account._asdict())
