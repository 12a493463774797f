"""Owns the torch backend's front door: how a model is loaded and which options there are.

Knows nothing of torch until a model is asked for; importing this package imports neither torch nor transformers.
"""

from __future__ import annotations

import importlib.util

from fader_backends.base import Backend, ContextSpec, ModelSpec, Progress
from fader_backends.errors import LoadError
from fader_backends.torch_hf.collecting import uncollected


def load(model: ModelSpec, context: ContextSpec, progress: Progress) -> Backend:
    """Load a Hugging Face folder, a hub id, or a GGUF file (empty or `smollm2`: the embedded model).

    Model options: `device` (auto, cpu, cuda, cuda:1, mps), `dtype` (auto, float32, bfloat16, float16), `matrices` (plain,
    auto, float16, int8, int4: how linear layers are kept), those of `spread` as on llama.cpp (`split_mode`: none, layer, or
    tensor, where several processes share each layer; `tensor_split`, `n_gpu_layers`, `main_gpu`), `download` (True: a
    hub id that is not in the local cache is fetched), `allow_pickle` and `trust_remote_code` (both False: what they
    allow can run code of the model's makers).
    Context options: `type_k` and `type_v` (f32, f16, bf16, q8_0, q4_0; none: the model's own type), `cache` (dynamic:
    buffers grow; static: they are made whole), `flash_attention` (off: attention is written out, not fused), `unified`
    (only False: each row has its own buffers).
    The backend can rewind, fork, save, run rows in one call and be interrupted between layers.
    Raises LoadError and its kinds, OutOfMemory, BadValue, UnknownName, NotSupported, or Interrupted when `progress`
    returns False.
    """
    missing = [name for name in ("torch", "transformers", "safetensors") if importlib.util.find_spec(name) is None]
    if missing:
        raise LoadError(
            "The torch backend's libraries are not installed.",
            f"Missing: {', '.join(missing)}.",
            'Install them with pip install "fader[torch]", or choose another backend.',
        )
    with uncollected():
        return _opened(model, context, progress)


def _opened(model: ModelSpec, context: ContextSpec, progress: Progress) -> Backend:
    from fader_backends.torch_hf import spread

    count = spread.asked(model.options).ranks
    if count > 1:
        from fader_backends.torch_hf.ranked import open_ranked

        if importlib.util.find_spec("accelerate") is None:
            raise LoadError(
                "Sharing a model between processes needs accelerate, which is not installed.",
                "",
                'Install it with pip install "fader[torch]", or switch tensor_split off.',
            )
        return open_ranked(model, context, progress, count, spread.device_of_ranks(model.options))
    from fader_backends.torch_hf.backend import open_backend

    return open_backend(model, context, progress)
