"""Owns transformers' loading of a folder's weights: quietly, with progress, and shared with other ranks where there are some.

Knows no sessions. Tensor parallel is transformers' own (`DistributedConfig`, 5.24): each rank reads its part of the matrices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from fader_backends.base import Progress
from fader_backends.errors import BadValue, Interrupted, LoadError, ModelDamaged, ModelUnsupported, OutOfMemory
from fader_backends.torch_hf import attention
from fader_backends.torch_hf.devices import Placement, is_out_of_memory
from fader_backends.torch_hf.folder import Folder, brief
from fader_backends.torch_hf.spread import lay


def ranks() -> int:
    """Return how many processes share the model."""
    ready = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if ready else 1


def check_ranks(name: str, text: Any) -> None:
    """Refuse what cannot be shared by so many ranks. `text` is transformers' configuration. Raises BadValue."""
    count = ranks()
    if count == 1:
        return
    heads = text.num_attention_heads
    shared = {
        "attention heads": heads,
        "KV heads": getattr(text, "num_key_value_heads", None) or heads,
        "inner numbers": getattr(text, "intermediate_size", 0),
    }
    for what, number in shared.items():
        if number % count:
            raise BadValue(
                f"{name} has {number} {what}, which {count} ranks cannot share evenly.", "", "Use another number."
            )


def load_model(
    folder: Folder,
    config: Any,
    placement: Placement,
    where: Sequence[torch.device],
    progress: Progress,
    trust: bool,
) -> Any:
    """Return transformers' model with its weights where they belong; of one among several ranks, its share.

    `where`: the device of each layer and of the output; empty: all on the one of `placement`.

    Raises LoadError and its kinds, OutOfMemory, or Interrupted when `progress` returns False.
    """
    shared: dict[str, Any] = {}
    if ranks() > 1:
        from transformers.distributed import DistributedConfig

        shared["distributed_config"] = DistributedConfig(tp_size=ranks(), tp_plan="auto")
    with _quietly(progress):
        try:
            model, told = AutoModelForCausalLM.from_pretrained(
                str(folder.path),
                config=config,
                dtype=placement.dtype,
                attn_implementation=attention.NAME,
                local_files_only=True,
                use_safetensors=folder.numbers > 0,
                trust_remote_code=trust,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are looked at below
                **shared,
            )
            model = model.eval().requires_grad_(False)
            if where:
                lay(model, where)
            elif not shared:
                model.to(placement.device)
        except Interrupted:
            raise
        except Exception as error:  # transformers raises a great many kinds
            if is_out_of_memory(error):
                raise OutOfMemory(f"{placement.device} has no room for {folder.path.name}.", str(error)) from None
            if "Unrecognized configuration class" in str(error):
                raise ModelUnsupported(
                    f"{folder.path.name} is no chat model.", f"It is a {config.model_type}."
                ) from error
            raise LoadError(
                f"transformers could not load {folder.path.name}.",
                brief(error),
                "Choose another model.",
            ) from error
    if absent := sorted([*told["missing_keys"], *(key for key, *_ in told["mismatched_keys"])]):
        raise ModelDamaged(
            f"{folder.path.name} lacks {len(absent)} tensors, or has them in another shape.",
            f"The first is {absent[0]}.",
            "Download it again, or choose another model.",
        )
    return model


@contextmanager
def _quietly(progress: Progress) -> Iterator[None]:
    """Silence transformers, and let its progress bar tell `progress`."""
    from transformers.utils import logging

    def hook(factory: Any, args: Any, kwargs: Any) -> Any:
        bar = factory(*args, **{**kwargs, "disable": True})
        items = list(args[0]) if args else []
        if kwargs.get("desc") != "Loading weights" or not items:
            return bar
        return _watched(items, progress)

    before, level = logging.set_tqdm_hook(hook), logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_tqdm_hook(before)
        logging.set_verbosity(level)


def _watched(items: Sequence[Any], progress: Progress) -> Iterator[Any]:
    for number, item in enumerate(items):
        if not progress(0.5 + 0.5 * number / len(items)):
            raise Interrupted
        yield item
