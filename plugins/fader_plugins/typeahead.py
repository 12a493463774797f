"""Evaluate what is already certain while you read and type. Off: the engine starts at Enter.

Certain is the conversation so far, and of what you type all whole words. Enter then finds nearly everything evaluated.
"""

from __future__ import annotations

from typing import Annotated

from .hookspecs import hookimpl
from .turn import Numbers, PluginInfo, Reading, RequestDraft, Settings, setting


class Typeahead(Settings, frozen=True, kw_only=True):
    """Settings of evaluating ahead."""

    on_battery: Annotated[bool, setting("Also while the machine runs on battery")] = False


info = PluginInfo(
    name="typeahead",
    summary="Evaluate what you type while you type (off: the engine starts at Enter)",
    settings=Typeahead,
    needs=frozenset({"rewind"}),
)


@hookimpl
def look_ahead(draft: RequestDraft, typed: str) -> str | None:
    """Return the text up to the last whole word; None on battery, and where nothing could be kept for the turn."""
    keeps = draft.plugins.get("prefix_cache")
    if not draft.keep_state or keeps is None or not keeps.on:
        return None
    if not draft.settings(info.name, Typeahead).on_battery and on_battery():
        return None
    return whole_words(typed)


@hookimpl
def readings(numbers: Numbers) -> list[Reading]:
    """Return what was ready at Enter, and what was evaluated for nothing."""
    if numbers.ready_tokens is None:
        return []
    return [
        Reading(
            key="ready",
            label="ready at Enter",
            value=float(numbers.ready_tokens),
            unit="tok",
            better="higher",
            help="Prompt tokens evaluated before the turn was sent, and used by it.",
        ),
        Reading(
            key="vain",
            label="  in vain",
            value=float(numbers.vain_tokens or 0),
            unit="tok",
            better="lower",
            help="Tokens evaluated ahead that the turn did not use, because the text was changed.",
        ),
    ]


def whole_words(text: str) -> str:
    """Return the text without its last word, which may still grow, and without the white space before it."""
    words = text.rstrip() if text[-1:].isspace() else text.rpartition(text.split()[-1])[0] if text.split() else ""
    return words.rstrip()


def on_battery() -> bool:
    """Return whether the machine runs on battery now; False where that cannot be known."""
    import psutil  # asked between key presses, not before the first frame

    sensors = getattr(psutil, "sensors_battery", None)  # not on every system
    try:
        battery = sensors() if sensors is not None else None
    except OSError:
        return False
    return battery is not None and battery.power_plugged is False
