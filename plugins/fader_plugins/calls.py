"""`Hooks`: typed calls over the plugins that are on. With `registry`, the only module that mentions pluggy.

Knows what to do when a plugin raises: name it, report it, and go on without it where its answer is not needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pluggy
from fader_backends.base import BackendInfo, Session
from fader_backends.errors import FaderError, PluginFailed

from .registry import Registry
from .turn import GenerationRequest, Numbers, Reading, RequestDraft

READINGS_MS = 50.0
STRIKES = 3
"""How often in a row readings may be slow: one slow call may be the machine's doing."""

T = TypeVar("T")
Fault = Callable[[str, str, str], None]
"""(plugin, hook, detail)"""


class Hooks:
    """The hooks of the plugins in `enabled`, in registration order. Plugins that fail are left out from then on."""

    def __init__(self, registry: Registry, enabled: Iterable[str], fault: Fault) -> None:
        self.registry = registry
        self.enabled = set(enabled)
        self.fault = fault
        self.slow: dict[str, int] = {}
        self._callers: dict[str, pluggy.HookCaller] = {}

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

    def restore_prefix(self, request: GenerationRequest, session: Session, prompt: list[int]) -> tuple[int, str | None]:
        """Return (tokens the session shares with the prompt, who answered); the session is rewound to them.

        At least one token of the prompt is left to evaluate. What a plugin claims is checked, not believed.
        """
        answered = self._first("restore_prefix", int, request=request, session=session, prompt=list(prompt))
        claimed = answered[0] if answered else 0
        kept = min(claimed, common(session.tokens, prompt), len(prompt) - 1)
        session.rewind(max(kept, 0))
        return max(kept, 0), answered[1] if answered else None

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

    def _first(self, hook: str, kind: type[T], **arguments: Any) -> tuple[T, str] | None:
        """Ask for the first answer in pluggy's order; return it with the name of who gave it."""
        for implementation in reversed(getattr(self.registry.manager.hook, hook).get_hookimpls()):
            name = implementation.plugin_name
            if name not in self.enabled:
                continue
            try:
                answer = self._only(hook, name)(**arguments)
                if answer is not None:
                    return _all_of(kind, [answer])[0], name
            except (Exception, SystemExit) as error:  # a stranger's code; it is named and left out
                self._drop(name, hook, f"{type(error).__name__}: {error}")
        return None

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
        self.fault(name, hook, detail)


def _all_of(kind: type[T], answer: Iterable[Any]) -> list[T]:
    """Return what a plugin answered as a list. Raises TypeError when it is of another kind."""
    found = list(answer)
    for one in found:
        if not isinstance(one, kind):
            raise TypeError(f"it answered {one!r}, which is no {kind.__name__}")
    return found


def common(held: Iterable[int], prompt: Iterable[int]) -> int:
    """Return how many tokens two sequences share from the start."""
    count = 0
    for one, other in zip(held, prompt, strict=False):
        if one != other:
            break
        count += 1
    return count
