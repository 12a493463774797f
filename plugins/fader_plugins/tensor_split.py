"""Spread the model over devices, or on torch over processes. Off: the backend decides by itself.

Knows what can be set, not which devices there are: the engine checks that, and greys this out where nothing can be spread.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fader_backends.base import ContextSpec
from fader_backends.errors import BadValue
from fader_backends.ggml_types import BLOCKS, CACHE_TYPES
from fader_backends.llamacpp.split import parts_of

from .hookspecs import hookimpl
from .turn import PluginInfo, RequestDraft, Settings, setting


class TensorSplit(Settings, frozen=True, kw_only=True):
    """Settings of the split."""

    n_gpu_layers: Annotated[int, setting("Layers that leave the CPU; -1 is all", cost="load", ge=-1, step=1)] = -1
    split_mode: Annotated[
        Literal["none", "layer", "row", "tensor"],
        setting(
            "none: one device; layer: whole layers to each; tensor: each layer to all, on torch by processes that share "
            "evenly; row: llama.cpp's older way",
            cost="load",
        ),
    ] = "layer"
    proportions: Annotated[str, setting("Share of each device, as 3,1; empty: by free memory", cost="load")] = ""
    main_device: Annotated[int, setting("Which device, where the mode is none", cost="load", ge=0, step=1)] = 0


info = PluginInfo(
    name="tensor_split",
    summary="Spread the model over devices (off: as the backend sees fit)",
    settings=TensorSplit,
    on=False,
    needs=frozenset({"tensor_split"}),
)


@hookimpl
def plan_request(draft: RequestDraft) -> None:
    """Set the model's options. Raises BadValue for proportions that are none."""
    settings = draft.settings(info.name, TensorSplit)
    parts_of(settings.proportions)
    if settings.split_mode == "tensor" and draft.model.backend == "llama.cpp":
        check_context(draft.context)
    draft.model = msgspec.structs.replace(
        draft.model,
        options={
            **draft.model.options,
            "n_gpu_layers": settings.n_gpu_layers,
            "split_mode": settings.split_mode,
            "tensor_split": settings.proportions,
            "main_gpu": settings.main_device,
        },
    )


def check_context(context: ContextSpec) -> None:
    """Raise BadValue for what llama.cpp cannot do in split mode `tensor` (docs/multi-gpu.md)."""
    step = "Set split_mode to layer, or change that."
    if context.options.get("flash_attention") == "off":
        raise BadValue("tensor_split.split_mode = tensor needs flash attention, and the profile has it off.", "", step)
    for name in ("type_k", "type_v"):
        kind = str(context.options.get(name, "f16"))
        if BLOCKS.get(CACHE_TYPES.get(kind, 0), (1, 0))[0] > 1:
            raise BadValue(f"tensor_split.split_mode = tensor cannot work with a KV cache of {kind}.", "", step)
