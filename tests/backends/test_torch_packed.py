"""Weights of fewer bits on torch: what is multiplied, what is kept, and that the laws of sessions hold on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fader_backends import torch_hf
from fader_backends.base import Backend, ContextSpec, ModelSpec, Scalar
from fader_backends.errors import BadValue
from fader_plugins.contract import CHECKS

from tests.backends.test_contract import STATE, on_torch

pytestmark = pytest.mark.slow
KINDS = ("float16", "int8", "int4")
STEP = {"float16": 2**-11, "int8": 1 / 127, "int4": 1 / 15}
"""The most a number may be off, of the largest in its block: half a step; the type bfloat16 of inputs comes on top."""


def load(model: object, **options: Scalar) -> Backend:
    spec = ModelSpec(backend="torch", model=str(model), options=options)
    return torch_hf.load(spec, ContextSpec(length=256, rows=2, batch=64), lambda _: True)


def layer(outputs: int = 96, inputs: int = 64, bias: bool = True) -> Any:
    import torch

    torch.manual_seed(3)
    return torch.nn.Linear(inputs, outputs, bias=bias).requires_grad_(False)


def kinds() -> list[tuple[str, Any]]:
    from fader_backends.torch_hf import packed

    both = [("int8", packed.TwoTerms)] if packed.fbgemm() else []
    return [("float16", packed.Half), ("int8", packed.Eight), ("int4", packed.Four), *both]


def test_products() -> None:
    """One row and many: each kind is as near to the exact product as its step says, row by row and with its bias."""
    import torch

    whole = layer()
    for kind, make in kinds():
        made = make(whole)
        for rows in (1, 3, 40):
            inputs = torch.randn(2, rows, 64)
            got, want = made(inputs), whole(inputs)
            assert got.shape == want.shape
            assert got.dtype == torch.float32
            bound = (STEP[kind] + 2**-7) * whole.weight.abs().max() * inputs.abs().sum(-1).max()
            assert (got - want).abs().max() < bound, kind
            assert (got - want).abs().max() > 0, f"{kind} must round"
            alone = torch.stack([made(one)[0] for one in inputs.reshape(-1, 1, 64)])
            assert (alone - got.reshape(-1, 96)).abs().max() < 0.02, f"{kind}: a row's product depends on its company"


def test_two_terms_lose_nothing_of_the_inputs() -> None:
    """FBGEMM's product in two parts equals that of the same codes in full precision within 2^-12 of the largest input."""
    import torch
    from fader_backends.torch_hf.packed import TwoTerms, fbgemm, quantised

    if not fbgemm():
        pytest.skip("this torch has no FBGEMM")
    whole = layer(bias=False)
    codes, scales = quantised(whole.weight)
    inputs = torch.cat([torch.randn(5, 64) * 10.0**power for power in (-6, 0, 4)] + [torch.zeros(1, 64)])
    want = inputs @ (codes * scales[:, None]).T
    got = TwoTerms(whole)(inputs)
    bound = inputs.abs().amax(1, keepdim=True) * (codes * scales[:, None]).abs().sum(1) * 2**-12
    assert ((got - want).abs() <= bound).all()


def test_four_bits_hold_what_was_in_four_bits() -> None:
    """A matrix that had scale, offset and sixteen steps a block comes back as it was, but for the rounding of both."""
    import torch
    from fader_backends.torch_hf.packed import Four

    whole = layer(32, 64, bias=False)
    codes = torch.randint(0, 16, (32, 2, 32)).float()
    codes[..., 0], codes[..., 1] = 0, 15
    whole.weight.data = (codes * torch.rand(32, 2, 1) + torch.randn(32, 2, 1)).view(32, 64)
    got = Four(whole)(torch.eye(64)).T
    assert (got - whole.weight).abs().max() < 2**-6 * whole.weight.abs().max()


def test_parts_share_one_product() -> None:
    """Siblings are computed once for the same inputs, and again for others, in whatever order they are asked."""
    import torch
    from fader_backends.torch_hf.packed import Half, parts_of

    q, k = layer(96), layer(32)
    joined = torch.nn.Linear(64, 128)
    joined.weight.data, joined.bias.data = torch.cat([q.weight, k.weight]), torch.cat([q.bias, k.bias])
    whole, calls = Half(joined.requires_grad_(False)), []
    whole.register_forward_hook(lambda *_: calls.append(1))
    first, second = parts_of(whole, [q, k])
    a, b = torch.randn(1, 2, 64), torch.randn(1, 2, 64)
    for inputs, part, own in ((a, first, q), (a, second, k), (b, second, k), (a, first, q), (b, first, q)):
        torch.testing.assert_close(part(inputs), own(inputs), atol=2e-3, rtol=1e-3)
    assert len(calls) == 4


def test_what_is_kept(folders: Callable[[str], Path]) -> None:
    """Fewer bits, fewer bytes; facts and state key say so; the scores stay near."""
    ids = list(range(5, 69))
    rows, sizes, keys = {}, {}, set()
    for kind in ("plain", *KINDS):
        backend = load(folders("llama"), matrices=kind)
        rows[kind] = backend.open().extend(ids)[0]
        sizes[kind] = backend.memory().weights_bytes or 0
        keys.add(backend.state_key)
        assert backend.facts.weights_bytes == sizes[kind]
        assert (kind in backend.facts.quantisation) == (kind != "plain")
        assert backend.facts.parameters == 132_928
        backend.close()
    assert len(keys) == 4
    assert sizes["plain"] > sizes["float16"] > sizes["int8"] > sizes["int4"]
    far = {kind: float(np.abs(row - rows["plain"]).max() / rows["plain"].std()) for kind, row in rows.items()}
    assert 0 < far["float16"] < 0.02
    assert far["float16"] < far["int8"] < far["int4"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", STATE)
def test_laws_of_sessions(kind: str, check: str, folders: Callable[[str], Path]) -> None:
    """Rewound, forked, moved and batched scores are those of a fresh evaluation: within rounding of inputs to bfloat16."""
    for model in ("llama", "gemma3_text", "qwen3_moe"):
        subject = on_torch(str(folders(model)), range(5), 2e-4 if kind == "float16" else 0.1)
        made = subject._replace(model=ModelSpec(backend="torch", model=subject.model.model, options={"matrices": kind}))
        CHECKS[check](made)


def test_refusals(folders: Callable[[str], Path]) -> None:
    """An unknown kind names the known ones."""
    with pytest.raises(BadValue, match="matrices = 'int3' is none of plain, auto, float16, int8, int4"):
        load(folders("llama"), matrices="int3")


def test_auto(folders: Callable[[str], Path]) -> None:
    """Half precision on a CPU that computes in float32, where torch can; as it is in other types."""
    from fader_backends.torch_hf.packed import fbgemm

    for dtype, kept in (("float32", fbgemm()), ("bfloat16", False)):
        backend = load(folders("llama"), matrices="auto", dtype=dtype)
        assert ("matrices in float16" in backend.facts.quantisation) == kept
        backend.close()
