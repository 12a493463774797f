"""Owns linear layers that keep their weights in fewer bits: sixteen, eight or four. What is computed stays in the model's type.

Knows kinds of layers, no model. Weight-only quantisation as in gpt-fast (github.com/pytorch-labs/gpt-fast, quantize.py): eight
bits have a scale for each output, four bits scale and offset for each block of 32 inputs, like ggml's Q4_1. Each row of inputs is
computed by itself, so what a token gives does not depend on who shares its batch. Products are torch's own where it has one for
the CPU (FBGEMM for 16 bits and large matrices of 8, ATen's `_weight_int8pack_mm` and `_weight_int4pack_mm_for_cpu`); elsewhere
weights are widened for each product, which saves memory, not time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import Linear, Module
from torch.nn.functional import linear

from fader_backends.base import Scalar
from fader_backends.errors import BadValue
from fader_backends.options import choice
from fader_backends.torch_hf.devices import Placement

KINDS = ("float16", "int8", "int4")
SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Layers that read the same inputs, by transformers' names: one product instead of three, or two."""
BLOCK = 32
SMALLEST = 32
"""Matrices with a side below this are left alone: gates, which choose, and take no memory."""
FEW_ROWS = 32
"""Up to here the product of eight bits is the faster one; many rows are worth widening the weights once."""
LARGE = 1 << 21
"""Numbers in a matrix from which splitting the inputs in two terms costs little beside the product."""
_LEVELS = 63.0
"""FBGEMM adds two products in 16 bits on AVX2, so inputs get seven bits."""


def fbgemm() -> bool:
    """Whether this torch has FBGEMM's products (x86)."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def chosen(options: Mapping[str, Scalar], placement: Placement) -> str:
    """Return the kind that the load option `matrices` means here; empty: as the model has them. Raises BadValue."""
    name = choice(options, "matrices", "plain", dict.fromkeys(("plain", "auto", *KINDS)))
    on_cpu = placement.device.type == "cpu"
    if name == "auto":
        return "float16" if on_cpu and placement.dtype == torch.float32 and fbgemm() else ""
    if name == "float16" and not on_cpu:
        raise BadValue(
            f"matrices = float16 is for CPUs; this model runs on {placement.device}.",
            "",
            "Set dtype to float16 instead.",
        )
    return "" if name == "plain" else name


def pack(model: Module, kind: str) -> int:
    """Replace the linear layers of a loaded model, and halve its embeddings; return the bytes that are no parameters.

    `kind`: one of KINDS. The output layer never gets fewer than eight bits, and scores in full precision.
    """
    head = model.get_output_embeddings()  # type: ignore[operator]  # transformers' models have it
    outside = 0
    for parent in list(model.modules()):
        layers = {
            name: layer
            for name, layer in parent.named_children()
            if type(layer) is Linear and min(layer.weight.shape) >= SMALLEST
        }
        for names in SIBLINGS:
            if layers.keys() >= set(names) and len({layers[name].bias is None for name in names}) == 1:
                whole = _packed(_joined([layers[name] for name in names]), kind, False)
                outside += whole.outside
                for name, part in zip(names, parts_of(whole, [layers.pop(name) for name in names]), strict=True):
                    setattr(parent, name, part)
        for name, layer in layers.items():
            made = _packed(layer, kind, layer is head)
            outside += made.outside
            setattr(parent, name, made)
    for table in model.modules():
        if isinstance(table, nn.Embedding) and table.weight.dtype == torch.float32:
            table.weight = nn.Parameter(table.weight.half(), requires_grad=False)
            table.register_forward_hook(lambda _module, _inputs, found: found.float())
    return outside


def _packed(layer: Linear, kind: str, is_head: bool) -> Packed:
    if kind == "float16":
        return Half(layer)
    if kind == "int4" and not is_head and Four.fits(layer):
        return Four(layer)
    if layer.weight.device.type == "cpu" and fbgemm() and (is_head or layer.weight.numel() >= LARGE):
        return TwoTerms(layer)
    return Eight(layer)


def _joined(layers: Sequence[Linear]) -> Linear:
    """Return one layer with the outputs of all, end to end."""
    weights = torch.cat([layer.weight for layer in layers])
    whole = Linear(weights.shape[1], weights.shape[0], bias=False, device="meta")
    whole.weight = nn.Parameter(weights, requires_grad=False)
    biases: list[Tensor] = [layer.bias for layer in layers if layer.bias is not None]
    whole.bias = nn.Parameter(torch.cat(biases), requires_grad=False) if biases else None  # type: ignore[assignment]
    return whole


class Packed(Module):
    """Base: `forward` takes (…, inputs) and returns (…, outputs), both in the model's type."""

    bias: Tensor | None
    outside = 0
    """Bytes kept where torch does not count them."""

    def __init__(self, layer: Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach(), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return what the layer would, but for rounding of its weights."""
        rows = inputs.reshape(-1, self.in_features)
        found = self.product(rows).to(inputs.dtype)
        if self.bias is not None:
            found = found + self.bias
        return found.view(*inputs.shape[:-1], self.out_features)

    def product(self, rows: Tensor) -> Tensor:
        """Return (rows, outputs) for (rows, inputs)."""
        raise NotImplementedError


class Part(Module):
    """Some outputs of a layer that several share: whoever is asked first has the whole computed, the others find it."""

    def __init__(self, shared: Shared, start: int, end: int) -> None:
        super().__init__()
        self.whole, self._shared = shared.whole, shared
        self.in_features, self.out_features = shared.whole.in_features, end - start
        self._start, self._end = start, end

    def forward(self, inputs: Tensor) -> Tensor:
        """Return what the layer in whose place this stands would."""
        return self._shared.found(inputs)[..., self._start : self._end]


class Shared:
    """The last product of a layer with several parts, until each part has had it."""

    def __init__(self, whole: Packed, readers: int) -> None:
        self.whole, self._readers = whole, readers
        self._inputs: Tensor | None = None
        self._found: Tensor | None = None
        self._left = 0

    def found(self, inputs: Tensor) -> Tensor:
        """Return the whole's outputs for these very inputs."""
        if self._found is None or self._inputs is not inputs:
            self._inputs, self._found, self._left = inputs, self.whole(inputs), self._readers
        found = self._found
        self._left -= 1
        if not self._left:
            self._inputs = self._found = None
        return found


def parts_of(whole: Packed, layers: Sequence[Linear]) -> list[Part]:
    """Return a part for each of the layers that `whole` stands for."""
    ends = list(accumulate(layer.out_features for layer in layers))
    shared = Shared(whole, len(layers))
    return [Part(shared, start, end) for start, end in zip([0, *ends], ends, strict=False)]


class Half(Packed):
    """Sixteen bits, on a CPU that computes in 32: the same words but for a rounding of 2^-11, from half the bytes."""

    def __init__(self, layer: Linear) -> None:
        super().__init__(layer)
        self._own: Callable[[Tensor], Tensor]
        if fbgemm():
            packed = torch.ops.quantized.linear_prepack_fp16(layer.weight.float(), None)
            self._own = lambda rows: torch.ops.quantized.linear_dynamic_fp16.default(rows.float(), packed)
            self.outside = 2 * layer.weight.numel()
        else:
            half = layer.weight.half()
            self._own = lambda rows: linear(rows.half(), half)
            self.outside = half.nbytes

    def product(self, rows: Tensor) -> Tensor:
        """See `Packed.product`."""
        return self._own(rows)


class Eight(Packed):
    """Eight bits and a scale for each output."""

    weight: Tensor
    scales: Tensor

    def __init__(self, layer: Linear) -> None:
        super().__init__(layer)
        codes, scales = quantised(layer.weight)
        self.register_buffer("weight", codes)
        self.register_buffer("scales", scales.to(torch.bfloat16 if codes.device.type == "cpu" else layer.weight.dtype))

    def product(self, rows: Tensor) -> Tensor:
        """See `Packed.product`."""
        if self.weight.device.type != "cpu":
            return linear(rows, self.weight.to(rows.dtype)) * self.scales
        rough = rows.to(torch.bfloat16)  # the one type that torch has a fast product for
        if len(rows) <= FEW_ROWS:
            return torch._weight_int8pack_mm(rough, self.weight, self.scales)
        return linear(rough.float(), self.weight.float()) * self.scales.float()


class TwoTerms(Packed):
    """Eight bits by FBGEMM, whose products take eight-bit inputs: each row goes in as a coarse and a fine part.

    Together the parts hold thirteen bits of each number against the row's largest, and a product of two rows takes
    hardly longer than of one, since reading the weights is what takes time.
    """

    def __init__(self, layer: Linear) -> None:
        super().__init__(layer)
        codes, scales = quantised(layer.weight)
        zeros = torch.zeros(len(scales), dtype=torch.long)
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # such tensors will go; the product has no other way to be told its weights
                weight = torch._make_per_channel_quantized_tensor(codes, scales.double(), zeros, 0)
                self._packed = torch.ops.quantized.linear_prepack(weight, None)
        finally:
            torch.backends.quantized.engine = before
        self._multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default
        self.outside = codes.nbytes + scales.nbytes

    def product(self, rows: Tensor) -> Tensor:
        """See `Packed.product`."""
        rows = rows.float()
        scale = torch.linalg.vector_norm(rows, float("inf"), -1, True).clamp_min_(1e-30).div_(_LEVELS)
        exact = rows / scale
        coarse = exact.round()
        both = self._multiply(torch.cat([coarse, exact.sub_(coarse).mul_(2 * _LEVELS)]), 1.0, 64, self._packed)
        return torch.add(both[: len(rows)], both[len(rows) :], alpha=0.5 / _LEVELS).mul_(scale)


class Four(Packed):
    """Four bits, with scale and offset for each block of inputs: (code - 8) * scale + offset."""

    weight: Tensor
    scales: Tensor

    def __init__(self, layer: Linear) -> None:
        super().__init__(layer)
        blocks = layer.weight.float().reshape(self.out_features, -1, BLOCK)
        least, most = blocks.aminmax(dim=-1)
        scales = ((most - least) / 15).clamp_min(1e-30)
        offsets = least + 8 * scales
        codes = ((blocks - least[..., None]) / scales[..., None]).round_().clamp_(0, 15)
        pairs = torch.stack([scales, offsets], -1)
        if layer.weight.device.type == "cpu":
            whole = codes.view_as(layer.weight).int()
            self.register_buffer("weight", torch.ops.aten._convert_weight_to_int4pack_for_cpu(whole, 1))
            self.register_buffer("scales", pairs.transpose(0, 1).contiguous().to(torch.bfloat16))
        else:
            low, high = codes.to(torch.uint8).chunk(2, -1)
            self.register_buffer("weight", low | high << 4)
            self.register_buffer("scales", pairs.to(layer.weight.dtype))

    @staticmethod
    def fits(layer: Linear) -> bool:
        """Whether a layer's shape is one that torch's product takes."""
        return layer.in_features % BLOCK == 0 and layer.out_features % 16 == 0

    def product(self, rows: Tensor) -> Tensor:
        """See `Packed.product`."""
        if self.weight.device.type == "cpu":
            rough = rows.to(torch.bfloat16)
            found: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(rough, self.weight, BLOCK, self.scales)
            return found
        codes = torch.cat([self.weight & 15, self.weight >> 4], -1).to(rows.dtype) - 8
        wide = codes * self.scales[..., :1] + self.scales[..., 1:]
        return linear(rows, wide.view(self.out_features, self.in_features))


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return int8 codes like `weight`, (outputs, inputs), and float32 scales (outputs,): code * scale is nearest."""
    wide = weight.float()
    scales = wide.abs().amax(1).clamp_min(1e-30) / 127
    return (wide / scales[:, None]).round_().to(torch.int8), scales
