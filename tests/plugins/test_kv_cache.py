"""The KV cache plugin: kept state, honest recomputation when off, and the context length."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from fader.headless import Headless
from fader.profiles import ContextTable
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_backends.echo import EchoBackend
from fader_plugins.registry import Registry
from fader_plugins.testing import reply

Board = Callable[..., Switchboard]
NOW = datetime(2026, 1, 1)


def evaluated(registry: Registry, board: Board, on: bool) -> int:
    """Tokens the model evaluates to echo five bytes; the prompt has eight."""
    switches = board(plugins={"kv_cache": {"on": on}}, load={"noise": 0.0})
    with Headless(registry) as engine:
        draft = switches.plan("me", [Message("user", "hello")], NOW)
        assert reply(engine.run(draft.freeze("turn", 0)))[0] == "hello"
        backend = engine.engine.model.backend
        assert isinstance(backend, EchoBackend)
        return backend.evaluated


def test_on_evaluates_each_token_once(registry: Registry, board: Board) -> None:
    """With it: eight prompt tokens, then each of five reply tokens."""
    assert evaluated(registry, board, on=True) == 8 + 5


def test_off_recomputes_everything_each_step(registry: Registry, board: Board) -> None:
    """Without it: the whole text at each of six steps, eight tokens to thirteen."""
    assert evaluated(registry, board, on=False) == sum(range(8, 14))


@pytest.mark.parametrize(("setting", "profile", "want"), [(0, 0, 0), (0, 512, 512), (256, 0, 256), (256, 512, 256)])
def test_length(board: Board, setting: int, profile: int, want: int) -> None:
    """A length set here goes before the profile's; 0 leaves the profile's."""
    switches = board(plugins={"kv_cache": {"length": setting}}, context=ContextTable(length=profile))
    assert want == switches.plan("me", [], NOW).context.length


def test_it_needs_rewind(board: Board) -> None:
    """Where the backend cannot rewind it is greyed out, with the reason, and not called."""
    switches = board()
    info = switches.backend()
    switches._backends = {"echo": type(info)(name="echo", summary="", loader=info.loader)}
    assert switches.lacking("kv_cache") == "the echo backend cannot rewind"
    assert not switches.plan("me", [], NOW).keep_state
