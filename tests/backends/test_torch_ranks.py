"""Tensor parallel on torch: two CPU ranks give what one gives, keep the laws of sessions, and never outlive their owner."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest
from fader_backends import torch_hf
from fader_backends.base import Backend, ContextSpec, Extension, ModelSpec, Scalar
from fader_backends.errors import BadValue, FaderError, Interrupted, LoadError, NotSupported, TurnError
from fader_backends.torch_hf.ranked import RankedBackend
from fader_plugins.testing import check_sessions

pytest.importorskip("accelerate", reason="transformers shares models through it")
pytestmark = pytest.mark.slow
CONTEXT = ContextSpec(length=256, rows=4, batch=32, threads=2)
TWO: dict[str, Scalar] = {"split_mode": "tensor", "tensor_split": "1,1", "device": "cpu"}
IDS = [5 + 7 * place * place % 250 for place in range(60)]
OWNER = """
import sys
from fader_backends import torch_hf
from fader_backends.base import ContextSpec, ModelSpec

model = ModelSpec(backend="torch", model=sys.argv[1], options={"split_mode": "tensor", "tensor_split": "1,1"})
backend = torch_hf.load(model, ContextSpec(length=256, threads=2), lambda _: True)
print(*backend.ranks.pids, flush=True)
session = backend.open()
while True:
    session.rewind(0)
    session.extend([5] * 100)
"""


def load(model: object, options: dict[str, Scalar]) -> Backend:
    return torch_hf.load(ModelSpec(backend="torch", model=str(model), options=options), CONTEXT, lambda _: True)


@pytest.fixture(scope="module")
def ranked(folders: Callable[[str], Path]) -> Iterator[RankedBackend]:
    """Two ranks over a tiny Llama, which are gone when it is closed."""
    backend = load(folders("llama"), TWO)
    assert isinstance(backend, RankedBackend)
    yield backend
    ranks = [psutil.Process(pid) for pid in backend.ranks.pids]
    backend.close()
    assert not psutil.wait_procs(ranks, 0)[1]


def test_two_ranks_score_as_one(folders: Callable[[str], Path], ranked: RankedBackend) -> None:
    """Within 1e-4, in chunks and in company; each rank holds half of the matrices and of the keys and values."""
    one = load(folders("llama"), {})
    want = one.open().extend(IDS, 60)
    session, other = ranked.open(), ranked.open()
    got = [session.extend(IDS[:50], 50)]
    got += [ranked.evaluate([Extension(other, IDS[:9], 1), Extension(session, IDS[50:53], 3)])[1]]
    got += [session.extend([token]) for token in IDS[53:]]
    np.testing.assert_allclose(np.concatenate(got), want, atol=1e-4)
    assert want.std() > 0.5, "the scores are worth comparing"
    assert ranked.facts.parameters == one.facts.parameters
    assert ranked.facts.device.startswith("2 ranks, each cpu")
    total = one.memory().weights_bytes or 0
    assert total <= (ranked.memory().weights_bytes or 0) < total * 1.1, "norms lie on both"
    assert ranked.encode("hello") == one.encode("hello")
    assert ranked.piece(9) == one.piece(9)
    session.close()
    other.close()
    one.close()


def test_the_laws_of_sessions(ranked: RankedBackend) -> None:
    """Rewound, forked, moved, batched and drafted."""
    check_sessions(ranked, IDS, tolerance=2e-4)


def test_there_are_no_graphs(ranked: RankedBackend) -> None:
    """Steps run as ever, and the reason is there to be told."""
    session = ranked.open()
    want = session.extend(IDS[:20])
    ranked.configure(msgspec.structs.replace(CONTEXT, options={"graph": "compile"}))
    state = ranked.graph()
    assert state is not None
    assert (state.mode, state.on) == ("compile", False)
    assert "several processes share each layer" in state.why
    np.testing.assert_array_equal(ranked.open().extend(IDS[:20]), want)
    ranked.configure(CONTEXT)
    assert ranked.graph() is None


def test_a_stop_is_heard_between_calls(ranked: RankedBackend) -> None:
    session = ranked.open()
    session.extend(IDS[:5], 0)
    ranked.interrupt()
    with pytest.raises(Interrupted):
        session.extend(IDS[5:])
    ranked.resume()
    assert list(session.tokens) == IDS[:5]
    with pytest.raises(FaderError, match="do not fit"):
        session.extend([5] * 300)
    session.close()


def test_a_rank_that_dies(ranked: RankedBackend) -> None:
    """The call fails and says so, the other rank goes too, and the next session has ranks of its own."""
    session = ranked.open()
    want = session.extend(IDS[:20])
    before = [psutil.Process(pid) for pid in ranked.ranks.pids]
    before[1].kill()
    psutil.wait_procs(before[1:], 20)
    with pytest.raises(TurnError, match="have ended"):
        session.extend(IDS[20:])
    assert not psutil.wait_procs(before, 20)[1]
    session.close()
    np.testing.assert_allclose(ranked.open().extend(IDS[:20]), want, atol=1e-5)


def test_no_rank_outlives_its_owner(folders: Callable[[str], Path]) -> None:
    """`kill -9` of the owner, in the middle of a call: both ranks are gone soon."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folders("llama"))], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        ranks = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
        assert len(ranks) == 2
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()  # type: ignore[union-attr]
    assert not psutil.wait_procs(ranks, 20)[1]


def test_closing_ends_them(folders: Callable[[str], Path]) -> None:
    """Also when loading fails, or is stopped."""
    seen: list[set[int]] = []

    def children() -> set[int]:
        return {child.pid for child in psutil.Process().children(recursive=True)}

    before = children()

    def progress(fraction: float) -> bool:
        seen.append(children() - before)
        return False

    with pytest.raises(Interrupted):
        torch_hf.load(ModelSpec(backend="torch", model=str(folders("llama")), options=TWO), CONTEXT, progress)
    assert len(seen[-1]) == 2
    assert children() == before
    with pytest.raises(LoadError):
        load(folders("llama") / "nowhere", TWO)
    assert children() == before


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"tensor_split": "2,1"}, BadValue, "ranks share evenly"),
        ({"tensor_split": "1,1,1"}, BadValue, "4 attention heads, which 3 ranks cannot share evenly"),
        ({"matrices": "int8"}, BadValue, "goes with one rank only"),
        ({"split_mode": "row"}, BadValue, "row is llama.cpp's"),
        ({"tensor_split": ""}, NotSupported, "one device here"),
    ],
)
def test_what_cannot_be(
    options: dict[str, Scalar], kind: type[FaderError], says: str, folders: Callable[[str], Path]
) -> None:
    """Each in one line that says what to do."""
    import torch

    if torch.cuda.device_count() > 1 and "one device" in says:
        pytest.skip("there are several")
    with pytest.raises(kind, match=says):
        load(folders("llama"), {**TWO, **options})


def test_layers_need_a_gpu(folders: Callable[[str], Path]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(NotSupported, match="no CUDA device here"):
        load(folders("llama"), {"split_mode": "layer"})


def test_laid_out_by_layers(folders: Callable[[str], Path]) -> None:
    """The hooks that carry states from device to device change no score; where everything is the CPU, they can be tried."""
    import torch
    from fader_backends.torch_hf.backend import TorchBackend
    from fader_backends.torch_hf.spread import lay

    for kind in ("llama", "gemma3_text"):
        backend = load(folders(kind), {})
        assert isinstance(backend, TorchBackend)
        want = backend.open().extend(IDS, 60)
        lay(backend._weights.model, [torch.device("cpu")] * 3)
        np.testing.assert_array_equal(backend.open().extend(IDS, 60), want)
        backend.close()
