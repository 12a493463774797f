"""The graph plugin: greyed where nothing can be compiled, planned where it can, and its check of graphs against none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np
import pytest
from fader.switchboard import Switchboard
from fader_backends.base import ContextSpec, Extension, ModelSpec, Scores
from fader_backends.echo import EchoBackend
from fader_backends.errors import NotSupported
from fader_backends.graphs import GraphState
from fader_plugins.graph import engine_ready, readings
from fader_plugins.graph_check import check
from fader_plugins.turn import Numbers, RequestDraft

Board = Callable[..., Switchboard]
NOW = datetime(2026, 1, 1)


class Compiled(EchoBackend):
    """Echo with graphs, which may err: `wrong` is added to the scores of steps of at most `verify` tokens."""

    def __init__(self, wrong: Callable[[Scores], Scores] = lambda scores: scores, why: str = "") -> None:
        super().__init__(ModelSpec(backend="echo"), ContextSpec(length=256, rows=2, batch=64))
        self.wrong = wrong
        self.state = GraphState(mode="compile", on=not why, why=why, verify=8)
        self.used: list[bool] = []

    def graph(self) -> GraphState | None:
        return self.state

    def use_graph(self, on: bool, why: str = "", times: tuple[float, float] | None = None) -> None:
        self.used.append(on)
        eager, step = times or (None, None)
        self.state = GraphState(mode="compile", on=on, why=why, verify=8, eager_ms=eager, step_ms=step)

    def evaluate(self, work: Sequence[Extension]) -> list[Scores]:
        found = super().evaluate(work)
        return [self.wrong(one.copy()) for one in found] if self.state.on and len(work[0].tokens) <= 8 else found


def other_best(scores: Scores) -> Scores:
    scores[:, 7] = scores.max() + 1
    return scores


def missing(scores: Scores) -> Scores:
    scores[-1, 3] = np.nan
    return scores


@pytest.mark.parametrize(
    ("backend", "reason"), [("echo", "nothing that could be compiled"), ("llama.cpp", "fader ops")]
)
def test_elsewhere_it_is_greyed_with_the_reason(board: Board, backend: str, reason: str) -> None:
    switches = board(backend=backend, plugins={"graph": {"on": True}})
    assert reason in (switches.lacking("graph") or "")
    assert not [name for name in switches.plan("me", [], NOW).context.options if name.startswith("graph")]


def test_options_and_cost(board: Board) -> None:
    switches = board(backend="torch")
    assert not switches.states["graph"].on
    assert switches.cost_of(lambda twin: twin.switch("graph", True)) == "context"
    switches.switch("graph", True)
    switches.set("graph", "mode", "static")
    assert switches.plan("me", [], NOW).context.options == {
        "graph": "static",
        "graph_verify": 8,
        "graph_bucket": 2048,
        "graph_tune": False,
        "graph_compiler": "inductor",
    }
    assert switches.cost_of(lambda twin: twin.set("graph", "verify", 4)) == "context"


def test_right_graphs_are_used_and_timed(board: Board) -> None:
    backend = Compiled()
    engine_ready(switched_on(board).freeze("turn", 0), backend)
    assert backend.state.on
    assert backend.state.eager_ms is not None
    assert backend.state.eager_ms > 0
    assert False in backend.used, "it was compared with steps without"
    assert len(backend.open().tokens) == 0
    backend.open()  # both rows are free again


@pytest.mark.parametrize("wrong", [other_best, missing, lambda scores: scores * 1.5], ids=["other", "nan", "scaled"])
def test_wrong_graphs_are_not(board: Board, wrong: Callable[[Scores], Scores]) -> None:
    backend = Compiled(wrong)
    with pytest.raises(NotSupported, match="A step of one token"):
        engine_ready(switched_on(board).freeze("turn", 0), backend)
    assert not backend.state.on
    assert "one token" in backend.state.why


def test_only_the_verify_step_errs() -> None:
    backend = Compiled(lambda scores: scores if len(scores) == 1 else scores[:, ::-1].copy())
    why, times = check(backend, backend.state)
    assert "tokens gives scores that differ" in why
    assert times is None


def test_what_rounding_does_is_no_difference() -> None:
    """Noise a little below what is allowed passes, ten times as much does not."""
    chance = np.random.default_rng(0)
    spread = float(Compiled().open().extend([1, 2, 3], 3).std())

    def noisy(size: float) -> Callable[[Scores], Scores]:
        return lambda scores: scores + chance.uniform(-size, size, scores.shape).astype(np.float32)

    fine, over = Compiled(noisy(2e-4 * spread)), Compiled(noisy(1e-2 * spread))
    assert check(fine, fine.state)[0] == ""
    assert check(over, over.state)[0] != ""


def test_a_backend_without_compiler_says_so(board: Board) -> None:
    backend = Compiled(why="there is no C++ compiler")
    with pytest.raises(NotSupported, match="There is no C\\+\\+ compiler"):
        engine_ready(switched_on(board).freeze("turn", 0), backend)
    assert backend.used == [False], "nothing was tried"


def test_off_it_does_nothing(board: Board) -> None:
    backend = Compiled()
    engine_ready(board(backend="torch").plan("me", [], NOW).freeze("turn", 0), backend)
    assert backend.used == []


def test_readings() -> None:
    assert readings(Numbers()) == []
    state = GraphState(
        mode="compile", on=True, compile_ms=61_000, shapes=2, graphs=3, breaks=1, break_at="a call", steps=9, others=2,
        eager_ms=20.0, step_ms=5.0,
    )  # fmt: skip
    rows = {row.key: row for row in readings(Numbers(graph=state))}
    assert rows["graph"].value == "9 steps, 2 calls without"
    assert rows["graph_compile"].value == 61.0
    assert rows["graph_step"].value == "20.00 → 5.00 ms"
    assert rows["graph_recompiles"].value == "0 · 1"
    assert "a call" in rows["graph_recompiles"].help
    off = readings(Numbers(graph=GraphState(mode="static", on=False, why="it erred")))
    assert [row.value for row in off] == ["off: it erred"]


def switched_on(board: Board) -> RequestDraft:
    return board(backend="torch", plugins={"graph": {"on": True}}).plan("me", [], NOW)
