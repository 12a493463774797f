"""The sampler plugin: from switches to sampler settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
import pytest
from fader.headless import Headless
from fader.switchboard import Switchboard
from fader_backends.base import FORBIDDEN, Message, SamplerSettings
from fader_backends.errors import BadValue, UsageError
from fader_plugins.registry import Registry
from fader_plugins.sampler import Base, Sampler
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
        "dynatemp_range": 0.25,
        "dynatemp_exponent": 1.5,
        "typical_p": 0.75,
        "top_n_sigma": 1.5,
        "xtc_probability": 0.25,
        "xtc_threshold": 0.2,
        "dry_multiplier": 0.75,
        "dry_base": 2.0,
        "dry_allowed_length": 3,
        "dry_window": -1,
        "mirostat": 2,
        "mirostat_tau": 4.0,
        "mirostat_eta": 0.25,
        "adaptive_target": 0.5,
        "adaptive_decay": 0.5,
        "min_keep": 2,
        "seed": 2**64 - 1,
    }
    texts = {"order": "temperature; top_k", "logit_bias": "3=-1.5, 4=-inf", "dry_breakers": '["a", "\\n"]'}
    tables: dict[str, Any] = {
        "order": ("temperature", "top_k"),
        "logit_bias": {3: -1.5, 4: FORBIDDEN},
        "dry_breakers": ("a", "\n"),
    }
    constraints = {"grammar", "json_schema"}  # they exclude each other, and have tests of their own
    assert {*values, *texts, *constraints, "base"} == set(Sampler.__struct_fields__), "a setting without a line here"
    assert SamplerSettings(**values, **tables) == planned(board, **values, **texts)


def test_bases(board: Board) -> None:
    """`neutral` is every sampler off at temperature 1; what is set counts over any base."""
    assert SamplerSettings(temperature=1.0, seed=1) == planned(board, base="neutral", seed=1)
    assert SamplerSettings(temperature=0.3, seed=1) == planned(board, base="neutral", temperature=0.3, seed=1)
    assert planned(board, seed=1) == planned(board, base="model", seed=1), "a model that recommends nothing"


@pytest.mark.parametrize("base", ["llama.cpp", "neutral"])
def test_what_forms_show_is_what_acts(board: Board, base: Base) -> None:
    """The effective settings, given back as settings, plan the same sampler."""
    shown = Sampler(base=base, top_k=7, seed=3).effective()
    assert planned(board, base=base, top_k=7, seed=3) == planned(board, **shown)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("order", "top_k, top_q", "Did you mean 'top_p'?"),
        ("order", "top_k, top_k", "twice"),
        ("logit_bias", "cat=3", "TOKEN=BIAS"),
        ("logit_bias", "3=nan", "not a number"),
        ("logit_bias", "-3=1", "cannot be"),
        ("dry_breakers", "colon", "JSON"),
    ],
)
def test_texts_that_do_not_parse(board: Board, key: str, value: str, said: str) -> None:
    """Each is one clear line that names the thing."""
    with pytest.raises(UsageError) as caught:
        planned(board, **{key: value})
    assert said in str(caught.value)


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
