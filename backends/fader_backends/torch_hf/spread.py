"""Owns how a model is spread on torch: over ranks that share each layer, or layer by layer over GPUs and the CPU.

Knows the load options that `tensor_split` sets, and how transformers' decoders are built: embeddings, layers, norm, head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fader_backends.base import Scalar
from fader_backends.errors import BadValue, NotSupported
from fader_backends.llamacpp.split import normalised, parts_of, places
from fader_backends.options import choice, integer

OPTIONS = ("split_mode", "tensor_split", "n_gpu_layers", "main_gpu")
NO_GPU = "torch sees no CUDA device here, so layers cannot be spread."


class Spread(NamedTuple):
    """What was asked for."""

    ranks: int = 1
    """Processes that share every layer."""
    shares: tuple[float, ...] = ()
    """Of each GPU, adding up to 1; empty: the model lies on one device."""
    moved: int = -1
    """Layers that leave the CPU; -1: all."""
    main: int | None = None
    """The one GPU to use."""


def asked(options: Mapping[str, Scalar]) -> Spread:
    """Read the options. Raises BadValue, or NotSupported where there is nothing to spread over."""
    if not any(name in options for name in OPTIONS):
        return Spread()
    mode = choice(options, "split_mode", "layer", dict.fromkeys(("none", "layer", "row", "tensor")))
    parts = parts_of(str(options.get("tensor_split", "")))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if mode == "row":
        raise BadValue("tensor_split.split_mode = row is llama.cpp's.", "", "Choose tensor, which torch has instead.")
    if mode == "tensor":
        return Spread(ranks=_ranks(parts, gpus, str(options.get("device", "auto"))))
    if not gpus:
        raise NotSupported(NO_GPU, "", "Switch tensor_split off, or set split_mode to tensor and proportions to 1,1.")
    main, moved = integer(options, "main_gpu", 0), integer(options, "n_gpu_layers", -1)
    if not 0 <= main < gpus:
        raise BadValue(f"tensor_split.main_device = {main} is not there.", f"torch sees {gpus}.", "Name one of those.")
    if mode == "none" and moved < 0:
        return Spread(main=main)
    if len(parts) > gpus:
        raise BadValue(f"tensor_split.proportions names {len(parts)} devices; torch sees {gpus}.", "", "Name as many.")
    if mode == "none":
        parts = tuple(float(place == main) for place in range(gpus))
    free = tuple(float(torch.cuda.mem_get_info(place)[0]) for place in range(gpus))
    return Spread(shares=normalised(parts or free, gpus), moved=moved)


def _ranks(parts: Sequence[float], gpus: int, device: str) -> int:
    count = len(parts) or gpus
    if len(set(parts)) > 1:
        raise BadValue(
            f"tensor_split.proportions = {','.join(f'{part:g}' for part in parts)}: ranks share evenly.",
            "",
            "Write for example 1,1.",
        )
    if count < 2:
        raise NotSupported(
            "There is one device here, so nothing can be shared.",
            "",
            "Set tensor_split.proportions to 1,1 for two processes, or switch tensor_split off.",
        )
    if gpus and device != "cpu" and count > gpus:
        raise BadValue(f"{count} ranks need as many GPUs; torch sees {gpus}.", "", "Set fewer, or device to cpu.")
    return count


def device_of_ranks(options: Mapping[str, Scalar]) -> str:
    """Return the kind of device that ranks run on."""
    return "cuda" if torch.cuda.is_available() and options.get("device", "auto") != "cpu" else "cpu"


def devices(spread: Spread, layers: int) -> list[torch.device]:
    """Return where each layer lies, and the output last."""
    return [
        torch.device("cpu") if place is None else torch.device("cuda", place)
        for place in places(layers, spread.moved, spread.shares)
    ]


def lay(model: Any, where: Sequence[torch.device]) -> None:
    """Move each layer of a causal language model to its device, the embeddings to that of the first, norm and head to the last.

    What a layer is given is moved before it computes. A head that shares its matrix with the embeddings gets a copy.
    """
    base = model.base_model
    head = model.get_output_embeddings()
    if len({str(one) for one in where}) > 1 and head.weight is model.get_input_embeddings().weight:
        head.weight = nn.Parameter(head.weight.detach().clone(), requires_grad=False)
    placed = {id(layer): device for layer, device in zip(base.layers, where, strict=False)}
    for name, part in base.named_children():
        if part is not base.layers:
            part.to(where[-1] if name == "norm" else where[0])
    head.to(where[-1])
    for part, device in [*((layer, placed[id(layer)]) for layer in base.layers), (base.norm, where[-1])]:
        part.to(device)
        part.register_forward_pre_hook(_mover(device), with_kwargs=True)


def _mover(device: torch.device) -> Any:
    def moved(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(device)
        return tuple(moved(one) for one in value) if isinstance(value, tuple) else value

    def hook(_module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return moved(given), {name: moved(value) for name, value in named.items()}

    return hook
