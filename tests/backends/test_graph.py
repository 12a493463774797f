"""Steps as graphs on torch: they compute what steps without them do, are counted, give up alone, and leave nothing behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fader_backends import torch_hf
from fader_backends.base import ContextSpec, Extension, ModelSpec, Scalar
from fader_backends.errors import BadValue, OutOfMemory
from fader_plugins.contract import CHECKS, Subject

from tests.backends import tiny_hf
from tests.backends.test_contract import STATE, on_torch

pytestmark = pytest.mark.slow
Open = Callable[..., Any]
IDS = [5 + (7 * place * place) % 250 for place in range(120)]


@pytest.fixture
def load(folders: Callable[[str], Path]) -> Iterator[Open]:
    """Load a tiny model; keywords are options of the context, and `matrices`. All are closed at the end."""
    opened: list[Any] = []

    def make(kind: str = "llama", matrices: str = "plain", **options: Scalar) -> Any:
        context = ContextSpec(length=256, rows=3, batch=64, threads=2, options=options)
        spec = ModelSpec(backend="torch", model=str(folders(kind)), options={"matrices": matrices})
        opened.append(torch_hf.load(spec, context, lambda _: True))
        return opened[-1]

    yield make
    for backend in opened:
        backend.close()


def walk(backend: Any, end: int = 80) -> Any:
    """Return the scores of a prompt, single steps and checked drafts of all lengths up to `end`."""
    session = backend.open()
    scores = [session.extend(IDS[:20], 20)]
    for count in (1, 1, 3, 8, 2, 5, 9):
        done = len(session.tokens)
        scores.append(session.extend(IDS[done : done + count], count))
    while len(session.tokens) < end:
        scores.append(session.extend([IDS[len(session.tokens)]]))
    session.close()
    return np.concatenate(scores)


@pytest.mark.parametrize("kind", tiny_hf.KINDS)
def test_scores_are_those_without_graphs(kind: str, load: Open) -> None:
    """Over two lengths of keys, in filled-up steps and among calls that are none, on each architecture."""
    want = walk(load(kind))
    backend = load(kind, graph="compile", graph_compiler="eager", graph_bucket=64)
    np.testing.assert_allclose(walk(backend), want, atol=2e-4)
    state = backend.graph()
    assert (state.shapes, state.recompiles, state.breaks, state.why) == (3, 0, 0, ""), (
        "widths 1 and 8, then 1 with more keys"
    )
    assert state.graphs == 3
    assert state.others == 2, "the prompt and the step of nine"
    assert state.compile_ms > 0


def test_inductor_computes_the_same(load: Open) -> None:
    """The compiler that is meant: code for this machine, from a tiny model's one-token step."""
    want = walk(load())
    backend = load(graph="compile", graph_verify=1)
    np.testing.assert_allclose(walk(backend), want, atol=2e-4)
    state = backend.graph()
    assert (state.why, state.shapes, state.graphs, state.recompiles) == ("", 1, 1, 0)


@pytest.mark.parametrize(
    ("matrices", "options"),
    [
        ("float16", {"graph": "static"}),
        ("int8", {"graph": "static"}),
        ("int4", {"graph": "static"}),
        ("int8", {"graph": "compile", "graph_compiler": "eager"}),
    ],
)
def test_graphs_over_fewer_bits(matrices: str, options: dict[str, Scalar], load: Open) -> None:
    """The scores are those of the same packed matrices without graphs."""
    want = walk(load(matrices=matrices))
    backend = load(matrices=matrices, **options)
    rounding = 1e-2 if matrices == "int4" else 2e-3  # its inputs have the eight bits of bfloat16
    np.testing.assert_allclose(walk(backend), want, atol=rounding * want.std())
    state = backend.graph()
    assert (state.why, state.recompiles) == ("", 0)
    assert state.steps > 30


def test_inductor_over_eight_bits(load: Open) -> None:
    want = walk(load(matrices="int8"))
    backend = load(matrices="int8", graph="compile", graph_verify=1)
    np.testing.assert_allclose(walk(backend), want, atol=2e-3 * want.std())
    assert (backend.graph().why, backend.graph().shapes) == ("", 1)


@pytest.mark.parametrize("kind", ["llama", "gemma3_text"])
def test_fixed_shapes_keep_the_laws_of_sessions(kind: str, folders: Callable[[str], Path]) -> None:
    """Forks, rewound and moved states, rows in company: steps of fixed shape write and read the same buffers."""
    subject: Subject = on_torch(str(folders(kind)), range(5), 2e-4, graph="static")
    for check in STATE:
        CHECKS[check](subject)


def test_to_the_last_place_of_the_context(load: Open) -> None:
    """Where a filled-up step would not fit any more it runs as ever; single tokens fit to the end."""
    want, got = (load(**options) for options in ({}, {"graph": "static"}))
    rows = []
    for backend in (want, got):
        session = backend.open()
        session.extend((IDS * 3)[:250], 0)
        rows.append(np.concatenate([session.extend(IDS[:3], 3), *(session.extend([one]) for one in IDS[3:6])]))
    np.testing.assert_allclose(rows[0], rows[1], atol=2e-4)
    assert (got.graph().steps, got.graph().others) == (3, 5), "four parts of the prompt, and three tokens at the end"


def test_a_step_that_fails_goes_on_without(load: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step's scores are right, graphs are off with the reason, and an interrupted or full machine is no such failure."""
    import torch
    from fader_backends.torch_hf import graph

    want, backend = load(), load(graph="static")
    sessions = want.open(), backend.open()
    for session in sessions:
        session.extend(IDS[:9], 0)

    def broken(error: Exception) -> Callable[[Any], Any]:
        def made(_: Any) -> Any:
            def step(*_: Any) -> Any:
                raise error

            return step

        return made

    with monkeypatch.context() as patch:
        patch.setattr(graph.Graph, "_made", broken(torch.OutOfMemoryError("CUDA out of memory.")))
        with pytest.raises(OutOfMemory):
            sessions[1].extend([7])
    assert backend.graph().on
    backend._graph._steps.clear()
    with monkeypatch.context() as patch:
        patch.setattr(graph.Graph, "_made", broken(RuntimeError("the compiler gave up")))
        got = sessions[1].extend([7])
    np.testing.assert_array_equal(got, sessions[0].extend([7]))
    assert not backend.graph().on
    assert "the compiler gave up" in backend.graph().why


def test_without_a_compiler_it_stays_off(load: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch is asked, and its answer is a reason, not a failure."""
    import torch
    from fader_backends.torch_hf.graph import compiler_lacking
    from torch._inductor import cpp_builder
    from torch._inductor.exc import InvalidCxxCompiler

    def none() -> str:
        raise InvalidCxxCompiler

    assert compiler_lacking(torch.device("cpu")) == ""
    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", none)
    backend = load(graph="compile")
    assert "no C++ compiler" in backend.graph().why
    assert backend.open().extend(IDS[:5]).shape == (1, backend.facts.vocabulary)


def test_a_quantised_cache_has_no_graphs(load: Open) -> None:
    backend = load(graph="static", type_k="q8_0", type_v="q8_0")
    session = backend.open()
    session.extend(IDS[:5], 0)
    session.extend([7])
    assert "quantised" in backend.graph().why


def test_several_rows_run_as_ever(load: Open) -> None:
    backend = load(graph="static")
    sessions = [backend.open(), backend.open()]
    for session in sessions:
        session.extend(IDS[:5], 0)
    backend.evaluate([Extension(session, [7], 1) for session in sessions])
    assert backend.graph().steps == 0


@pytest.mark.parametrize(
    "options", [{"graph": "on"}, {"graph_verify": 0}, {"graph_bucket": 1}, {"graph_compiler": "gcc"}, {"graph_tune": 1}]
)
def test_options_are_checked(options: dict[str, Scalar], load: Open) -> None:
    with pytest.raises(BadValue, match=next(iter(options))):
        load(**options)


def test_nothing_is_left_behind(load: Open) -> None:
    """Another context, and closing, free what was compiled: weights and buffers die, and torch's counts do not grow."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    dead = []
    for _ in range(3):
        backend = load(graph="compile", graph_compiler="eager", graph_verify=1)
        session = backend.open()
        session.extend(IDS[:5], 0)
        session.extend([7])
        code = backend._graph._made()._torchdynamo_orig_callable.__code__
        assert _debug_get_cache_entry_list(code), "something was compiled"
        dead += [
            weakref.ref(next(backend._weights.model.parameters())),
            weakref.ref(session.held.store.layers[0][0].data),
        ]
        backend.configure(ContextSpec(length=256, options={"graph": "static"}))
        assert not _debug_get_cache_entry_list(code)
        backend.close()
        del session
    gc.collect()
    assert [one() for one in dead] == [None] * len(dead)
