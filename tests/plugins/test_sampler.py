"""The sampler plugin: from switches to sampler settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest
from fader.headless import Headless
from fader.switchboard import Switchboard
from fader_backends.base import Message, SamplerSettings
from fader_backends.errors import BadValue
from fader_plugins.registry import Registry
from fader_plugins.sampler import Sampler
from fader_plugins.testing import reply

Board = Callable[..., Switchboard]
NOW = datetime(2026, 1, 1)


def planned(board: Board, **settings: Any) -> SamplerSettings:
    return board(plugins={"sampler": settings}).plan("me", [], NOW).sampler


def test_off_is_greedy(board: Board) -> None:
    """Switched off, whatever its settings say, the draft stays greedy with every sampler at its off value."""
    assert planned(board, on=False, temperature=2.0, seed=3) == SamplerSettings()


def test_every_setting_arrives(board: Board) -> None:
    """Each field of the settings is one of the chain's and gets there with its value."""
    values: dict[str, Any] = {
        "temperature": 1.25,
        "top_k": 3,
        "top_p": 0.5,
        "min_p": 0.25,
        "repeat_penalty": 1.5,
        "frequency_penalty": -0.5,
        "presence_penalty": 0.75,
        "penalty_window": -1,
        "seed": 2**64 - 1,
    }
    assert set(values) == set(Sampler.__struct_fields__), "a setting without a line here"
    assert SamplerSettings(**values) == planned(board, **values)


def test_defaults_are_llama_cpps(board: Board) -> None:
    """Defaults: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, no penalties, window 64."""
    got = msgspec.structs.replace(planned(board), seed=0)
    assert SamplerSettings(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, penalty_window=64) == got


def test_an_empty_seed_is_drawn_each_turn(board: Board) -> None:
    """Without a seed each turn gets another, and the request says which, so that it can be repeated."""
    seeds = {planned(board).seed for _ in range(8)}
    assert len(seeds) > 1
    assert planned(board, seed=0).seed == 0


def test_same_seed_same_words(registry: Registry, board: Board) -> None:
    """The same seed gives the same reply, another seed another one."""

    def said(seed: int) -> tuple[int, ...]:
        switches = board(
            plugins={"sampler": {"seed": seed, "temperature": 2.0, "top_k": 0}}, load={"noise": 2.0}, max_tokens=12
        )
        with Headless(registry) as engine:
            return reply(engine.run(switches.plan("me", [Message("user", "hello there")], NOW).freeze("turn", 0)))[1]

    assert said(1) == said(1)
    assert said(1) != said(2)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range(board: Board, seed: int) -> None:
    """A seed that no 64 bits hold is refused when the turn is planned, by name."""
    with pytest.raises(BadValue, match="seed"):
        planned(board, seed=seed)
