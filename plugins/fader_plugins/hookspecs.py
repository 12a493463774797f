"""Every hook, grouped by phase. Only signatures and what they promise.

Order of calls:

    at start            backends
    at send             plan_request                    (app process)
    while typing        look_ahead                      (app process)
    in the engine       engine_ready                    (engine process, after each load or new context)
                        restore_prefix                  (once per turn)
                        propose_tokens, observe         (each decode step)
                        keep_prefix                     (after each turn)
                        make_room                       (when rows or memory run out)
    while it streams    readings                        (app process, about 10 times a second)

A plugin that is switched off is not called. Order is that of registration (built-ins, installed ones, files); where the
first answer counts it is the reverse, changed by `tryfirst`/`trylast`, so a third party is asked before a built-in. An
implementation may take fewer arguments than the hook offers. Arguments with defaults are never passed, so they are
refused at registration.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy
from fader_backends.base import Backend, BackendInfo, Session

from .turn import AnyEvent, Draft, GenerationRequest, Numbers, Reading, RequestDraft, Reuse

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


@hookspec(firstresult=True)
def look_ahead(draft: RequestDraft, typed: str) -> str | None:
    """Say which part of `typed`, not yet sent, the idle engine may evaluate; "" for what comes before it; None: nothing.

    `draft` is the turn as it would be planned now; do not change it. Asked at word borders, after a paste, and when a reply has
    ended. Must be quick: it runs between two key presses.
    """


# --- in the engine ----------------------------------------------------------------------------------------------------


@hookspec
def engine_ready(request: GenerationRequest, backend: Backend) -> None:
    """Learn that a model or context has been made ready: whatever belonged to the former one is gone.

    Sessions you hold are closed already. Called before the first `restore_prefix` on it, also for plugins that are
    switched on only later.
    """


@hookspec(firstresult=True)
def restore_prefix(
    request: GenerationRequest, session: Session, prompt: list[int], backend: Backend
) -> int | Reuse | None:
    """Make `session` hold a beginning of `prompt` and return how many tokens it is; None passes the question on.

    `session` is the one this conversation used last, or an empty one. The host compares its tokens with the prompt
    afterwards, keeps only what agrees, and always leaves at least one token to evaluate. Raising counts as None, is
    reported, and switches the plugin off.
    """


@hookspec(firstresult=True)
def propose_tokens(request: GenerationRequest, history: Sequence[int], limit: int) -> Sequence[int] | Draft | None:
    """Guess the tokens after `history` (prompt and reply so far), at most `limit`; none or None passes the question on.

    Each guess is kept only while it equals the model's own choice, so guesses change the speed and nothing else. Called
    once per step, with the same growing `history` all through a turn; do not change it. More than `limit` are cut. A
    `Draft` carries a note that `readings` finds in `numbers.drafts`, also when it holds no tokens.
    """


@hookspec
def observe(request: GenerationRequest, event: AnyEvent) -> None:
    """Learn of an event of a running turn; now `Drafted`, once per step. Must be quick."""


@hookspec
def keep_prefix(request: GenerationRequest, session: Session, backend: Backend) -> None:
    """Keep what you want of a session after its turn: save its state, or fork it. It holds prompt and reply.

    The session stays the conversation's; do not change or close it. A fork you make is yours until `make_room`.
    """


@hookspec(firstresult=True)
def make_room(backend: Backend) -> bool | None:
    """Close one session of `backend` you hold, if any, and return True; it has run out of rows or memory."""


# --- while it streams -------------------------------------------------------------------------------------------------


@hookspec
def readings(numbers: Numbers) -> list[Reading]:  # type: ignore[empty-body]
    """Return rows for the overlay. Pure and quick: raising, or taking over 50 ms, switches the plugin off."""
