"""Calling plugins: each way one can fail, and what is done about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest
from fader_backends.base import ContextSpec, ModelSpec, Session
from fader_backends.echo import EchoBackend, EchoSession
from fader_backends.errors import BadValue, PluginFailed
from fader_plugins import calls
from fader_plugins.calls import STRIKES, Hooks, common
from fader_plugins.registry import Registry, build
from fader_plugins.turn import GenerationRequest, Numbers, RequestDraft

HEAD = """
from fader_backends.base import BackendInfo
from fader_backends.errors import BadValue
from fader_plugins import PluginInfo, Reading, hookimpl
info = PluginInfo(name={name!r}, summary="a test")
@hookimpl
"""
FAULTS = ["raise ValueError('mine')", "raise SystemExit(2)", "return 5", "return ['x']"]


def plugins(folder: Path, **bodies: str) -> Registry:
    """The built-ins and plugins by name; a body is a function from `def` on."""
    for name, body in bodies.items():
        (folder / f"{name}.py").write_text(HEAD.format(name=name) + body)
    made = build(folder)
    assert not made.problems
    return made


class Heard:
    """Faults as they were reported."""

    def __init__(self) -> None:
        self.faults: list[tuple[str, str, str]] = []

    def __call__(self, plugin: str, hook: str, detail: str) -> None:
        self.faults.append((plugin, hook, detail))


def draft() -> RequestDraft:
    model, context = ModelSpec(backend="echo"), ContextSpec()
    return RequestDraft(owner="me", messages=[], model=model, context=context, now=datetime(2026, 1, 1))


def restored(hooks: Hooks, request: GenerationRequest, held: Session, prompt: list[int]) -> tuple[int, str | None]:
    reuse, by = hooks.restore_prefix(request, held, prompt, EchoBackend(request.model, request.context))
    return reuse.tokens, by


def session(tokens: Sequence[int]) -> EchoSession:
    made = EchoBackend(ModelSpec(backend="echo"), ContextSpec(), wait=lambda _: None).open()
    made.extend(tokens)
    return made


@pytest.mark.parametrize("fault", FAULTS)
def test_backends_of_a_faulty_plugin(tmp_path: Path, fault: str) -> None:
    """A plugin that cannot name its backends loses them; all others stay, and the fault is told once."""
    made = plugins(tmp_path, bad=f"def backends():\n    {fault}\n")
    heard = Heard()
    hooks = Hooks(made, made.plugins, heard)
    names = [info.name for info in hooks.backends()]
    assert {"echo", "llama.cpp"} <= set(names)
    assert names == [info.name for info in hooks.backends()]
    assert [fault[:2] for fault in heard.faults] == [("bad", "backends")]


def test_backends_in_registration_order(tmp_path: Path) -> None:
    """Built-in backends come first, so that a stranger's of the same name can be told apart."""
    body = "def backends():\n    return [BackendInfo(name='echo', summary='mine', loader='a:b')]\n"
    made = plugins(tmp_path, mine=body)
    summaries = [info.summary for info in Hooks(made, made.plugins, Heard()).backends() if info.name == "echo"]
    assert [summary == "mine" for summary in summaries] == [False, True]


@pytest.mark.parametrize("fault", FAULTS[:2])
def test_planning_fails_with_the_plugins_name(tmp_path: Path, fault: str) -> None:
    """What raises while a turn is planned fails the turn, names the plugin, and stays on: its answer is needed."""
    made = plugins(tmp_path, bad=f"def plan_request(draft):\n    {fault}\n")
    hooks = Hooks(made, made.plugins, Heard())
    for _ in range(2):
        with pytest.raises(PluginFailed, match="'bad'") as caught:
            hooks.plan_request(draft())
        assert caught.value.failure.plugin == "bad"


def test_a_plugins_own_refusal_passes_through(tmp_path: Path) -> None:
    """A FaderError raised on purpose reaches the person as it is."""
    made = plugins(tmp_path, mine="def plan_request(draft):\n    raise BadValue('Not like this.')\n")
    with pytest.raises(BadValue, match="Not like this"):
        Hooks(made, made.plugins, Heard()).plan_request(draft())


def test_planning_in_registration_order(tmp_path: Path) -> None:
    """A later plugin sees, and may change, what an earlier one planned; one that is off is not asked."""
    made = plugins(
        tmp_path,
        a="def plan_request(draft):\n    draft.stop.append('a')\n",
        b="def plan_request(draft):\n    draft.stop.append('b' * (1 + len(draft.stop)))\n",
        c="def plan_request(draft):\n    draft.stop.append('c')\n",
    )
    planned = draft()
    planned.stop = []
    Hooks(made, {"b", "a"}, Heard()).plan_request(planned)
    assert planned.stop == ["a", "bb"]


@pytest.mark.parametrize("fault", ["raise ValueError('mine')", "raise SystemExit(2)", "return 'many'", "return [3]"])
def test_a_faulty_restore_passes_the_question_on(tmp_path: Path, fault: str) -> None:
    """The next plugin is asked in its place; the faulty one is told of once and left out."""
    made = plugins(tmp_path, bad=f"def restore_prefix(request, session, prompt):\n    {fault}\n")
    heard = Heard()
    hooks = Hooks(made, made.plugins, heard)
    planned = draft()
    planned.keep_state = True
    for _ in range(2):
        answer = restored(hooks, planned.freeze("id", 0), session([1, 2, 3]), [1, 2, 9, 9])
        assert answer == (2, "prefix_cache")
    assert [fault[:2] for fault in heard.faults] == [("bad", "restore_prefix")]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("return 99", 3),
        ("return 2", 2),
        ("return 0", 0),
        ("return -1", 0),
        ("session.extend([7], 0); return 9", 3),
        ("session.rewind(0); return 3", 0),
        ("session.rewind(0); session.extend([9, 8, 7], 0); return 3", 0),
        ("session.rewind(1); session.extend([9], 0); return 2", 1),
    ],
)
def test_claims_are_checked(tmp_path: Path, body: str, want: int) -> None:
    """What counts is what the session holds of the prompt; it is cut to that, and one token is always left."""
    made = plugins(tmp_path, mine=f"def restore_prefix(session):\n    {body}\n")
    held = session([1, 2, 3])
    kept, by = restored(Hooks(made, {"mine"}, Heard()), draft().freeze("id", 0), held, [1, 2, 3, 4])
    assert (want, "mine") == (kept, by)
    assert [1, 2, 3][:want] == held.tokens


def test_one_token_is_always_left(tmp_path: Path) -> None:
    """A session that holds the whole prompt gives its last token back, since scores are needed."""
    made = plugins(tmp_path, mine="def restore_prefix(prompt):\n    return len(prompt)\n")
    held = session([1, 2, 3])
    assert restored(Hooks(made, {"mine"}, Heard()), draft().freeze("id", 0), held, [1, 2, 3]) == (2, "mine")
    assert held.tokens == [1, 2]


def test_nobody_restores() -> None:
    """With the plugin off nothing is kept, whatever the session holds."""
    made, held = build(None), session([1, 2, 3])
    assert restored(Hooks(made, (), Heard()), draft().freeze("id", 0), held, [1, 2, 3, 4]) == (0, None)
    assert held.tokens == []


def test_a_stranger_is_asked_first_unless_it_wants_to_be_last(tmp_path: Path) -> None:
    """Of several answers the last registered counts; `trylast` moves a plugin behind the others."""
    body = "def restore_prefix(prompt):\n    return 1\n"
    made = plugins(tmp_path, mine=body)
    planned = draft()
    planned.keep_state = True
    request = planned.freeze("id", 0)
    assert restored(Hooks(made, made.plugins, Heard()), request, session([1, 2]), [1, 2, 3]) == (1, "mine")
    (tmp_path / "mine.py").write_text(HEAD.format(name="mine").replace("@hookimpl", "@hookimpl(trylast=True)") + body)
    made = build(tmp_path)
    answer = restored(Hooks(made, made.plugins, Heard()), request, session([1, 2]), [1, 2, 3])
    assert answer == (2, "prefix_cache")


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_readings_are_left_out(tmp_path: Path, fault: str) -> None:
    """A plugin whose rows cannot be had is told of once; the rows of the others stay."""
    made = plugins(tmp_path, bad=f"def readings(numbers):\n    {fault}\n")
    heard = Heard()
    hooks = Hooks(made, made.plugins, heard)
    first = hooks.readings(Numbers())
    assert first
    assert first == hooks.readings(Numbers())
    assert [fault[:2] for fault in heard.faults] == [("bad", "readings")]


def test_slow_readings_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slow answers in a row switch a plugin off; two, then a quick one, do not."""
    row = "def readings(numbers):\n    return [Reading(key='mine', label='mine', value=1.0)]\n"
    made = plugins(tmp_path, mine=row)
    took_s = iter([0.06, 0.06, 0.001, 0.06, 0.06, 0.06])
    now = 0.0

    class Clock:
        asked = 0

        @classmethod
        def perf_counter(cls) -> float:
            nonlocal now
            cls.asked += 1
            now += next(took_s) if cls.asked % 2 == 0 else 0.0
            return now

    monkeypatch.setattr(calls, "time", Clock)
    heard = Heard()
    hooks = Hooks(made, {"mine"}, heard)
    for _ in range(2 + 1 + STRIKES):
        assert not heard.faults
        assert [row.key for row in hooks.readings(Numbers())] == ["mine"]
    ((plugin, hook, detail),) = heard.faults
    assert (plugin, hook) == ("mine", "readings")
    assert "60 ms" in detail
    assert hooks.readings(Numbers()) == []


@pytest.mark.parametrize(
    ("held", "prompt", "want"), [([], [1], 0), ([1], [], 0), ([1, 2], [1, 2, 3], 2), ([1, 9, 3], [1, 2, 3], 1)]
)
def test_common(held: list[int], prompt: list[int], want: int) -> None:
    """The shared beginning is counted to the first difference or the shorter end."""
    assert want == common(held, prompt)
