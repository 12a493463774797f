"""The KV cache plugin: kept state, honest recomputation when off, and the context length."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from fader.headless import Headless
from fader.profiles import ContextTable
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_backends.echo import EchoBackend
from fader_backends.errors import BadValue
from fader_plugins.calls import Hooks
from fader_plugins.registry import Registry
from fader_plugins.testing import reply
from fader_plugins.turn import Numbers

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


LLAMA = {"backend": "llama.cpp", "load": {}}


def options(board: Board, **settings: Any) -> dict[str, Any]:
    context = ContextTable(options=settings.pop("options", {}))
    return board(plugins={"kv_cache": settings}, context=context, **LLAMA).plan("me", [], NOW).context.options


def test_types(board: Board) -> None:
    """What differs from f16 is written; a quantised V switches flash attention on, a quantised K does not need it."""
    assert options(board) == {}
    assert options(board, type_k="q8_0") == {"type_k": "q8_0"}
    assert options(board, type_v="q4_0") == {"type_v": "q4_0", "flash_attention": "on"}
    assert options(board, type_v="bf16", options={"flash_attention": "off"}) == {
        "type_v": "bf16",
        "flash_attention": "off",
    }
    assert options(board, options={"type_k": "q8_0"}) == {"type_k": "f16"}, "the rack shows what acts"


def test_flash_attention_off_on_purpose(board: Board) -> None:
    with pytest.raises(BadValue, match="type_v = q8_0 needs flash attention"):
        options(board, type_v="q8_0", options={"flash_attention": "off"})


def test_types_do_nothing_where_there_are_none(registry: Registry, board: Board) -> None:
    """On echo a turn runs with them as without."""
    switches = board(plugins={"kv_cache": {"type_k": "q8_0", "type_v": "q8_0"}}, load={"noise": 0.0})
    draft = switches.plan("me", [Message("user", "hello")], NOW)
    assert draft.context.options == {}
    with Headless(registry) as engine:
        assert reply(engine.run(draft.freeze("turn", 0)))[0] == "hello"


def test_the_switch_alone_asks_for_no_new_context(board: Board) -> None:
    switches = board(**LLAMA)
    assert switches.cost_of(lambda twin: twin.switch("kv_cache", False)) == "turn"
    assert switches.cost_of(lambda twin: twin.set("kv_cache", "type_v", "q8_0")) == "context"
    assert switches.cost_of(lambda twin: twin.set("kv_cache", "when_full", "ask")) == "turn"


def test_readings(registry: Registry) -> None:
    """Bytes a token from the live buffers, what longer contexts would take beside what is free, and what was left out."""
    rows = Hooks(registry, ["kv_cache"], lambda *fault: pytest.fail(str(fault))).readings(
        Numbers(kv_token_bytes=23040.0, free_bytes=3 << 30, dropped_messages=4, dropped_tokens=900)
    )
    assert [(row.key, row.value) for row in rows] == [
        ("kv_token", 22.5),
        ("kv_lengths", "22 · 180 · 720 MiB"),
        ("kv_free", 3.0),
        ("dropped", "4 messages, 900 tok"),
    ]


def test_it_needs_rewind(board: Board) -> None:
    """Where the backend cannot rewind it is greyed out, with the reason, and not called."""
    switches = board()
    info = switches.backend()
    switches._backends = {"echo": type(info)(name="echo", summary="", loader=info.loader)}
    assert switches.lacking("kv_cache") == "the echo backend cannot rewind"
    assert not switches.plan("me", [], NOW).keep_state
