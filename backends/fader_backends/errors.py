"""The errors a person may meet, each with a title, a detail and a next step.

Knows nothing about where they are shown. The tree:

    FaderError                  exit code 1 unless said otherwise
    ├── UsageError              what was asked for cannot be meant          exit code 2
    │   ├── UnknownName         a profile, plugin, key, backend … that is not there
    │   ├── BadValue            a value of the wrong type or out of range
    │   └── EmptyPrompt         nothing to send
    ├── LoadError               a model could not be made ready
    │   ├── ModelMissing        no file there, or a folder
    │   ├── ModelDamaged        not a model file, cut short, or inconsistent
    │   ├── ModelUnsupported    a sound file this backend cannot chat with
    │   └── NoTemplate          the model carries no chat template
    ├── TurnError               a turn could not go on
    │   ├── ContextFull         prompt (and reply) do not fit
    │   ├── TemplateError       the chat template raised
    │   ├── OutOfMemory         no room for state or batch
    │   ├── BadScores           the model returned NaN or only -inf
    │   └── PluginFailed        a plugin raised where its answer was needed
    ├── NotSupported            this backend cannot do that
    ├── EngineDied              the engine process ended by itself
    └── StoreError              conversations could not be read or written

`Interrupted` stands outside the tree: it is control flow between `Backend.interrupt` and the scheduler, never shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import msgspec


class Failure(msgspec.Struct, frozen=True):
    """An error as a value: what crosses the process border and goes into records."""

    title: str
    detail: str
    next_step: str
    kind: str = "FaderError"
    plugin: str | None = None
    """Name of the plugin to blame, when there is one."""


class FaderError(Exception):
    """Root of everything shown to a person. `title` names the thing, `next_step` is an imperative sentence."""

    exit_code = 1

    def __init__(self, title: str, detail: str = "", next_step: str = "", plugin: str | None = None) -> None:
        super().__init__(title)
        self.title = title
        self.detail = detail
        self.next_step = next_step
        self.plugin = plugin

    def __str__(self) -> str:
        """Return title, detail and next step on one line, whatever line breaks they hold."""
        parts = (self.title, self.detail, self.next_step)
        return " ".join(" ".join(part.split()) for part in parts if part)

    @property
    def failure(self) -> Failure:
        """The same error as a value."""
        return Failure(self.title, self.detail, self.next_step, type(self).__name__, self.plugin)


class UsageError(FaderError):
    """What was asked for cannot be meant; nothing was started."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that is not there; the message offers the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        options = sorted(known)
        near = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(options) or 'none'}."
        super().__init__(f"{where}{': ' if where else ''}unknown {kind} {name!r}.", "", hint)


class BadValue(UsageError):
    """A value of the wrong type or outside its range."""


class EmptyPrompt(UsageError):
    """There is nothing to send."""


class LoadError(FaderError):
    """A model could not be made ready."""


class ModelMissing(LoadError):
    """No model file there (exit code 2: the name was given by a person)."""

    exit_code = 2


class ModelDamaged(LoadError):
    """Not a model file, or one that is cut short or inconsistent."""


class ModelUnsupported(LoadError):
    """A sound file that this backend cannot chat with."""


class NoTemplate(LoadError):
    """The model carries no chat template and none was named."""


class TurnError(FaderError):
    """A turn could not go on; the conversation is untouched."""


class ContextFull(TurnError):
    """The prompt, or prompt and reply, do not fit the context."""


class TemplateError(TurnError):
    """The chat template raised."""


class OutOfMemory(TurnError):
    """No room for state or batch."""


class BadScores(TurnError):
    """The model returned NaN, or nothing that could be sampled."""


class PluginFailed(TurnError):
    """A plugin raised where its answer was needed."""


class NotSupported(FaderError):
    """This backend cannot do that."""


class EngineDied(FaderError):
    """The engine process ended by itself."""


class StoreError(FaderError):
    """Conversations could not be read or written."""


class Interrupted(Exception):
    """`Backend.evaluate` was interrupted; every session is as it was before the call."""
