"""Laws 1 to 3 over whole conversations: no switch and no company changes an id; on echo, and on a real model in exact mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
import pytest
from fader import profiles
from fader.headless import Headless, turns
from fader.models import embedded
from fader.paths import Paths
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import Registry
from fader_plugins.testing import check_sessions, check_toggles, reply
from fader_plugins.turn import Failed, Finished, GenerationRequest, RequestDraft, Restored

NOW = datetime(2026, 1, 2, 3, 4, 5)
SWITCHES = ("kv_cache", "prefix_cache")
PROMPTS = ("Name three colours.", "Why is the sky blue? Say it to a child of five.", "Again, shorter.")
SAMPLED = {"on": True, "seed": 11, "temperature": 0.9, "top_k": 40, "top_p": 0.95, "repeat_penalty": 1.1}
Plan = Callable[[Mapping[str, bool]], RequestDraft]


def planner(registry: Registry, profile: Profile, sampler: dict[str, Any]) -> Plan:
    """Drafts of one conversation with the given switches."""

    def plan(switches: Mapping[str, bool]) -> RequestDraft:
        board = Switchboard(registry, profile)
        for key, value in sampler.items():
            board.switch("sampler", value) if key == "on" else board.set("sampler", key, value)
        for name, on in switches.items():
            board.switch(name, on)
        return board.plan("talk", [], NOW)

    return plan


@pytest.fixture(params=["greedy", "sampled"])
def sampler(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SAMPLED if request.param == "sampled" else {"on": False}


@pytest.fixture
def echo() -> Profile:
    return Profile(name="echo", backend="echo", load={"noise": 2.5}, max_tokens=24, chunk=8)


@pytest.fixture
def exact(home: object) -> Profile:
    """The profile that ships, with a smaller context and short replies."""
    if embedded() is None:
        pytest.skip("the embedded model is not installed")
    shipped = profiles.load("exact", Paths.from_environment({"FADER_HOME": str(home)}))
    context: ContextTable = msgspec.structs.replace(shipped.context, length=1024)
    return msgspec.structs.replace(shipped, context=context, max_tokens=8)


def rows_equal_solo(engine: Headless, draft: RequestDraft, prompts: tuple[str, ...]) -> None:
    """Run each prompt alone, then all together; the ids must be the same."""

    def asked(prompt: str, owner: str) -> GenerationRequest:
        draft.owner, draft.messages = owner, [Message("user", prompt)]
        return draft.freeze(owner, 0)

    want = [reply(engine.run(asked(prompt, f"alone {n}")))[1] for n, prompt in enumerate(prompts)]
    events = engine.run(*(asked(prompt, f"row {n}") for n, prompt in enumerate(prompts)))
    got = [reply([event for event in events if event.request_id == f"row {n}"])[1] for n in range(len(prompts))]
    assert want == got
    ends = [number for number, event in enumerate(events) if isinstance(event, Finished | Failed)]
    starts = [number for number, event in enumerate(events) if isinstance(event, Restored)]
    assert max(starts) < min(ends), "they ran together"


def test_switches_change_no_id_on_echo(registry: Registry, echo: Profile, sampler: dict[str, Any]) -> None:
    """Law 3 on echo: four combinations of KV and prefix cache, three turns, the same ids."""
    check_toggles(lambda: turns(registry), planner(registry, echo, sampler), SWITCHES, PROMPTS)


def test_the_law_can_fail(registry: Registry, echo: Profile) -> None:
    """The check sees a switch that does change the ids: the sampler's own."""
    with pytest.raises(AssertionError, match="gave other ids: turn 0"):
        check_toggles(lambda: turns(registry), planner(registry, echo, SAMPLED), ("sampler",), PROMPTS)


def test_four_rows_on_echo(registry: Registry, echo: Profile, sampler: dict[str, Any]) -> None:
    """Four conversations in one batch give what each gives alone."""
    with Headless(registry) as engine:
        rows_equal_solo(engine, planner(registry, echo, sampler)({}), (*PROMPTS, "And you?"))


@pytest.fixture
def exact_engine(registry: Registry) -> Iterator[Headless]:
    with Headless(registry) as made:
        yield made


@pytest.mark.slow
def test_switches_change_no_id_in_exact_mode(
    registry: Registry, exact: Profile, sampler: dict[str, Any], exact_engine: Headless
) -> None:
    """Law 3 on SmolLM2 in exact mode: the same ids whatever is kept or reused."""
    runs = 0

    def fresh() -> Callable[[GenerationRequest], Any]:
        nonlocal runs
        runs += 1
        number = runs  # another owner has no session yet, so the model need not be loaded again

        def run(request: GenerationRequest) -> Any:
            return exact_engine.run(msgspec.structs.replace(request, owner=f"talk {number}"))

        return run

    check_toggles(fresh, planner(registry, exact, sampler), SWITCHES, PROMPTS[:2])


@pytest.mark.slow
def test_four_rows_in_exact_mode(
    registry: Registry, exact: Profile, sampler: dict[str, Any], exact_engine: Headless
) -> None:
    """Four rows on SmolLM2 in exact mode give what each gives alone."""
    rows_equal_solo(exact_engine, planner(registry, exact, sampler)({}), (*PROMPTS, "And you?"))


@pytest.mark.slow
def test_logits_are_bit_identical_in_exact_mode(registry: Registry, exact: Profile, exact_engine: Headless) -> None:
    """Law 2 on SmolLM2 in exact mode: rewound, forked, moved, batched and drafted logits equal fresh ones, bit for bit."""
    draft = planner(registry, exact, SAMPLED)({})
    draft.messages, draft.max_tokens = [Message("user", PROMPTS[1] * 4)], 1
    exact_engine.run(draft.freeze("load", 0))
    backend = exact_engine.engine.model.backend
    assert backend is not None
    tokens = backend.chat(draft.messages, NOW)
    check_sessions(backend, tokens, chunk=exact.chunk)
