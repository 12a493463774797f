"""Laws 3 and 4 with the plugins that draft: they change how many steps a reply takes, never its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fader.headless import Headless
from fader.metrics import Stats
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import Registry, build
from fader_plugins.testing import check_toggles, reply
from fader_plugins.turn import AnyEvent, Drafted, Finished, GenerationRequest, PluginFault, RequestDraft, Token
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NOW = datetime(2026, 1, 1)
NAMES = ("prompt_lookup", "draft_model")
LOOKUP = {"on": True, "adaptive": False, "min_ngram": 1, "max_draft": 6}
MODEL = {"on": True, "adaptive": False, "max_draft": 5}
BOTH: dict[str, Any] = {"prompt_lookup": LOOKUP, "draft_model": MODEL}
SONG = "row, row, row your boat, gently down the stream; row, row, row your boat"
Make = Callable[..., GenerationRequest]


@pytest.fixture(scope="module")
def make() -> Make:
    """Make a request on echo, greedy unless a sampler is given; keywords are the profile's plugins and other keys."""
    registry = build(None)

    def request(
        said: str = SONG, name: str = "turn", change: dict[str, Any] | None = None, owner: str = "me", **keys: Any
    ) -> GenerationRequest:
        keys.setdefault("load", {"noise": 1.0})
        keys["plugins"] = {"sampler": {"on": False}, **keys.get("plugins", {})}
        board = Switchboard(registry, Profile(**{"name": "test", "backend": "echo", **keys}))
        draft = board.plan(owner, [Message("user", said)], NOW)
        for key, value in (change or {}).items():
            setattr(draft, key, value)
        return draft.freeze(name, 0)

    return request


def answer(registry: Registry, *requests: GenerationRequest) -> list[AnyEvent]:
    with Headless(registry) as engine:
        events = engine.run(*requests)
    assert not [event for event in events if isinstance(event, PluginFault)]
    return events


def drafted(events: Sequence[AnyEvent]) -> int:
    return sum(event.proposed for event in events if isinstance(event, Drafted))


plain_text = st.text("ab ,", max_size=50)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    plain_text,
    st.sampled_from([0.0, 0.7, 1.5]),
    st.integers(0, 2**64 - 1),
    st.fixed_dictionaries(
        {
            "on": st.booleans(),
            "adaptive": st.booleans(),
            "min_ngram": st.integers(1, 3),
            "max_draft": st.integers(1, 40),
        }
    ),
    st.fixed_dictionaries({"on": st.booleans(), "adaptive": st.booleans(), "max_draft": st.integers(1, 40)}),
    st.booleans(),
    st.integers(1, 40),
    st.sampled_from([(), ("b,",), ("a a",)]),
    st.integers(40, 140),
    st.integers(4, 32),
)
def test_drafts_change_no_reply(
    make: Make,
    registry: Registry,
    said: str,
    temperature: float,
    seed: int,
    lookup: dict[str, Any],
    model: dict[str, Any],
    keeps: bool,
    tokens: int,
    stop: Sequence[str],
    length: int,
    batch: int,
) -> None:
    """Law 3 and 4: any prompt, sampler, draft settings, KV on or off, limits, stops, context end and batch: same reply."""
    sampler = {"seed": seed, "temperature": temperature, "repeat_penalty": 1.1}
    keys: dict[str, Any] = {
        "max_tokens": tokens,
        "stop": list(stop),
        "context": ContextTable(length=length, batch=batch),
        "change": {"ignore_end": seed % 2 == 1},
    }
    ends = []
    for plugins in ({}, {"prompt_lookup": lookup, "draft_model": model}):
        plugins = {"sampler": sampler, "kv_cache": {"on": keeps}, **plugins}
        events = answer(registry, make(said, plugins=plugins, **keys))
        end = events[-1]
        assert isinstance(end, Finished), end
        ends.append((reply(events), end.reason, end.context_used))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_combination_over_a_conversation(registry: Registry, temperature: float) -> None:
    """Law 3: KV, prefix cache and both drafts in all 16 combinations; each turn is an extension of the one before."""
    board = Switchboard(
        registry,
        Profile(name="test", backend="echo", plugins={"sampler": {"seed": 2, "temperature": temperature}, **BOTH}),
    )

    def plan(switches: Any) -> RequestDraft:
        for name, on in switches.items():
            board.switch(name, on)
        return board.plan("me", [], NOW)

    names = ("prompt_lookup", "draft_model", "kv_cache", "prefix_cache")
    check_toggles(lambda: Headless(registry).run, plan, names, (SONG, SONG, "row"))


@pytest.mark.parametrize("plugins", [{"prompt_lookup": LOOKUP}, {"draft_model": MODEL}, BOTH])
def test_drafts_save_steps(make: Make, registry: Registry, plugins: dict[str, Any]) -> None:
    """What the laws compare did draft: a song takes less than two thirds of the steps, and the numbers say why."""
    asked = make(plugins=plugins)
    events = answer(registry, asked)
    stats = Stats(request=asked)
    for event in events:
        stats.fold(event)
    numbers = stats.numbers()
    assert numbers.steps < 0.67 * numbers.output_tokens
    assert sum(one.proposed for one in numbers.drafts.values()) == numbers.proposed_tokens > 0
    assert sum(one.steps + one.kept for one in numbers.drafts.values()) + numbers.singles == numbers.output_tokens
    assert set(numbers.drafts) == set(plugins)
    assert all(one.note for one in numbers.drafts.values())


def test_a_stop_string_inside_a_draft(make: Make, registry: Registry) -> None:
    """It ends the reply at the same place, although more was accepted."""
    for plugins in ({}, BOTH):
        events = answer(registry, make(plugins=plugins, stop=["ur bo"]))
        assert reply(events)[0] == SONG[: SONG.index("ur bo")]
        assert isinstance(events[-1], Finished)
        assert events[-1].reason == "stop"
    assert drafted(events) > 0


def test_the_next_turn_after_a_stop_inside_a_draft(make: Make, registry: Registry) -> None:
    """What was accepted beyond the stop is not in the session: the next reply is that of a fresh engine."""
    for plugins in (BOTH, {"prompt_lookup": LOOKUP}):
        with Headless(registry) as engine:
            engine.run(make(plugins=plugins, stop=["ur bo"]))
            again = reply(engine.run(make("boat " * 9, "next", plugins=plugins)))
        assert again == reply(answer(registry, make("boat " * 9)))


def test_cancel_while_drafting(make: Make, registry: Registry) -> None:
    """The reply keeps what was told, the other row and the next turn are right, and nothing of the turn is kept."""

    def watch(event: AnyEvent) -> None:
        if isinstance(event, Token) and event.request_id == "one" and event.index == 30:
            engine.engine.cancel("one")

    with Headless(registry, watch) as engine:
        events = engine.run(make(name="one", plugins=BOTH), make(name="two", plugins=BOTH, owner="two"))
        one, two = ([e for e in events if e.request_id == name] for name in ("one", "two"))
        assert isinstance(one[-1], Finished)
        assert one[-1].reason == "cancelled"
        assert SONG.startswith(reply(one)[0])
        assert reply(two)[0] == SONG
        assert reply(engine.run(make(name="three", plugins=BOTH)))[0] == SONG
    lookup: Any = registry.implementation("prompt_lookup")
    assert len(lookup.searches) == 0


@pytest.mark.parametrize("batch", [4, 8, 64])
def test_rows_with_drafts_beside_rows_without(make: Make, registry: Registry, batch: int) -> None:
    """Several rows share a batch: none is starved, none changes another's reply, and no call exceeds the batch."""
    context = ContextTable(length=512, batch=batch)
    requests = [
        make(SONG[number:], f"row {number}", plugins=BOTH if number % 2 else {}, context=context, owner=f"{number}")
        for number in range(4)
    ]
    events = answer(registry, *requests)
    for number, request in enumerate(requests):
        assert reply([event for event in events if event.request_id == request.id])[0] == SONG[number:]
    order = [event.request_id for event in events if isinstance(event, Token)]
    for request in requests[::2]:
        places = [place for place, name in enumerate(order) if name == request.id]
        gaps = [later - earlier for earlier, later in pairwise(places)]
        assert max(gaps) <= 24, "a row without drafts waits for another's"


@pytest.mark.slow
def test_rubbish_cannot_make_a_reply_wrong(make: Make, tmp_path: Path) -> None:
    """Guesses that are no tokens of the model are cut; what is no token at all is the plugin's fault, and told."""
    want = reply(answer(build(None), make()))
    for body, fault in (
        ("return [10**9] * 4", None),
        ("return [-1, 65]", None),
        ("return [65] * 10**4", None),
        ("return Draft((66,) * 9, 'a note')", None),
        ("return ['a']", "it proposed what is no token"),
        ("return 5", "which is no Sequence or Draft"),
        ("raise ValueError('mine')", "ValueError: mine"),
    ):
        (tmp_path / "wild.py").write_text(
            "from fader_plugins import PluginInfo, hookimpl\nfrom fader_plugins.turn import Draft\n"
            'info = PluginInfo(name="wild", summary="a test")\n'
            f"@hookimpl\ndef propose_tokens(request, history, limit):\n    {body}\n"
        )
        both = build(tmp_path)
        board = Switchboard(both, Profile(name="test", backend="echo", plugins={"sampler": {"on": False}}))
        with Headless(both) as engine:
            events = engine.run(board.plan("me", [Message("user", SONG)], NOW).freeze("turn", 0))
        assert reply(events) == want, body
        faults = [event.detail for event in events if isinstance(event, PluginFault)]
        assert len(faults) == (fault is not None)
        assert not fault or fault in faults[0]


EXACT: dict[str, Any] = {
    "backend": "llama.cpp",
    "chunk": 32,
    "load": {},
    "max_tokens": 40,
    "context": msgspec.convert(
        {"length": 768, "threads": 1, "batch": 32, "options": {"flash_attention": "on"}}, ContextTable
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_exact_mode_on_the_real_model(make: Make, registry: Registry, temperature: float) -> None:
    """SmolLM2 in exact mode: both kinds of drafts, KV on and off, give the ids of none, greedy and sampled."""
    said = "Repeat: the grey cat sat on the red mat, the grey cat sat on the blue mat, the grey cat sat."
    sampler = {"seed": 9, "temperature": temperature}
    got = {}
    with Headless(registry) as engine:
        variants: dict[str, dict[str, Any]] = {
            "none": {},
            "lookup": {"prompt_lookup": LOOKUP},
            "lookup, as much as pays": {"prompt_lookup": {"on": True}},
            "model": {"draft_model": MODEL},
            "both, no prefix cache": {**BOTH, "prefix_cache": {"on": False}},
            "lookup, no KV": {"prompt_lookup": LOOKUP, "kv_cache": {"on": False}},
        }
        for name, plugins in variants.items():
            keys = {**EXACT, "max_tokens": 12} if "KV" in name else EXACT
            events = engine.run(make(said, plugins={"sampler": sampler, **plugins}, **keys))
            assert not [event for event in events if isinstance(event, PluginFault)]
            assert name in ("none", "lookup, as much as pays") or drafted(events) > 0
            got[name] = reply(events)[1]
    for name, ids in got.items():
        assert ids == got["none"][: len(ids)], name
    assert len(got["none"]) >= len(got["lookup, no KV"]) > 0
