"""The laws over whole turns on torch: switches, tiers, drafts, rows and failures, on tiny random models of four kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fader.headless import Headless
from fader.metrics import Stats
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader.why import why
from fader_backends.base import Message
from fader_backends.errors import OutOfMemory
from fader_plugins import prefix_cache
from fader_plugins.registry import Registry
from fader_plugins.testing import check_toggles, reply
from fader_plugins.turn import Drafted, Failed, Finished, GenerationRequest, PluginFault, RequestDraft, Restored, Token

from tests.backends import tiny_hf
from tests.engine.test_laws import PROMPTS, SAMPLED, planner, rows_equal_solo

pytestmark = pytest.mark.slow
NOW = datetime(2026, 1, 2, 3, 4, 5)
KINDS = ("llama", "qwen3", "gemma3_text", "qwen3_moe")
SWITCHES = ("kv_cache", "prefix_cache", "prompt_lookup")
LOOKUP = {"prompt_lookup": {"min_ngram": 1, "adaptive": False, "max_draft": 6}, "prefix_cache": {"min_tokens": 8}}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Tiny models by kind, written once."""
    return tiny_hf.written_once(tmp_path_factory)


@pytest.fixture
def engine(registry: Registry) -> Iterator[Headless]:
    with Headless(registry) as made:
        yield made


def profile(model: object, **keys: Any) -> Profile:
    table = ContextTable(length=512, rows=6, batch=128, threads=1, options=keys.pop("options", {}))
    keys.setdefault("plugins", LOOKUP)
    return Profile(
        name="torch", backend="torch", model=str(model), context=table, **{"max_tokens": 16, "chunk": 32, **keys}
    )


def again(engine: Headless) -> Callable[[], Callable[[GenerationRequest], Any]]:
    """Fresh conversations on a model that stays loaded: an owner that has no session yet for each."""
    runs = 0

    def fresh() -> Callable[[GenerationRequest], Any]:
        nonlocal runs
        runs += 1
        owner = f"talk {runs}"
        return lambda request: engine.run(msgspec.structs.replace(request, owner=owner))

    return fresh


@pytest.mark.parametrize("sampler", [{"on": False}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("kind", KINDS)
def test_switches_change_no_id(
    kind: str, sampler: dict[str, Any], registry: Registry, models: Callable[[str], Path], engine: Headless
) -> None:
    """Laws 1 to 4: any combination of KV, prefix cache and drafts gives the same ids over a conversation."""
    check_toggles(again(engine), planner(registry, profile(models(kind)), sampler), SWITCHES, PROMPTS[:2])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_give_what_each_gives_alone(
    kind: str, registry: Registry, models: Callable[[str], Path], engine: Headless
) -> None:
    """Four conversations of unlike lengths in one batch."""
    rows_equal_solo(engine, planner(registry, profile(models(kind)), SAMPLED)({}), (*PROMPTS, "And you?"))


@pytest.mark.parametrize("options", [{"cache": "static"}, {"type_k": "q8_0", "type_v": "q8_0"}])
def test_other_caches_keep_the_law(
    options: dict[str, str], registry: Registry, models: Callable[[str], Path], engine: Headless
) -> None:
    """A static and a quantised cache: reuse and drafts change no id either."""
    plan = planner(registry, profile(models("llama"), options=options), SAMPLED)
    check_toggles(again(engine), plan, ("prefix_cache", "prompt_lookup"), PROMPTS[:2])


@pytest.mark.parametrize(
    ("tier", "settings"),
    [
        ("live", {"live_rows": 3, "memory_mib": 0, "disk_mib": 0}),
        ("memory", {"live_rows": 0, "memory_mib": 64, "disk_mib": 0}),
        ("disk", {"live_rows": 0, "memory_mib": 0, "disk_mib": 64}),
    ],
)
def test_prefixes_come_back_from_every_tier(
    tier: str, settings: dict[str, int], registry: Registry, models: Callable[[str], Path], engine: Headless, home: Path
) -> None:
    """Turn 1, then a detour, then turn 1's way again: the prefix comes from the tier, and the ids are those of a cold turn."""
    table = {"prefix_cache": {"min_tokens": 8, **settings}}
    plan = planner(registry, profile(models("llama"), plugins=table), {"on": False})
    first = "Tell me about the keeper of the light and the boats that came in before the storm."

    def ask(said: str, owner: str, on: bool = True) -> list[Any]:
        draft = plan({"prefix_cache": on})
        draft.owner, draft.messages = owner, [Message("user", said)]
        return list(engine.run(draft.freeze(said[:9], 0)))

    cold = reply(ask(first, "other", on=False))
    ask(first, "me")
    assert all(tiers.disk.flush(30) for _, tiers in prefix_cache.plugin.kept), (
        "of two that wait only the last is written"
    )
    ask("Something else, and long enough to be worth keeping as well.", "me")
    assert all(tiers.disk.flush(30) for _, tiers in prefix_cache.plugin.kept)
    events = ask(first, "me")
    (restored,) = [event for event in events if isinstance(event, Restored)]
    assert reply(events) == cold
    assert restored.tier == tier
    assert restored.reused > 80


def test_a_draft_model_of_the_same_words(
    registry: Registry, models: Callable[[str], Path], tmp_path: Path, engine: Headless
) -> None:
    """A folder drafts for a folder; what it guesses is kept or not, and changes no id. One with other words is refused."""
    small = tiny_hf.write(tmp_path / "small", "llama", num_hidden_layers=1)
    settings = {"model": str(small), "adaptive": False, "max_draft": 4}
    made = profile(models("llama"), plugins={"draft_model": settings})

    def run(on: bool, **more: Any) -> list[Any]:
        board = Switchboard(registry, msgspec.structs.replace(made, **more))
        board.switch("draft_model", on)
        board.switch("sampler", False)
        draft = board.plan(f"draft {on}", [Message("user", "hello there")], NOW)
        return list(engine.run(draft.freeze("turn", 0)))

    with_draft, without = run(True), run(False)
    assert not [event for event in with_draft if isinstance(event, PluginFault)]
    assert sum(event.proposed for event in with_draft if isinstance(event, Drafted)) > 0
    assert reply(with_draft) == reply(without)
    from tests.backends import tiny

    alien = tiny.write(tmp_path / "alien.gguf", "llama", "x")
    (fault,) = [
        event
        for event in run(True, plugins={"draft_model": {**settings, "model": str(alien)}})
        if isinstance(event, PluginFault)
    ]
    assert "cannot draft for" in fault.detail


def test_out_of_memory_in_the_middle_of_a_turn(
    registry: Registry, models: Callable[[str], Path], engine: Headless, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn fails and says why; the engine, its model and the conversation go on."""
    import torch

    plan: Callable[[Mapping[str, bool]], RequestDraft] = planner(registry, profile(models("llama")), {"on": False})

    def ask(name: str) -> list[Any]:
        draft = plan({})
        draft.messages = [Message("user", "hello there")]
        return list(engine.run(draft.freeze(name, 0)))

    want = reply(ask("first"))
    backend: Any = engine.engine.model.backend
    forward, calls = backend._weights.forward, 0

    def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= 5:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(backend._weights, "forward", failing)
        events = ask("second")
    assert isinstance(events[-1], Failed)
    assert events[-1].failure.kind == OutOfMemory.__name__
    assert "ran out of memory" in events[-1].failure.title
    assert [event for event in events if isinstance(event, Token)], "it was in the middle"
    assert reply(ask("third")) == want


def test_what_a_turn_says_of_itself(registry: Registry, models: Callable[[str], Path], engine: Headless) -> None:
    """Numbers, memory per token and `/why` are there as on llama.cpp."""
    draft = planner(registry, profile(models("llama")), {"on": False})({})
    draft.messages = [Message("user", "hello there")]
    request = draft.freeze("turn", 0)
    stats = Stats(request=request)
    for event in engine.run(request):
        stats.fold(event)
    record = stats.record()
    assert record.facts is not None
    assert record.facts.backend == "torch"
    assert record.numbers.kv_token_bytes == 2 * 2 * 2 * 32 * 4, "layers, keys and values, heads, width, bytes"
    assert record.numbers.kv_bytes == 256 * 1024
    assert {"kv_cache", "prefix_cache"} <= {reason.mechanism for reason in why(record)}
    assert isinstance(stats.finished, Finished)
    assert msgspec.json.encode(record)
