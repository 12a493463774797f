"""Owns the loaded llama.cpp library: its bindings, its log and the switch that interrupts it.

Knows no model. No byte of the library's log reaches a file descriptor; the last lines are kept for error details.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fader_backends.errors import LoadError

_PACKAGE = "llama_cpp"
_ERROR = 4  # ggml_log_level
SPINS = "3000000"
"""Rounds, some milliseconds, for which GNU OpenMP's threads wait awake. Its own 300,000 end about when the sampler does, and
threads that fell asleep make the next step 10 % longer."""


class Line(NamedTuple):
    """A line of the library's log."""

    level: int
    text: str


class Log:
    """Keeps the library's last lines."""

    def __init__(self) -> None:
        self.lines: deque[Line] = deque(maxlen=200)
        self._listeners: list[list[Line]] = []

    def write(self, level: int, text: bytes, _data: object) -> None:
        """Take a piece of log; the library calls this, from any of its threads."""
        line = Line(level, text.decode("utf-8", "replace").rstrip("\n"))
        self.lines.append(line)
        for listener in self._listeners:
            listener.append(line)

    @contextmanager
    def listen(self) -> Iterator[list[Line]]:
        """Collect every line that is written meanwhile."""
        lines: list[Line] = []
        self._listeners.append(lines)
        try:
            yield lines
        finally:
            self._listeners.remove(lines)


def reason(lines: Iterable[Line]) -> str:
    """Return what went wrong, as far as these lines say it."""
    heard = [line for line in lines if line.text.strip()]
    faults = [line.text.strip() for line in heard if line.level == _ERROR]
    return "; ".join(faults[:3] or [line.text.strip() for line in heard[-2:]])


LOG = Log()


@functools.cache
def bindings() -> Any:
    """Return the module of low-level bindings, with the log caught. Raises LoadError when it cannot be loaded."""
    if "OMP_WAIT_POLICY" not in os.environ:  # read when the library is loaded; other OpenMP runtimes ignore it
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    try:
        module = _import_bindings()
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        raise LoadError(
            "llama.cpp could not be loaded.",
            str(error),
            "Install it again: pip install --force-reinstall llama-cpp-python",
        ) from error
    module.fader_log_callback = module.llama_log_callback(LOG.write)  # kept referenced as long as the library is
    catch_log(module)
    module.llama_backend_init()
    return module


def catch_log(module: Any) -> None:
    """Take the log back: `import llama_cpp`, by whomever, installs a callback that prints."""
    module.llama_log_set(module.fader_log_callback, None)


def _import_bindings() -> Any:
    """Import `llama_cpp.llama_cpp` alone: the package itself drags in 100 ms of things we never call."""
    name = f"{_PACKAGE}.{_PACKAGE}"
    if _PACKAGE in sys.modules:
        return importlib.import_module(name)
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None:
        raise ImportError("The package llama-cpp-python is not installed.")
    sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
    try:
        return importlib.import_module(name)
    finally:
        del sys.modules[_PACKAGE]  # whoever imports the package later gets the whole of it


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of binding and library."""
    text = (Path(bindings().__file__).parent / "__init__.py").read_text("utf-8")
    found = re.search(r'__version__ = "([^"]+)"', text)
    return {"llama-cpp-python": found[1] if found else "", "llama.cpp": bindings().llama_version().decode()}


class Switch:
    """Interrupts the library from any thread.

    It asks "abort?" before every graph node, hundreds of times a token, so the answer must not come from Python:
    the callback is C's `strlen` over one byte of ours, which is 0 while that byte is 0 and 1 when it is not.
    """

    def __init__(self, module: Any) -> None:
        library = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
        self._flag = ctypes.create_string_buffer(2)
        self.callback = module.ggml_abort_callback(ctypes.cast(library.strlen, ctypes.c_void_p).value)
        self.data = ctypes.cast(self._flag, ctypes.c_void_p)

    @property
    def on(self) -> bool:
        """Whether the library is told to stop."""
        return self._flag[0] != b"\0"

    def set(self, on: bool) -> None:
        """Throw the switch."""
        self._flag[0] = b"\1" if on else b"\0"
