"""Owns the list of devices llama.cpp can compute on, and what can be said of it without loading the library.

Knows no model.
"""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

from fader_backends.llamacpp.library import bindings
from fader_backends.llamacpp.split import Device

KINDS = ("cpu", "gpu", "igpu", "accel", "meta")
"""`ggml_backend_dev_type`."""
_HOST = ("base", "cpu", "blas", "rpc")
"""Parts of ggml that bring no device to put layers on; RPC has none until a server is named."""


def parts() -> tuple[str, ...]:
    """Return the names of ggml's parts that are installed (`cpu`, `cuda`, `metal` …), from file names alone."""
    spec = importlib.util.find_spec("llama_cpp")
    folders = [Path(folder) / "lib" for folder in (spec.submodule_search_locations or ())] if spec else []
    names = {path.name.split(".")[0] for folder in folders for path in folder.glob("*ggml-*")}
    return tuple(sorted({name.removeprefix("lib").removeprefix("ggml-").partition("-")[0] for name in names}))


def cpu_only() -> bool:
    """Whether llama.cpp was built for the CPU alone; False where that cannot be seen."""
    found = parts()
    return bool(found) and set(found) <= set(_HOST)


def devices() -> list[Device]:
    """Return what the library sees, in its order. Loads it. Raises LoadError."""
    library = _ggml()
    found = []
    for index in range(library.ggml_backend_dev_count()):
        pointer = library.ggml_backend_dev_get(index)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        library.ggml_backend_dev_memory(pointer, ctypes.byref(free), ctypes.byref(total))
        kind = library.ggml_backend_dev_type(pointer)
        found.append(
            Device(
                name=_text(library.ggml_backend_dev_name(pointer)),
                description=_text(library.ggml_backend_dev_description(pointer)).strip(),
                kind=KINDS[kind] if 0 <= kind < len(KINDS) else "other",
                free_bytes=free.value,
                total_bytes=total.value,
            )
        )
    return found


def _ggml() -> ctypes.CDLL:
    """Return ggml's library with the functions declared that llama-cpp-python does not bind (ggml-backend.h)."""
    loaded = bindings()  # registers the devices
    folder = Path(loaded.__file__).parent / "lib"
    # On Windows the functions are in ggml.dll as well; a library is only opened here that is loaded already.
    name = next(path for path in sorted(folder.iterdir()) if path.name.split(".")[0] in ("libggml", "ggml"))
    library = ctypes.CDLL(str(name))
    size_pointer = ctypes.POINTER(ctypes.c_size_t)
    library.ggml_backend_dev_count.restype = ctypes.c_size_t
    library.ggml_backend_dev_count.argtypes = []
    library.ggml_backend_dev_get.restype = ctypes.c_void_p
    library.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    library.ggml_backend_dev_memory.restype = None
    library.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, size_pointer, size_pointer]
    library.ggml_backend_dev_type.restype = ctypes.c_int
    library.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    for name_of in (library.ggml_backend_dev_name, library.ggml_backend_dev_description):
        name_of.restype = ctypes.c_char_p
        name_of.argtypes = [ctypes.c_void_p]
    return library


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
