"""Switches and settings: typed and as text, their bounds, what a change costs, and the profile they make."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard, declared_cost
from fader_backends.base import BackendInfo, Message
from fader_backends.errors import BadValue, FaderError, UnknownName
from fader_plugins.registry import Registry, build

Board = Callable[..., Switchboard]
NOW = datetime(2026, 1, 1)
COSTLY = """
from typing import Annotated, Literal
import msgspec
from fader_plugins import PluginInfo, Settings, hookimpl, setting
class Costly(Settings, frozen=True, kw_only=True):
    words: Annotated[str, setting("text", cost="live")] = "a"
    flag: Annotated[bool, setting("yes or no", cost="live")] = False
    kind: Annotated[Literal["one", "two"], setting("a choice")] = "one"
    layers: Annotated[int, setting("reloads", cost="load", ge=0)] = 0
    maybe: int | None = 3
info = PluginInfo(name="costly", summary="a test", settings=Costly)
@hookimpl
def plan_request(draft):
    layers = draft.settings("costly", Costly).layers
    draft.model = msgspec.structs.replace(draft.model, options={**draft.model.options, "costly_layers": layers})
"""


@pytest.fixture
def costly(tmp_path: Path) -> Switchboard:
    """A board with a plugin that has settings of every cost."""
    (tmp_path / "costly.py").write_text(COSTLY)
    made = build(tmp_path)
    assert not made.problems
    board = Switchboard(made, Profile(name="test", backend="echo"))
    able = msgspec.structs.replace(
        board.backend(), provides=board.backend().provides | {"kv_types", "tensor_split", "graph", "weights"}
    )
    board._backends = {"echo": able}  # a backend that can do everything, so that no setting is idle
    for name in ("tensor_split", "graph", "weights"):
        board.switch(name, True)
    return board


def test_it_starts_where_the_profile_says(board: Board) -> None:
    """Plugins start as they say themselves, unless the profile says otherwise."""
    switches = board(plugins={"sampler": {"on": False, "top_k": 7}})
    assert not switches.states["sampler"].on
    assert switches.states["sampler"].settings["top_k"] == 7
    assert switches.states["sampler"].settings["base"] == "llama.cpp"
    assert "sampler" not in switches.enabled()
    assert "kv_cache" in switches.enabled()


def test_switching(board: Board) -> None:
    """A switch acts on the next plan and keeps the settings."""
    switches = board(plugins={"sampler": {"top_k": 7}})
    switches.switch("sampler", False)
    assert switches.plan("me", [], NOW).sampler.temperature == 0.0
    switches.switch("sampler", True)
    assert switches.plan("me", [], NOW).sampler.top_k == 7


def test_a_plugin_without_a_switch(board: Board) -> None:
    """What only names backends cannot be switched off."""
    with pytest.raises(BadValue, match="no switch"):
        board().switch("known_backends", False)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_switch_is_true_or_false(board: Board, value: Any) -> None:
    """Anything but a boolean is refused, so that a profile's "off" in quotes is not taken for on."""
    with pytest.raises(BadValue, match="true or false"):
        board(plugins={"sampler": {"on": value}})


@pytest.mark.parametrize(
    ("name", "key", "value", "want"),
    [
        ("sampler", "temperature", 1.5, 1.5),
        ("sampler", "temperature", 1, 1.0),
        ("sampler", "temperature", "0.25", 0.25),
        ("sampler", "top_k", "12", 12),
        ("sampler", "seed", 2**64 - 1, 2**64 - 1),
        ("sampler", "seed", "99", 99),
        ("sampler", "seed", "", None),
        ("sampler", "seed", "None", None),
        ("sampler", "seed", None, None),
        ("costly", "words", "none", "none"),
        ("costly", "words", "", ""),
        ("costly", "flag", "true", True),
        ("costly", "flag", "0", False),
        ("costly", "kind", "two", "two"),
        ("costly", "maybe", "none", None),
    ],
)
def test_set_typed_and_as_text(costly: Switchboard, name: str, key: str, value: Any, want: Any) -> None:
    """A value is taken as it is; text is read as the setting's type, and empty or none where that may be."""
    costly.set(name, key, value)
    got = costly.states[name].settings[key]
    assert (want, type(want)) == (got, type(got))
    assert want == getattr(costly.settings(name), key)


@pytest.mark.parametrize(
    ("name", "key", "value", "hint"),
    [
        ("sampler", "temperature", 5.1, "from 0 to 5"),
        ("sampler", "temperature", "-1", "from 0 to 5"),
        ("sampler", "temperature", "warm", "from 0 to 5"),
        ("sampler", "temperature", math.inf, "from 0 to 5"),
        ("sampler", "temperature", math.nan, "from 0 to 5"),
        ("sampler", "temperature", "nan", "from 0 to 5"),
        ("sampler", "top_k", 1.5, "from 0 to 1000"),
        ("sampler", "top_k", True, "from 0 to 1000"),
        ("sampler", "penalty_window", -2, "at least -1"),
        ("kv_cache", "length", -1, "at least 0"),
        ("costly", "kind", "three", "costly.kind"),
        ("costly", "flag", "maybe", "costly.flag"),
        ("costly", "words", 5, "costly.words"),
    ],
)
def test_values_that_cannot_be(costly: Switchboard, name: str, key: str, value: Any, hint: str) -> None:
    """A value of another type or outside its bounds is refused with the bounds, and nothing is changed."""
    before = dict(costly.states)
    with pytest.raises(BadValue) as caught:
        costly.set(name, key, value)
    assert hint in str(caught.value)
    assert f"{name}.{key}" in str(caught.value)
    assert before == costly.states


@pytest.mark.parametrize(
    ("act", "hint"),
    [
        (lambda board: board.switch("sampller", True), "'sampler'"),
        (lambda board: board.set("kv_cash", "length", 1), "'kv_cache'"),
        (lambda board: board.set("sampler", "temprature", 1), "'temperature'"),
        (lambda board: board.settings("timming"), "'timing'"),
    ],
)
def test_unknown_names_offer_the_nearest(board: Board, act: Callable[[Switchboard], Any], hint: str) -> None:
    """A misspelt plugin or setting is refused with the name that was meant."""
    with pytest.raises(UnknownName) as caught:
        act(board())
    assert f"Did you mean {hint}?" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("dry_breakers", "x,y", "is not a list of texts"),
        ("logit_bias", "5=much", "is not TOKEN=BIAS"),
        ("order", "top_k, top_q", "unknown sampler 'top_q'"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_when_it_is_set(board: Board, key: str, text: str, said: str) -> None:
    """Not with the next turn, and the one after that."""
    one = board()
    with pytest.raises(FaderError, match=said):
        one.set("sampler", key, text)
    assert one.states["sampler"].settings[key] is None


def test_a_broken_plugin_cannot_be_switched(tmp_path: Path) -> None:
    """A plugin that could not be loaded has no state, and touching it says why."""
    (tmp_path / "bad.py").write_text("raise ValueError('mine')\n")
    switches = Switchboard(build(tmp_path), Profile(backend="echo"))
    assert "bad" not in switches.states
    with pytest.raises(BadValue, match="mine"):
        switches.switch("bad", True)


def changed(value: Any, kind: str) -> Any:
    """Another value of the same setting."""
    if isinstance(value, bool):
        return not value
    if value is None:
        texts = {
            "order": "top_k",
            "logit_bias": "3=1",
            "dry_breakers": '["x"]',
            "grammar": 'root ::= "a"',
            "json_schema": "{}",
        }
        return texts.get(kind, 0 if kind == "adaptive_decay" else 1)
    if isinstance(value, int | float):
        return value + 1 if kind not in ("top_p", "min_p") else 0.5
    others = {"one": "two", "llama.cpp": "neutral", "f16": "bf16", "stop": "ask", "layer": "row"}
    others |= {"compile": "static", "inductor": "eager", "auto": "float16"}
    return others.get(value, "1,2" if kind == "proportions" else value + "x")


def test_costs_are_as_declared(costly: Switchboard) -> None:
    """For every setting of every plugin, what planning twice finds is what the setting declares."""
    seen = set()
    for name, state in costly.states.items():
        for key, value in state.settings.items():
            new = changed(value, key)
            cost = costly.cost_of(lambda twin, name=name, key=key, new=new: twin.set(name, key, new))  # type: ignore[misc]
            assert declared_cost(type(costly.settings(name)), key) == cost, f"{name}.{key}"
            seen.add(cost)
    assert seen == {"live", "turn", "context", "load"}


def test_costs_of_switches(costly: Switchboard) -> None:
    """A switch acts next turn, unless what it plans needs a new context or a reload."""
    assert costly.cost_of(lambda twin: twin.switch("sampler", False)) == "turn"
    assert costly.cost_of(lambda twin: twin.switch("kv_cache", False)) == "turn"
    assert costly.cost_of(lambda twin: twin.switch("costly", False)) == "load"
    costly.set("kv_cache", "length", 512)
    assert costly.cost_of(lambda twin: twin.switch("kv_cache", False)) == "context"
    assert costly.cost_of(lambda twin: None) == "turn"


def test_the_dearest_change_counts(costly: Switchboard) -> None:
    """Of several changes at once the cost is the highest."""

    def change(twin: Switchboard) -> None:
        twin.set("costly", "words", "b")
        twin.set("kv_cache", "length", 512)

    def dearer(twin: Switchboard) -> None:
        change(twin)
        twin.set("costly", "layers", 3)

    assert costly.cost_of(change) == "context"
    assert costly.cost_of(dearer) == "load"


def test_asking_and_planning_change_nothing(costly: Switchboard) -> None:
    """Neither asking for a cost nor planning a turn moves a switch, and a draft does not follow later switches."""

    def change(twin: Switchboard) -> None:
        twin.switch("sampler", False)
        twin.set("kv_cache", "length", 9)

    before = msgspec.json.encode(costly.states)
    costly.cost_of(change)
    draft = costly.plan("me", [Message("user", "x")], NOW)
    draft.stop.append("!")
    draft.model.options["n"] = 1
    assert before == msgspec.json.encode(costly.states)
    assert costly.profile.stop == []
    assert costly.profile.load == {}
    costly.switch("sampler", False)
    assert draft.plugins["sampler"].on


def test_lacking(board: Board) -> None:
    """A plugin whose needs the backend lacks says so, is planned as off, and keeps its switch."""
    switches = board()
    assert switches.lacking("prefix_cache") is None
    switches._backends = {"echo": BackendInfo(name="echo", summary="", loader="a:b", provides=frozenset({"rows"}))}
    assert switches.lacking("prefix_cache") == "the echo backend cannot rewind"
    assert switches.lacking("timing") is None
    assert switches.states["prefix_cache"].on
    assert not switches.plan("me", [], NOW).plugins["prefix_cache"].on


def test_an_unknown_backend(board: Board) -> None:
    """A backend nobody brings is refused when a turn is planned, with the nearest name."""
    with pytest.raises(UnknownName, match="'echo'"):
        board(backend="ecko").plan("me", [], NOW)


def test_the_plan_takes_the_profile_over(board: Board) -> None:
    """Model, context, limits and name of the profile are in the draft."""
    keys = {"model": "m.gguf", "template": "chatml", "max_tokens": 9, "stop": ["!"], "chunk": 5}
    draft = board(context=ContextTable(length=77, rows=2), load={"noise": 0.0}, **keys).plan("me", [], NOW)
    assert (draft.model.backend, draft.model.model, draft.model.template) == ("echo", "m.gguf", "chatml")
    assert (draft.model.options, draft.context.length, draft.context.rows) == ({"noise": 0.0}, 77, 2)
    assert (draft.max_tokens, draft.stop, draft.chunk, draft.profile, draft.now) == (9, ["!"], 5, "test", NOW)


def test_round_trip_through_a_profile(registry: Registry, costly: Switchboard) -> None:
    """A board made from the profile another board made stands exactly as that one did."""
    costly.switch("timing", False)
    costly.set("sampler", "seed", 5)
    costly.set("kv_cache", "length", 512)
    profile = costly.to_profile("mine", "my own")
    assert (profile.name, profile.summary, profile.backend) == ("mine", "my own", "echo")
    assert "known_backends" not in profile.plugins
    assert costly.states == Switchboard(costly.registry, profile).states
