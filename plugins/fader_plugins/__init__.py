"""What may be changed: the public door for plugin writers. Imports `fader_backends`, never `fader`."""

from .hookspecs import hookimpl
from .turn import (
    GenerationRequest,
    Numbers,
    PluginInfo,
    Reading,
    RequestDraft,
    Reuse,
    Settings,
    setting,
)

__all__ = [
    "GenerationRequest",
    "Numbers",
    "PluginInfo",
    "Reading",
    "RequestDraft",
    "Reuse",
    "Settings",
    "hookimpl",
    "setting",
]
