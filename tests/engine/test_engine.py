"""One turn on the engine: its events, its numbers, its limits, and when a model or context is made anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import fader_backends.echo
import pytest
from fader.headless import Headless
from fader.metrics import Stats
from fader.profiles import ContextTable
from fader_backends.base import ContextSpec, Message, ModelSpec, Progress
from fader_backends.echo import END, EchoBackend
from fader_backends.errors import OutOfMemory
from fader_plugins.registry import Registry, build
from fader_plugins.testing import reply
from fader_plugins.turn import (
    AnyEvent,
    Failed,
    Finished,
    GenerationRequest,
    Loaded,
    Loading,
    Prefilled,
    Rendered,
    Restored,
    Started,
    Token,
)

Ask = Callable[..., GenerationRequest]
E = TypeVar("E", bound=AnyEvent)


def only(events: Sequence[AnyEvent], kind: type[E]) -> E:
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, f"{len(found)} events {kind.__name__}"
    return found[0]


def end_of(events: Sequence[AnyEvent]) -> Finished:
    end = events[-1]
    assert isinstance(end, Finished), end
    return end


def failure_of(events: Sequence[AnyEvent]) -> Failed:
    end = events[-1]
    assert isinstance(end, Failed), end
    return end


def counter(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count loads and new contexts of the echo backend."""
    seen: list[str] = []
    load, configure = fader_backends.echo.load, EchoBackend.configure

    def counted_load(model: ModelSpec, context: ContextSpec, progress: Progress) -> EchoBackend:
        made = load(model, context, progress)
        seen[:] = [*seen[: len(seen) - seen[::-1].index("configure") - 1], "load"]
        return made

    def counted_configure(self: EchoBackend, context: ContextSpec) -> None:
        seen.append("configure")
        configure(self, context)

    monkeypatch.setattr(fader_backends.echo, "load", counted_load)
    monkeypatch.setattr(EchoBackend, "configure", counted_configure)
    return seen


def test_order_of_events(engine: Headless, ask: Ask) -> None:
    """A turn is Started, Loaded, Rendered, Restored, Prefilled, Tokens and one end; times never run backwards."""
    events = engine.run(ask("hi"))
    kinds = [type(event) for event in events if not isinstance(event, Loading)]
    assert [Started, Loaded, Rendered, Restored, Prefilled, Token, Token, Finished] == kinds
    times = [event.at_ns for event in events]
    assert sorted(times) == times
    assert [event.index for event in events if isinstance(event, Token)] == [0, 1]
    assert {event.request_id for event in events} == {events[0].request_id}


def test_reply_and_ids(engine: Headless, ask: Ask) -> None:
    """Text is the echo, ids are its bytes without the end token, context_used is prompt and reply."""
    text, ids = reply(engine.run(ask("naïve 👩‍🚀")))
    assert text == "naïve 👩‍🚀"
    assert tuple(text.encode()) == ids
    assert 2 * len(ids) + 3 == end_of(engine.events).context_used
    assert end_of(engine.events).reason == "end"


def test_numbers_add_up(registry: Registry, ask: Ask) -> None:
    """The parts of TTFT sum to it with load left out; reused and new make the prompt; on the clock the engine was given."""
    request = ask("x" * 50, chunk=16)
    with Headless(registry) as engine:
        ticks = iter(range(10**6, 10**9, 12_345))
        engine.engine.clock = lambda: next(ticks)
        stats = Stats(request=request)
        for event in engine.run(request):
            stats.fold(event)
    numbers = stats.numbers()
    assert numbers.ttft_ms is not None
    assert sum(numbers.ttft_parts.values()) == pytest.approx(numbers.ttft_ms)
    assert set(numbers.ttft_parts) == {"queue", "encode", "restore", "prefill", "first_sample"}
    assert (
        numbers.prompt_tokens,
        numbers.reused_tokens,
        numbers.processed_tokens,
        numbers.output_tokens,
    ) == (53, 0, 53, 50)
    assert sum(isinstance(event, Prefilled) for event in engine.events) == 4, "53 tokens in chunks of 16"


def test_next_turn_reuses_all_it_can(engine: Headless, ask: Ask) -> None:
    """Turn two evaluates only what is new, by prefix_cache's answer, and names no difference."""
    _, ids = reply(engine.run(ask("one")))
    first = only(engine.events, Rendered).prompt_tokens
    engine.run(ask([Message("user", "one"), Message("assistant", "one", ids), Message("user", "two")]))
    restored = only(engine.events, Restored)
    assert first + len(ids) == restored.reused, "the prompt and the whole reply; only its end mark was not evaluated"
    assert only(engine.events, Rendered).prompt_tokens == restored.reused + restored.new
    assert (restored.by, restored.difference) == ("prefix_cache", None)


def test_an_edited_message_names_the_difference(engine: Headless, ask: Ask) -> None:
    """What is kept ends where the texts part, and both texts are told."""
    engine.run(ask("abcdef"))
    engine.run(ask("abXdef"))
    restored = only(engine.events, Restored)
    assert restored.reused == 3
    assert restored.difference is not None
    assert (restored.difference.position, restored.difference.held[:2], restored.difference.wanted[:2]) == (
        3,
        "cd",
        "Xd",
    )
    assert reply(engine.events)[0] == "abXdef"


def test_the_same_prompt_again_evaluates_one_token(engine: Headless, ask: Ask) -> None:
    """A regenerated reply reuses all of the prompt but the token whose scores are needed."""
    engine.run(ask("again"))
    engine.run(ask("again"))
    assert only(engine.events, Restored).new == 1
    assert reply(engine.events)[0] == "again"


@pytest.mark.parametrize(
    ("second", "want"),
    [
        ({}, []),
        ({"chunk": 7, "max_tokens": 2}, []),
        ({"plugins": {"kv_cache": {"on": False}}}, []),
        ({"context": {"length": 200}}, ["configure"]),
        ({"plugins": {"kv_cache": {"length": 300}}}, ["configure"]),
        ({"load": {"noise": 0.5}}, ["load"]),
        ({"model": "other"}, ["load"]),
        ({"load": {"noise": 0.5}, "context": {"length": 200}}, ["load"]),
    ],
)
def test_what_makes_model_or_context_anew(
    engine: Headless, ask: Ask, monkeypatch: pytest.MonkeyPatch, second: dict[str, Any], want: list[str]
) -> None:
    """Changed model options reload, a changed context is configured, anything else does neither."""
    if "context" in second:
        second = {**second, "context": ContextTable(**second["context"])}
    seen = counter(monkeypatch)
    engine.run(ask("one"))
    assert seen == ["load"]
    seen.clear()
    engine.run(ask("two", **second))
    assert want == seen
    loaded = only(engine.events, Loaded)
    assert (loaded.load_ms > 0) == bool(want)


def test_prompt_longer_than_the_context(engine: Headless, ask: Ask) -> None:
    """A prompt that does not fit fails before anything is evaluated, with both numbers; the next turn works."""
    small = ContextTable(length=40)
    failure = failure_of(engine.run(ask("x" * 37, context=small))).failure
    assert failure.kind == "ContextFull"
    assert "40 tokens; the context holds 40" in failure.title
    assert not [event for event in engine.events if isinstance(event, Prefilled)]
    assert reply(engine.run(ask("ok", context=small)))[0] == "ok"


def test_context_fills_while_decoding(engine: Headless, ask: Ask) -> None:
    """A reply that reaches the context's end stops there, says so, and never goes past it."""
    text, ids = reply(engine.run(ask("y" * 20, context=ContextTable(length=30))))
    assert end_of(engine.events).reason == "context"
    assert (text, len(ids), end_of(engine.events).context_used) == ("y" * 7, 7, 30)


@pytest.mark.parametrize("limit", [1, 3])
def test_max_tokens(engine: Headless, ask: Ask, limit: int) -> None:
    """The reply ends after exactly that many tokens, for the reason "length"."""
    assert reply(engine.run(ask("abcdef", max_tokens=limit))) == ("abcdef"[:limit], tuple(b"abcdef"[:limit]))
    assert end_of(engine.events).reason == "length"


def test_ignore_end_goes_on(engine: Headless, ask: Ask) -> None:
    """With ignore_end the end token is a token like others and the reply has its full length."""
    _, ids = reply(engine.run(ask("ab", max_tokens=6, change={"ignore_end": True})))
    assert len(ids) == 6
    assert ids[:3] == (97, 98, END)


@pytest.mark.parametrize(("stop", "want"), [(["cd"], "ab"), (["f"], "abcde"), (["a"], ""), (["ef", "de"], "abc")])
@pytest.mark.parametrize("kv", [True, False])
def test_stop_strings_trim_ids(engine: Headless, ask: Ask, stop: list[str], want: str, kv: bool) -> None:
    """Text and ids end before the stop string, so the next turn's prompt extends what the session holds."""
    switches = {"kv_cache": {"on": kv}}
    text, ids = reply(engine.run(ask("abcdef", stop=stop, plugins=switches)))
    assert (want, tuple(want.encode())) == (text, ids)
    assert end_of(engine.events).reason == "stop"
    first = only(engine.events, Rendered).prompt_tokens
    talk = [Message("user", "abcdef"), Message("assistant", text, ids), Message("user", "next")]
    assert reply(engine.run(ask(talk, plugins=switches)))[0] == "next"
    restored = only(engine.events, Restored)
    assert restored.difference is None
    assert (first + len(ids) if kv else 0) == restored.reused


def test_unknown_backend(engine: Headless, ask: Ask) -> None:
    """A backend nobody brings fails the turn with the nearest name; the engine goes on."""
    failure = failure_of(engine.run(ask(change={"model": ModelSpec(backend="ecko")}))).failure
    assert failure.kind == "UnknownName"
    assert "echo" in failure.next_step
    assert reply(engine.run(ask("hi")))[0] == "hi"


@pytest.mark.parametrize("loader", ["no_such_library:load", "fader_backends.echo:no_such_function"])
def test_a_backend_that_cannot_be_imported(tmp_path: Path, ask: Ask, loader: str) -> None:
    """A missing library is a LoadError that says which; the next turn on another backend works."""
    (tmp_path / "gone.py").write_text(
        "from fader_backends.base import BackendInfo\n"
        "from fader_plugins import PluginInfo, hookimpl\n"
        "info = PluginInfo(name='gone', summary='a backend without its library')\n"
        "@hookimpl\n"
        "def backends():\n"
        f"    return [BackendInfo(name='gone', summary='', loader={loader!r})]\n"
    )
    with Headless(build(tmp_path)) as engine:
        failure = failure_of(engine.run(ask(change={"model": ModelSpec(backend="gone")}))).failure
        assert failure.kind == "LoadError"
        assert loader.partition(":")[2 * loader.startswith("fader")] in failure.detail
        assert reply(engine.run(ask("hi")))[0] == "hi"


def test_a_failed_load_leaves_no_half_model(engine: Headless, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a context that could not be made none is taken for ready: the one before is made again as well."""
    engine.run(ask("one"))
    with monkeypatch.context() as patch:

        def no_room(self: EchoBackend, context: ContextSpec) -> None:
            raise OutOfMemory("No room for this context.")

        patch.setattr(EchoBackend, "configure", no_room)
        failed = engine.run(ask("two", context=ContextTable(length=99)))
        assert failure_of(failed).failure.kind == "OutOfMemory"
    seen = counter(monkeypatch)
    assert reply(engine.run(ask("three")))[0] == "three"
    assert reply(engine.run(ask("four", context=ContextTable(length=99))))[0] == "four"
    assert seen == ["configure", "configure"]
