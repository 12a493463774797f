"""Owns the llama.cpp backend's front door: its name, what it can do, and how it is loaded.

Knows nothing of the library until a model is asked for; importing this package imports no llama_cpp.
"""

from __future__ import annotations

from fader_backends.base import Backend, BackendInfo, ContextSpec, ModelSpec, Progress

INFO = BackendInfo(
    name="llamacpp",
    summary="GGUF models through llama.cpp, on CPU or GPU",
    loader="fader_backends.llamacpp:load",
    provides=frozenset({"rewind", "fork", "save", "rows", "interrupt", "kv_types"}),
)


def load(model: ModelSpec, context: ContextSpec, progress: Progress) -> Backend:
    """Load a GGUF file (a path; empty or `smollm2`: the embedded model) and make its first context.

    Model options: `n_gpu_layers`, `main_gpu`, `mmap`. Context options: `flash_attention` (auto, on, off), `type_k` and
    `type_v` (f16, q8_0, …), `ubatch` (most tokens evaluated at a time, default 512), `unified` (True: all rows share one
    buffer; False: each has one of full length, so that the others can never change the order it is summed up in).
    Raises LoadError and its kinds, OutOfMemory, BadValue, UnknownName, or Interrupted when `progress` returns False.
    """
    from fader_backends.llamacpp.backend import open_backend

    return open_backend(model, context, progress)
