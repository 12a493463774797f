"""`Faults`: which plugins have failed, with which model and settings.

Knows requests; calls no plugin.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from fader_backends.base import ModelSpec
from fader_plugins.turn import GenerationRequest

Reliance: TypeAlias = tuple[ModelSpec, dict[str, Any]]
"""What a fault may have been due to: the model and the plugin's settings."""


class Faults:
    """Plugins that raised. Each is left out as long as a request has the model and the settings it raised with."""

    def __init__(self) -> None:
        self._known: dict[str, Reliance] = {}

    def add(self, request: GenerationRequest, plugin: str) -> None:
        """Take in that a plugin raised in this turn."""
        self._known[plugin] = _reliance(request, plugin)

    def left_out(self, request: GenerationRequest) -> set[str]:
        """Return the plugins that must not be called in this turn."""
        return {plugin for plugin, with_ in self._known.items() if with_ == _reliance(request, plugin)}


def _reliance(request: GenerationRequest, plugin: str) -> Reliance:
    state = request.plugins.get(plugin)
    return request.model, state.settings if state else {}
