"""A conversation longer than its context: ended, refused with the choices, or without its oldest turns, and said so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from fader.engine.fitting import fit, reserve, shortened
from fader.headless import Headless
from fader.metrics import Stats
from fader.profiles import ContextTable
from fader_backends.base import Message
from fader_plugins.turn import AnyEvent, Failed, Finished, GenerationRequest, Prefilled, Rendered, Restored, Trimmed

Ask = Callable[..., GenerationRequest]
SYSTEM = Message("system", "be kind")
TALK = [
    SYSTEM,
    *(Message(role, f"{role} {n} says what it has to say") for n in range(4) for role in ("user", "assistant")),
    Message("user", "and now?"),
]


def asked(
    ask: Ask, when_full: str, length: int, max_tokens: int = 16, messages: Sequence[Message] = TALK
) -> GenerationRequest:
    profile: dict[str, Any] = {
        "context": ContextTable(length=length),
        "plugins": {"kv_cache": {"when_full": when_full}},
    }
    return ask(messages, change={"max_tokens": max_tokens}, **profile)


def of_kind(events: Sequence[AnyEvent], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_turns_go_whole_and_the_system_prompt_stays() -> None:
    choices = shortened(TALK)
    assert [len(choice) for choice in choices] == [8, 6, 4, 2]
    assert all(choice[0] == SYSTEM and choice[1].role == "user" for choice in choices)
    assert choices[-1] == (SYSTEM, TALK[-1])
    assert shortened(TALK[-1:]) == []


def test_drop_oldest(ask: Ask, engine: Headless) -> None:
    """What goes is told before anything is evaluated, counted in the numbers, and no more."""
    whole = engine.run(asked(ask, "drop_oldest", 1024))
    assert not of_kind(whole, Trimmed)
    (rendered,) = of_kind(whole, Rendered)
    length = rendered.prompt_tokens - 60
    request = asked(ask, "drop_oldest", length)
    events = engine.run(request)
    (trimmed,) = of_kind(events, Trimmed)
    assert (
        events.index(trimmed) < events.index(of_kind(events, Restored)[0]) < events.index(of_kind(events, Prefilled)[0])
    )
    backend = engine.engine.model.backend
    assert backend is not None
    sizes = {len(TALK) - len(kept): len(backend.chat(kept, request.now)) for kept in shortened(TALK)}
    fewest = min(dropped for dropped, size in sizes.items() if size <= rendered.prompt_tokens - 2 * (length // 4))
    assert trimmed.messages == fewest
    assert trimmed.tokens == rendered.prompt_tokens - sizes[fewest]
    stats = Stats(request=request)
    for event in events:
        stats.fold(event)
    assert (stats.numbers().dropped_messages, stats.numbers().prompt_tokens) == (fewest, sizes[fewest])
    assert isinstance(events[-1], Finished)


@pytest.mark.parametrize("slack", [0, 1, 5, 17, 40, 100, 200])
def test_how_much_goes(ask: Ask, engine: Headless, slack: int) -> None:
    """Whatever the length: the least that frees whole fourths of the context, or where that cannot be, the least that fits."""
    request = asked(ask, "drop_oldest", 1024)
    engine.run(request)
    backend = engine.engine.model.backend
    assert backend is not None
    sizes = [len(backend.chat(kept, request.now)) for kept in [TALK, *shortened(TALK)]]
    length = sizes[-1] + 16 + slack
    engine.run(asked(ask, "drop_oldest", length))
    fitted = fit(backend, asked(ask, "drop_oldest", length))
    room = length - reserve(request, length)
    fourths = math.ceil((sizes[0] - room) / (length // 4)) * (length // 4)
    fitting = [size for size in sizes if size <= room]
    assert len(fitted.prompt) == max([size for size in fitting if sizes[0] - size >= fourths] or fitting)


def test_the_turns_after_it_find_their_prefix(ask: Ask, engine: Headless) -> None:
    """A conversation that grows by a turn at a time leaves out the same for several turns."""
    talk, begins = list(TALK), []
    for turn in range(30):
        events = engine.run(asked(ask, "drop_oldest", 1000, messages=talk))
        trimmed = of_kind(events, Trimmed)
        begins.append(trimmed[0].messages if trimmed else 0)
        talk += [Message("assistant", f"reply {turn}, some words"), Message("user", f"question {turn}, more words")]
    kept = sum(one == other for one, other in pairwise(begins))
    assert begins == sorted(begins)
    assert begins[-1] > 0
    assert kept >= 20, begins


def test_ask(ask: Ask, engine: Headless) -> None:
    """It fails before anything is evaluated, with what would go and how to choose; where there is room it does nothing."""
    assert isinstance(engine.run(asked(ask, "ask", 1024))[-1], Finished)
    events = engine.run(asked(ask, "ask", 300, messages=TALK))
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert failed.failure.kind == "ContextFull"
    assert "oldest messages would free" in failed.failure.detail
    assert "drop_oldest" in failed.failure.next_step
    assert not of_kind(events, Prefilled)


def test_stop_is_as_ever(ask: Ask, engine: Headless) -> None:
    """A prompt that fits runs to the end of the context; one that does not is refused, and nothing is left out."""
    (rendered,) = of_kind(engine.run(asked(ask, "stop", 1024)), Rendered)
    events = engine.run(asked(ask, "stop", rendered.prompt_tokens + 4, max_tokens=100))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "context"
    events = engine.run(asked(ask, "stop", rendered.prompt_tokens))
    assert isinstance(events[-1], Failed)
    assert events[-1].failure.kind == "ContextFull"


@pytest.mark.parametrize("when_full", ["drop_oldest", "ask"])
def test_one_question_that_is_too_long(ask: Ask, engine: Headless, when_full: str) -> None:
    """There is nothing to leave out, so it is refused as ever."""
    events = engine.run(asked(ask, when_full, 64, messages=[*TALK[:3], Message("user", "x" * 200)]))
    assert isinstance(events[-1], Failed)
    assert events[-1].failure.title.startswith("The prompt takes")
    assert not of_kind(events, Trimmed)


def test_the_next_turn_is_right(ask: Ask, engine: Headless) -> None:
    """After messages were left out, the same request gives the same reply from what is held, and names the difference."""
    request = asked(ask, "drop_oldest", 300)
    first = engine.run(request)
    again = engine.run(asked(ask, "drop_oldest", 300))
    assert of_kind(first, Finished)[0].ids == of_kind(again, Finished)[0].ids
    assert of_kind(again, Restored)[0].reused > 0
