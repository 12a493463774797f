"""Owns the llama.cpp backend's front door: how a model is loaded and which options there are.

Knows nothing of the library until a model is asked for; importing this package imports no llama_cpp.
"""

from __future__ import annotations

from fader_backends.base import Backend, ContextSpec, ModelSpec, Progress


def load(model: ModelSpec, context: ContextSpec, progress: Progress) -> Backend:
    """Load a GGUF file (a path; empty or `smollm2`: the embedded model) and make its first context.

    Model options: `n_gpu_layers`, `split_mode`, `tensor_split` (proportions, as "3,1"), `main_gpu`, `mmap`.
    Context options: `flash_attention` (auto, on, off), `type_k` and `type_v` (f16, q8_0, …), `ubatch` (most tokens
    evaluated at a time, default 512), `unified` (True: all rows share one buffer; False: each has one of full length, so
    that the others can never change the order it is summed up in).
    The backend can rewind (unless the model's state is a running sum), fork, save, run rows in one call, be interrupted
    (on CPU and Metal; elsewhere between calls), quantise its KV cache, and hold a reply to a grammar.
    Raises LoadError and its kinds, OutOfMemory, BadValue, UnknownName, or Interrupted when `progress` returns False.
    """
    from fader_backends.llamacpp.backend import open_backend

    return open_backend(model, context, progress)
