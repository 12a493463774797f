"""Every hook, grouped by phase. Only signatures and what they promise.

Order of calls:

    at start            backends
    at send             plan_request                    (app process)
    in the engine       restore_prefix                  (engine process, once per turn)
    while it streams    readings                        (app process, about 10 times a second)

A plugin that is switched off is not called. Order is that of registration (built-ins, installed ones, files); where the
first answer counts it is the reverse, changed by `tryfirst`/`trylast`, so a third party is asked before a built-in. An
implementation may take fewer arguments than the hook offers. Arguments with defaults are never passed, so they are
refused at registration.
"""

from __future__ import annotations

import pluggy
from fader_backends.base import BackendInfo, Session

from .turn import GenerationRequest, Numbers, Reading, RequestDraft

hookspec = pluggy.HookspecMarker("fader")
hookimpl = pluggy.HookimplMarker("fader")


# --- at start ---------------------------------------------------------------------------------------------------------


@hookspec
def backends() -> list[BackendInfo]:  # type: ignore[empty-body]
    """Return the backends this plugin brings, as data: nothing heavy may be imported to answer."""


# --- at send ----------------------------------------------------------------------------------------------------------


@hookspec
def plan_request(draft: RequestDraft) -> None:
    """Change the draft of the coming turn, reading your settings with `draft.settings(name, YourSettings)`.

    Called for every plugin that is on, also to find out what a switch would cost, so it must not do anything else.
    Raising fails the turn and names the plugin.
    """


# --- in the engine ----------------------------------------------------------------------------------------------------


@hookspec(firstresult=True)
def restore_prefix(request: GenerationRequest, session: Session, prompt: list[int]) -> int | None:
    """Make `session` hold a beginning of `prompt` and return how many tokens it is; None passes the question on.

    `session` is the one this conversation used last, or an empty one. The host compares its tokens with the prompt
    afterwards, keeps only what agrees, and always leaves at least one token to evaluate. Raising counts as None, is
    reported, and switches the plugin off.
    """


# --- while it streams -------------------------------------------------------------------------------------------------


@hookspec
def readings(numbers: Numbers) -> list[Reading]:  # type: ignore[empty-body]
    """Return rows for the overlay. Pure and quick: raising, or taking over 50 ms, switches the plugin off."""
