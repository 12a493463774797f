"""`LoadedModel`: which model and context are ready, and how to make others ready.

Knows backends by name and loader; knows no rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from fader_backends.base import Backend, ContextSpec, Loader, Memory, ModelSpec
from fader_backends.errors import Interrupted, LoadError, UnknownName
from fader_backends.graphs import GraphState, state_of
from fader_plugins.calls import Hooks
from fader_plugins.registry import Registry
from fader_plugins.turn import AnyEvent, GenerationRequest, Loaded, Loading

PROGRESS_NS = 50_000_000
"""Least time between two Loading events."""


class LoadedModel:
    """At most one model with one context."""

    def __init__(self, registry: Registry, emit: Callable[[AnyEvent], None], clock: Callable[[], int]) -> None:
        self.registry = registry
        self.emit = emit
        self.clock = clock
        self.backend: Backend | None = None
        self._model: ModelSpec | None = None
        self._context: ContextSpec | None = None

    def serves(self, request: GenerationRequest) -> bool:
        """Whether the request needs neither load nor new context."""
        return self.backend is not None and (self._model, self._context) == (request.model, request.context)

    def ready(
        self,
        request: GenerationRequest,
        cancelled: Callable[[], bool],
        prepare: Callable[[GenerationRequest, Backend], None] = lambda *_: None,
    ) -> Backend:
        """Return the backend as the request wants it, loading as little as possible; emits Loading and Loaded.

        `prepare` is called with a model or context that was made anew, as part of the load; when it is interrupted, the
        context is made again for the next turn. No session may be in use. Raises LoadError and others of the tree, or
        Interrupted.
        """
        begin = self.clock()
        loading = not self.serves(request)
        if loading and self.backend is not None and self._model == request.model:
            self._context = None
            self.backend.configure(request.context)
        elif loading:
            self.unload()
            self.backend = self._load(request, cancelled)
        assert self.backend is not None
        self._model = request.model
        if loading:
            if (state := self.graph()) is not None and state.on and state.mode == "compile":
                self.emit(Loading(request_id=request.id, at_ns=self.clock(), fraction=1.0, compiling=True))
            prepare(request, self.backend)
        self._context = request.context
        now = self.clock()
        self.emit(
            Loaded(
                request_id=request.id,
                at_ns=now,
                facts=self.backend.facts,
                context=self.backend.context,
                load_ms=(now - begin) * 1e-6 if loading else 0.0,
            )
        )
        return self.backend

    def _load(self, request: GenerationRequest, cancelled: Callable[[], bool]) -> Backend:
        last = self.clock() - PROGRESS_NS

        def progress(fraction: float) -> bool:
            nonlocal last
            if self.clock() - last >= PROGRESS_NS:
                last = self.clock()
                self.emit(Loading(request_id=request.id, at_ns=last, fraction=fraction))
            return not cancelled()

        backend = self._loader(request.model.backend)(request.model, request.context, progress)
        if cancelled():
            backend.close()
            raise Interrupted
        return backend

    def _loader(self, name: str) -> Loader:
        known = {
            info.name: info
            for info in reversed(Hooks(self.registry, self.registry.plugins, lambda *_: None).backends())
        }
        if name not in known:
            raise UnknownName("backend", name, known)
        module, _, function = known[name].loader.partition(":")
        try:
            loader: Loader = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError) as error:
            raise LoadError(
                f"The {name} backend cannot be imported.", f"{error}.", "Install the library it needs."
            ) from error
        return loader

    def memory(self) -> Memory:
        """Return what the backend holds."""
        return self.backend.memory() if self.backend is not None else Memory()

    def graph(self) -> GraphState | None:
        """Return what became of the backend's compiled steps; None where there are none."""
        return state_of(self.backend)

    def interrupt(self) -> None:
        """Interrupt a running evaluation. From any thread."""
        backend = self.backend
        if backend is not None:
            backend.interrupt()

    def resume(self) -> None:
        """Allow evaluations again."""
        if self.backend is not None:
            self.backend.resume()

    def unload(self) -> None:
        """Free model and context."""
        backend, self.backend = self.backend, None
        self._model = self._context = None
        if backend is not None:
            backend.close()
