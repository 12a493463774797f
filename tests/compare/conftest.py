"""Desks for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fader.switchboard import Switchboard
from fader_plugins.registry import Registry

from tests.compare.desk import SAMPLED, Desk

MakeDesk = Callable[..., Desk]


@pytest.fixture
def desk(registry: Registry, board: Callable[..., Switchboard]) -> Iterator[MakeDesk]:
    """Make a desk on echo; keyword arguments are profile keys over `SAMPLED`."""
    made: list[Desk] = []

    def make(**profile: Any) -> Desk:
        made.append(Desk(registry, board(**{**SAMPLED, **profile})))
        return made[-1]

    yield make
    for one in made:
        one.close()
