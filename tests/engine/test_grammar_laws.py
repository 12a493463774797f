"""Law 3 with a grammar on: the same ids in exact mode whatever is kept, reused or guessed, and replies that parse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import pytest
from fader import profiles
from fader.headless import Headless
from fader.models import embedded
from fader.paths import Paths
from fader.profiles import Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import Registry
from fader_plugins.testing import check_toggles, reply
from fader_plugins.turn import Drafted, Failed, GenerationRequest, RequestDraft

pytestmark = pytest.mark.slow
NOW = datetime(2026, 1, 2)
COLOURS = 'root ::= ("red, " | "green, ")+'
SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


@pytest.fixture
def exact(home: object) -> Profile:
    """The profile that ships, with a smaller context and short replies."""
    if embedded() is None:
        pytest.skip("the embedded model is not installed")
    shipped = profiles.load("exact", Paths.from_environment({"FADER_HOME": str(home)}))
    context = msgspec.structs.replace(shipped.context, length=512)
    return msgspec.structs.replace(shipped, context=context, max_tokens=10)


@pytest.fixture
def engine(registry: Registry) -> Iterator[Headless]:
    with Headless(registry) as made:
        yield made


def drafts(registry: Registry, exact: Profile, switches: Any, **sampler: Any) -> RequestDraft:
    board = Switchboard(registry, exact)
    for key, value in {"seed": 5, "temperature": 1.0, **sampler}.items():
        board.set("sampler", key, value)
    for name, on in switches.items():
        board.switch(name, on)
    return board.plan("talk", [], NOW)


def test_switches_change_no_id(registry: Registry, exact: Profile, engine: Headless) -> None:
    """Two turns under a grammar with KV and lookup drafts on and off; some drafts are made, some are kept."""
    seen: list[Drafted] = []
    runs = 0

    def fresh() -> Any:
        nonlocal runs
        runs += 1
        owner = f"talk {runs}"

        def run(request: GenerationRequest) -> Any:
            events = engine.run(msgspec.structs.replace(request, owner=owner))
            seen.extend(event for event in events if isinstance(event, Drafted))
            return events

        return run

    def plan(switches: Any) -> RequestDraft:
        return drafts(registry, exact, switches, grammar=COLOURS)

    check_toggles(fresh, plan, ("kv_cache", "prompt_lookup"), ("Name colours: red, green, red, green, red.", "Again."))
    assert sum(event.kept for event in seen) > 0


@pytest.mark.parametrize("seed", [1, 2])
def test_a_turn_that_parses(registry: Registry, exact: Profile, engine: Headless, seed: int) -> None:
    draft = drafts(registry, exact, {}, seed=seed, json_schema=SCHEMA)
    draft.messages, draft.max_tokens = [Message("user", "How many legs has a cat?")], 60
    assert list(json.loads(reply(engine.run(draft.freeze("turn", 0)))[0])) == ["n"]


def test_nothing_is_admitted(registry: Registry, exact: Profile, engine: Headless) -> None:
    """The turn fails with the reason; the next one works, and going on after the end repeats the end."""
    draft = drafts(registry, exact, {}, grammar="root ::= <[99999999]>")
    draft.messages = [Message("user", "Hi.")]
    failed = engine.run(draft.freeze("turn", 0))[-1]
    assert isinstance(failed, Failed)
    assert (failed.failure.kind, "grammar admits no token" in failed.failure.title) == ("BadScores", True)
    draft = drafts(registry, exact, {}, grammar='root ::= "yes"')
    draft.messages, draft.ignore_end, draft.max_tokens = [Message("user", "Hi.")], True, 6
    text, ids = reply(engine.run(draft.freeze("again", 0)))
    backend = engine.engine.model.backend
    assert backend is not None
    assert text == "yes"
    assert len(ids) == 6
    assert set(ids[-2:]) <= backend.end_tokens
