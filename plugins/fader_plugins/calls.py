"""`Hooks`: typed calls over the plugins that are on. With `registry`, the only module that mentions pluggy.

Knows what to do when a plugin raises: name it, report it, and go on without it where its answer is not needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index
from typing import Any, NamedTuple, TypeVar

import pluggy
from fader_backends.base import Backend, BackendInfo, Session
from fader_backends.errors import FaderError, Interrupted, NotSupported, PluginFailed

from .registry import Registry
from .turn import AnyEvent, Draft, GenerationRequest, Numbers, Reading, RequestDraft, Reuse

READINGS_MS = 50.0
STRIKES = 3
"""How often in a row readings may be slow: one slow call may be the machine's doing."""

T = TypeVar("T")
Fault = Callable[[str, str, str], None]
"""(plugin, hook, detail)"""


class Guesses(NamedTuple):
    """What plugins answered to `propose_tokens`."""

    tokens: Sequence[int]
    by: str | None
    """Who made them, or was last to say why not."""
    notes: dict[str, str]
    held: dict[str, int]


NOTHING = Guesses((), None, {}, {})
"""Where nobody was asked."""


class Hooks:
    """The hooks of the plugins in `enabled`, in registration order. Plugins that fail are left out from then on."""

    def __init__(self, registry: Registry, enabled: Iterable[str], fault: Fault) -> None:
        self.registry = registry
        self.enabled = set(enabled)
        self.fault = fault
        self.slow: dict[str, int] = {}
        self._callers: dict[str, pluggy.HookCaller] = {}
        self._names: dict[str, list[str]] = {}
        """Hook -> the plugins to ask, found once: some hooks are called for every token."""

    def backends(self) -> list[BackendInfo]:
        """Return every backend that can be chosen, built-ins first."""
        answers = self._surviving("backends", BackendInfo)
        return [info for answer in reversed(answers) for info in answer]

    def plan_request(self, draft: RequestDraft) -> None:
        """Let plugins change the draft. Raises PluginFailed naming the plugin; a FaderError of a plugin passes through."""
        for plugin in self.registry.usable():
            if plugin.info.name in self.enabled and "plan_request" in plugin.hooks:
                try:
                    self._only("plan_request", plugin.info.name)(draft=draft)
                except FaderError:
                    raise
                except (Exception, SystemExit) as error:
                    raise PluginFailed(
                        f"Plugin {plugin.info.name!r} failed while planning the turn.",
                        f"{type(error).__name__}: {error}",
                        "Switch it off, or tell its author.",
                        plugin.info.name,
                    ) from error

    def restore_prefix(
        self, request: GenerationRequest, session: Session, prompt: list[int], backend: Backend
    ) -> tuple[Reuse, str | None]:
        """Return (what the session shares with the prompt, who answered); the session is rewound to it.

        At least one token of the prompt is left to evaluate. What a plugin claims is checked, not believed.
        """
        answered = self._first(
            "restore_prefix", int, Reuse, request=request, session=session, prompt=list(prompt), backend=backend
        )
        claim, by = answered if answered else (0, None)
        reuse = claim if isinstance(claim, Reuse) else Reuse(claim)
        kept = max(min(reuse.tokens, common(session.tokens, prompt), len(prompt) - 1), 0)
        try:
            session.rewind(kept)
        except NotSupported as error:  # forgetting everything always works
            session.rewind(0)
            return Reuse(0, "", reuse.note or error.failure.title), by
        return Reuse(kept, reuse.tier, reuse.note), by

    def look_ahead(self, draft: RequestDraft, typed: str) -> str | None:
        """Return the part of a text being typed that may be evaluated; None when nobody wants that."""
        answered = self._first("look_ahead", str, draft=draft, typed=typed)
        return answered[0] if answered else None

    def engine_ready(self, request: GenerationRequest, backend: Backend) -> None:
        """Tell every plugin of a new model or context, also those that are off now."""
        for plugin in self.registry.usable():
            self._tell("engine_ready", plugin.info.name, request=request, backend=backend)

    def keep_prefix(self, request: GenerationRequest, session: Session, backend: Backend) -> None:
        """Let plugins keep what they want of a finished turn's session."""
        for name in self._with("keep_prefix"):
            self._tell("keep_prefix", name, request=request, session=session, backend=backend)

    def make_room(self, backend: Backend) -> bool:
        """Have some plugin, on or off, close a session of `backend` it holds; False when none holds any."""
        return any(self._tell("make_room", plugin.info.name, backend=backend) for plugin in self.registry.usable())

    def propose_tokens(self, request: GenerationRequest, history: Sequence[int], limit: int) -> Guesses:
        """Return guesses at the next tokens, at most `limit`."""
        by: str | None = None
        notes: dict[str, str] = {}
        held: dict[str, int] = {}
        arguments = {"request": request, "history": history, "limit": limit}
        for answer, name in self._answers("propose_tokens", (Sequence, Draft), arguments):
            draft = answer if isinstance(answer, Draft) else Draft(answer)
            try:
                tokens = tuple(index(token) for token in draft.tokens[:limit])
            except TypeError as error:
                self._drop(name, "propose_tokens", f"TypeError: it proposed what is no token: {error}")
                continue
            by = name
            if draft.note:
                notes[name] = draft.note
            if draft.held_bytes:
                held[name] = draft.held_bytes
            if tokens:
                return Guesses(tokens, name, notes, held)
        return Guesses((), by, notes, held)

    def proposes(self) -> bool:
        """Whether any plugin could guess, so that nobody need be asked each step."""
        return bool(self._with("propose_tokens"))

    def observe(self, request: GenerationRequest, event: AnyEvent) -> None:
        """Tell plugins of an event."""
        for name in self._with("observe"):
            self._tell("observe", name, request=request, event=event)

    def lost(self, capability: str, detail: str) -> None:
        """Name the plugins in use that need what the backend gave up in the middle of a turn."""
        for plugin in list(self.registry.usable()):
            if plugin.info.name in self.enabled and capability in plugin.info.needs:
                self._drop(plugin.info.name, "evaluate", detail)

    def _with(self, hook: str) -> list[str]:
        if hook not in self._names:
            names = (plugin.info.name for plugin in self.registry.usable() if hook in plugin.hooks)
            self._names[hook] = [name for name in names if name in self.enabled]
        return self._names[hook]

    def _in_turn(self, hook: str) -> list[str]:
        """Return the names in pluggy's order, which `tryfirst` and `trylast` change."""
        key = f"{hook} in turn"
        if key not in self._names:
            asked = reversed(getattr(self.registry.manager.hook, hook).get_hookimpls())
            self._names[key] = [one.plugin_name for one in asked if one.plugin_name in self.enabled]
        return self._names[key]

    def _tell(self, hook: str, name: str, **arguments: Any) -> Any:
        """Call one plugin; what it raises is named, and it is left out from then on."""
        if hook not in self.registry.plugins[name].hooks:
            return None
        try:
            return self._only(hook, name)(**arguments)
        except Interrupted:  # no fault of its: it evaluated something, and was told to stop
            if hook == "engine_ready":  # part of a load, which ends with it
                raise
        except FaderError as error:
            self._drop(name, hook, str(error))
        except (Exception, SystemExit) as error:  # a stranger's code
            self._drop(name, hook, f"{type(error).__name__}: {error}")
        return None

    def readings(self, numbers: Numbers) -> list[Reading]:
        """Return the overlay rows of all plugins, in order. One that raises or stays slow is left out from then on."""
        rows: list[Reading] = []
        for plugin in self.registry.usable():
            name = plugin.info.name
            if name not in self.enabled or "readings" not in plugin.hooks:
                continue
            begin = time.perf_counter()
            try:
                answers = self._only("readings", name)(numbers=numbers)
                made = [row for answer in answers for row in _all_of(Reading, answer)]
            except (Exception, SystemExit) as error:  # a stranger's code; it is named and left out
                self._drop(name, "readings", f"{type(error).__name__}: {error}")
                continue
            rows += made
            took = (time.perf_counter() - begin) * 1000
            self.slow[name] = self.slow.get(name, 0) + 1 if took > READINGS_MS else 0
            if self.slow[name] >= STRIKES:
                self._drop(name, "readings", f"took {took:.0f} ms, {STRIKES} times in a row")
        return rows

    def _surviving(self, hook: str, kind: type[T], **arguments: Any) -> list[list[T]]:
        """Call a collecting hook plugin by plugin, so that one fault loses one answer; last registered first."""
        answers: list[list[T]] = []
        for plugin in reversed(list(self.registry.usable())):
            if plugin.info.name in self.enabled and hook in plugin.hooks:
                try:
                    found = self._only(hook, plugin.info.name)(**arguments)
                    answers += [_all_of(kind, answer) for answer in found]
                except (Exception, SystemExit) as error:  # a stranger's code; it is named and left out
                    self._drop(plugin.info.name, hook, f"{type(error).__name__}: {error}")
        return answers

    def _first(self, hook: str, *kinds: type, **arguments: Any) -> tuple[Any, str] | None:
        """Ask for the first answer in pluggy's order; return it with the name of who gave it."""
        return next(self._answers(hook, kinds, arguments), None)

    def _answers(self, hook: str, kinds: tuple[type, ...], arguments: dict[str, Any]) -> Iterator[tuple[Any, str]]:
        """Ask in pluggy's order, as long as the caller wants; yield answers that are not None, and who gave them."""
        for name in self._in_turn(hook):
            try:
                answer = self._only(hook, name)(**arguments)
                if answer is None:
                    continue
                checked: Any = _all_of(kinds, [answer])[0]
            except (Exception, SystemExit) as error:  # a stranger's code; it is named and left out
                self._drop(name, hook, f"{type(error).__name__}: {error}")
                continue
            yield checked, name

    def _only(self, hook: str, name: str) -> pluggy.HookCaller:
        """Return the caller of one plugin's implementation."""
        key = f"{hook}/{name}"
        if key not in self._callers:
            manager = self.registry.manager
            others = [plugin for plugin in manager.get_plugins() if manager.get_name(plugin) != name]
            self._callers[key] = manager.subset_hook_caller(hook, others)
        return self._callers[key]

    def _drop(self, name: str, hook: str, detail: str) -> None:
        self.enabled.discard(name)
        self._names.clear()
        self.fault(name, hook, detail)


def _all_of(kind: type[T] | tuple[type[T], ...], answer: Iterable[Any]) -> list[T]:
    """Return what a plugin answered as a list. Raises TypeError when it is of another kind."""
    found = list(answer)
    for one in found:
        if not isinstance(one, kind):
            wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise TypeError(f"it answered {one!r}, which is no {wanted}")
    return found


def common(held: Iterable[int], prompt: Iterable[int]) -> int:
    """Return how many tokens two sequences share from the start."""
    count = 0
    for one, other in zip(held, prompt, strict=False):
        if one != other:
            break
        count += 1
    return count
