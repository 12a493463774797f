"""Finds plugins and checks them: the built-ins, then entry points of group `fader`, then single files in a folder.

Knows no request and no screen. A plugin that cannot be used becomes a `Problem` with a name on it; it never stops the start.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pluggy

from . import hookspecs
from .turn import PluginInfo

BUILT_IN = (
    "known_backends",
    "sampler",
    "timing",
    "kv_cache",
    "prefix_cache",
    "tensor_split",
    "graph",
    "weights",
    "typeahead",
    "draft_model",
    "prompt_lookup",
    "logprobs",
)
"""Modules of this package, in the order they are registered."""
SLOW_IMPORT_MS = 500.0
BUILT_IN_ORIGIN = "built in"


class Problem(msgspec.Struct, frozen=True):
    """A plugin that could not be used, or only slowly."""

    plugin: str
    detail: str


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin that was found."""

    info: PluginInfo
    origin: str
    """Where it came from: `built in`, a distribution's name, or a file."""
    hooks: tuple[str, ...]
    import_ms: float
    problem: str | None = None
    """Why it is not used; None when it is fine."""


class Source(NamedTuple):
    """A plugin before it is imported."""

    name: str
    origin: str
    load: Callable[[], object]


class Registry:
    """The plugins in their order, and the hook callers over them."""

    def __init__(self) -> None:
        self.manager = pluggy.PluginManager("fader")
        self.manager.add_hookspecs(hookspecs)
        self.plugins: dict[str, Plugin] = {}
        self.problems: list[Problem] = []

    def add(self, source: Source) -> None:
        """Import, check and register one plugin; a fault becomes a problem."""
        begin = time.perf_counter()
        try:
            found = source.load()
            implementation, info = _information(found)
            if info.name in self.plugins:
                raise TypeError(f"the name {info.name!r} is taken by {self.plugins[info.name].origin}")
            hooks = _checked_hooks(self.manager, implementation)
            self.manager.register(implementation, info.name)
        except Exception as error:  # whatever a stranger's file raises is theirs, and named
            self._refuse(source, begin, f"{type(error).__name__}: {error}")
            return
        except SystemExit as error:
            self._refuse(source, begin, f"it called sys.exit({error.code})")
            return
        took = (time.perf_counter() - begin) * 1000
        self.plugins[info.name] = Plugin(info=info, origin=source.origin, hooks=hooks, import_ms=took)
        if took > SLOW_IMPORT_MS and source.origin != BUILT_IN_ORIGIN:
            self.problems.append(Problem(info.name, f"importing it took {took:.0f} ms; import heavy things when used"))

    def _refuse(self, source: Source, begin: float, reason: str) -> None:
        name = source.name if source.name not in self.plugins else f"{source.name} ({source.origin})"
        detail = f"{source.origin}: {' '.join(reason.split())}"
        self.problems.append(Problem(name, detail))
        self.plugins[name] = Plugin(
            info=PluginInfo(name=name, summary="could not be loaded", on=False),
            origin=source.origin,
            hooks=(),
            import_ms=(time.perf_counter() - begin) * 1000,
            problem=detail,
        )

    def usable(self) -> Iterator[Plugin]:
        """Yield the plugins without a problem, in order."""
        return (plugin for plugin in self.plugins.values() if plugin.problem is None)

    def implementation(self, name: str) -> object:
        """Return the registered object of a usable plugin."""
        return self.manager.get_plugin(name)


def build(folder: Path | None, built_in: Iterable[str] = BUILT_IN) -> Registry:
    """Return a registry of everything there is. `folder`: where the user's single-file plugins lie, if anywhere."""
    registry = Registry()
    for source in (*_built_in(built_in), *_installed(), *_files(folder)):
        registry.add(source)
    return registry


def _built_in(names: Iterable[str]) -> Iterator[Source]:
    for name in names:
        yield Source(name, BUILT_IN_ORIGIN, lambda name=name: importlib.import_module(f"{__package__}.{name}"))  # type: ignore[misc]


def _installed() -> Iterator[Source]:
    if not _offered():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group="fader"), key=lambda point: point.name):
        yield Source(point.name, point.dist.name if point.dist else point.value, point.load)


def _offered() -> bool:
    """Whether any installed distribution seems to have plugins: a look that is 30 ms quicker than importlib.metadata."""
    try:
        for place in map(Path, sys.path):
            if place.is_file():  # a zip archive
                return True
            if any(b"[fader]" in listed.read_bytes() for listed in place.glob("*-info/entry_points.txt")):
                return True
    except OSError:
        return True
    return False


def _files(folder: Path | None) -> Iterator[Source]:
    if folder is None or not folder.is_dir():
        return
    for path in sorted(folder.glob("*.py")):
        if not path.name.startswith("_"):
            yield Source(path.stem, str(path), lambda path=path: _import_file(path))  # type: ignore[misc]


def _import_file(path: Path) -> ModuleType:
    name = f"fader_user_plugins.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # msgspec and pickling look their types' module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _information(found: object) -> tuple[object, PluginInfo]:
    """Return the plugin object and its info: the object itself, or a module's `plugin`."""
    implementation = getattr(found, "plugin", found)
    info = getattr(implementation, "info", None)
    if not isinstance(info, PluginInfo):
        raise TypeError("it has no `info = PluginInfo(...)`")
    if not info.name.isidentifier() or info.name != info.name.lower():
        raise TypeError(f"its name {info.name!r} is not a lower-case identifier")
    try:
        info.settings()
    except TypeError as error:
        raise TypeError(f"its settings need defaults: {error}") from error
    return implementation, info


def _checked_hooks(manager: pluggy.PluginManager, implementation: object) -> tuple[str, ...]:
    """Return the names of the hooks it implements. Raises TypeError for what pluggy would let pass and then not call."""
    hooks = []
    for name in dir(implementation):
        method: Any = getattr(implementation, name, None)
        options = manager.parse_hookimpl_opts(implementation, name) if callable(method) else None
        if options is None:
            continue
        if options.get("specname"):
            raise TypeError(f"{name} uses specname, which would escape its switch")
        if not hasattr(hookspecs, name) or not manager.parse_hookspec_opts(hookspecs, name):
            raise TypeError(f"there is no hook {name!r}")
        defaults = [p.name for p in inspect.signature(method).parameters.values() if p.default is not p.empty]
        if defaults:
            raise TypeError(f"{name}: parameters with defaults are never passed ({', '.join(defaults)})")
        hooks.append(name)
    return tuple(hooks)
