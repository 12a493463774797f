"""The draft model on files: SmolLM2 for itself in exact mode, and files that cannot draft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fader.headless import Headless
from fader.metrics import Stats
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_backends.llamacpp.weights import find
from fader_plugins.registry import Registry
from fader_plugins.testing import reply
from fader_plugins.turn import GenerationRequest, PluginFault

NOW = datetime(2026, 1, 1)
EXACT: dict[str, Any] = {
    "backend": "llama.cpp",
    "chunk": 32,
    "context": msgspec.convert(
        {"length": 512, "threads": 1, "batch": 32, "options": {"flash_attention": "on"}}, ContextTable
    ),
}


def ask(registry: Registry, said: str, tokens: int, **drafts: Any) -> GenerationRequest:
    plugins = {"sampler": {"seed": 5, "temperature": 1.0}, "draft_model": {"on": bool(drafts), **drafts}}
    board = Switchboard(registry, Profile(name="test", max_tokens=tokens, plugins=plugins, **EXACT))
    return board.plan("me", [Message("user", said)], NOW).freeze("turn", 0)


@pytest.fixture
def run(registry: Registry) -> Callable[..., Any]:
    def make(engine: Headless, **drafts: Any) -> tuple[tuple[int, ...], Stats, list[str]]:
        asked = ask(registry, "Tell me about the sea.", 24, **drafts)
        events = engine.run(asked)
        stats = Stats(request=asked)
        for event in events:
            stats.fold(event)
        return reply(events)[1], stats, [event.detail for event in events if isinstance(event, PluginFault)]

    return make


@pytest.mark.slow
def test_a_model_that_drafts_for_itself(registry: Registry, run: Callable[..., Any]) -> None:
    """In exact mode every guess holds, greedy or sampled, because both draw the same numbers; left alone it goes idle."""
    with Headless(registry) as engine:
        want, _, _ = run(engine)
        got, stats, faults = run(engine, adaptive=False, max_draft=5)
        assert (got, faults) == (want, [])
        mine = stats.numbers().drafts["draft_model"]
        assert mine.kept == mine.proposed > 10
        backend = engine.engine.model.backend
        assert backend is not None
        assert mine.held_bytes == (backend.memory().weights_bytes or 0) + (backend.memory().kv_bytes or 0) > 80e6
        got, stats, faults = run(engine, adaptive=True)
        assert (got, faults) == (want, [])
        mine = stats.numbers().drafts["draft_model"]
        assert (mine.proposed, mine.note[:5]) == (0, "idle:")


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def renamed(data: bytes) -> bytes:
    """The same file with another text for one token."""
    place = data.index("Ġlighthouse".encode()) if "Ġlighthouse".encode() in data else data.index("Ġwater".encode())
    return data[: place + 2] + b"QQ" + data[place + 4 :]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut, ("ModelDamaged", "draft.gguf is damaged or incomplete", "bytes; its weights need")),
        (renamed, ("BadValue", "cannot draft for", "Their vocabularies differ: token ")),
        (None, ("ModelMissing", "There is no model file")),
    ],
)
def test_a_draft_that_cannot_be_used(
    tmp_path: Path,
    registry: Registry,
    run: Callable[..., Any],
    damage: Callable[[bytes], bytes] | None,
    words: Sequence[str],
) -> None:
    """The reason is told once, the reply is that of no drafts, and another setting is tried again at once."""
    draft = tmp_path / "draft.gguf"
    if damage:
        draft.write_bytes(damage(find("").read_bytes()))
    with Headless(registry) as engine:
        want, _, _ = run(engine)
        got, _, (fault,) = run(engine, model=str(draft))
        assert got == want
        assert all(word in fault for word in words), fault
        assert run(engine, model=str(draft))[2] == []
        got, stats, faults = run(engine, adaptive=False)
        assert (got, faults) == (want, [])
        assert stats.numbers().proposed_tokens > 0
