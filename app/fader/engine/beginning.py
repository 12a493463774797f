"""What a reply is given to begin with, as ids: kept from another reply, forced by a person, or edited text.

Knows requests and a backend's words; samples nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from fader_backends.base import Backend
from fader_backends.constraint import Constraint
from fader_backends.errors import BadValue
from fader_plugins.turn import GenerationRequest


class Beginning(NamedTuple):
    """The first ids of a reply."""

    ids: tuple[int, ...] = ()
    ended: bool = False
    """An end token followed, so that there is nothing left to generate."""


def beginning(backend: Backend, request: GenerationRequest) -> Beginning:
    """Return what the request's reply begins with. Raises BadValue for an id that the model does not have."""
    if request.begin is None:
        return Beginning()
    ids = request.begin.ids
    if ids is None:
        return Beginning(tuple(backend.encode(request.begin.content)))
    foreign = next((token for token in ids if not 0 <= token < backend.facts.vocabulary), None)
    if foreign is not None:
        raise BadValue(
            f"The reply was made by another model: this one has no token {foreign:,}.",
            "",
            "Go on with its own model, or edit the reply: edited text fits every model.",
        )
    if not request.ignore_end and ids and ids[-1] in backend.end_tokens:
        return Beginning(ids[:-1], ended=True)
    return Beginning(ids)


def follow(constraint: Constraint | None, begun: Beginning) -> None:
    """Lead a constraint over the beginning. Raises BadValue where it does not admit it."""
    for place, token in enumerate(begun.ids if constraint is not None else ()):
        assert constraint is not None
        if not constraint.allows(token):
            raise BadValue(
                f"The grammar does not admit the reply's beginning: token {place + 1:,} breaks it.",
                "",
                "Clear sampler.grammar and sampler.json_schema, or begin otherwise.",
            )
        constraint.accept(token)
