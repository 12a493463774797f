"""Names the built-in backends by import path, so that a library is imported only when its backend is chosen."""

from __future__ import annotations

from fader_backends.base import BackendInfo
from fader_backends.llamacpp.devices import cpu_only
from fader_backends.llamacpp.split import NOTHING_HERE

from .hookspecs import hookimpl
from .turn import PluginInfo

info = PluginInfo(name="known_backends", summary="The backends that ship with Fader", toggle=False)


@hookimpl
def backends() -> list[BackendInfo]:
    """Name llama.cpp, torch and the deterministic fake."""
    alone = cpu_only()
    return [
        BackendInfo(
            name="llama.cpp",
            summary="GGUF models on the CPU, and on GPUs where the library was built for them",
            loader="fader_backends.llamacpp:load",
            provides=frozenset({"rewind", "fork", "save", "rows", "interrupt", "kv_types", "grammar"})
            | (frozenset() if alone else frozenset({"tensor_split"})),
            lacks={
                "graph": "llama.cpp makes its graphs by itself and reuses them; `fader ops` shows how often",
                "weights": "llama.cpp computes with the number types of the file: choose another GGUF file, or torch",
                **({"tensor_split": f"llama.cpp was built for the CPU only: {NOTHING_HERE}"} if alone else {}),
            },
        ),
        BackendInfo(
            name="torch",
            summary="Hugging Face folders, hub ids and GGUF models through transformers, on CPUs and GPUs",
            loader="fader_backends.torch_hf:load",
            provides=frozenset(
                {
                    "rewind",
                    "fork",
                    "save",
                    "rows",
                    "interrupt",
                    "kv_types",
                    "weights",
                    "tensor_split",
                    "graph",
                    "grammar",
                }
            ),
        ),
        BackendInfo(
            name="echo",
            summary="Repeats what you say; no model needed",
            loader="fader_backends.echo:load",
            provides=frozenset({"rewind", "fork", "save", "rows", "interrupt"}),
            lacks={"graph": "echo computes nothing that could be compiled", "weights": "echo has no weights"},
        ),
    ]
