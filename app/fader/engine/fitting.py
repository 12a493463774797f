"""What of a conversation fits the context, and what to do where not all of it does.

Knows messages and token counts; evaluates nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from fader_backends.base import Backend, Message
from fader_backends.errors import ContextFull
from fader_plugins.turn import GenerationRequest

RESERVE = 512
"""Tokens kept free for a reply of unstated length, at most a quarter of the context."""


AT_ONCE = 4
"""The oldest turns go a fourth of the context at a time."""


class Fitted(NamedTuple):
    """A prompt that fits."""

    prompt: list[int]
    dropped: int = 0
    """How many of the oldest messages were left out."""
    shorter: int = 0
    """By how many tokens the prompt is shorter for it."""


def fit(backend: Backend, request: GenerationRequest, begun: Sequence[int] = ()) -> Fitted:
    """Return the prompt and after it `begun`, without the oldest messages where they do not fit and may go.

    Messages go turn by turn (a question and what answers it), the system prompt and the last question always stay. What
    goes is measured in `AT_ONCE` of the context, so that the next few turns leave out the same and find their prefix held;
    where so much cannot go, as much as it takes. Raises ContextFull as the request's `when_full` says.
    """
    length = backend.context.length - len(begun)
    prompt = backend.chat(request.messages, request.now)
    room = length - reserve(request, length)
    if len(prompt) <= room or (request.when_full == "stop" and len(prompt) < length):
        return Fitted([*prompt, *begun])
    if request.when_full == "stop":
        raise _full(len(prompt) + len(begun), length + len(begun), "Nothing was cut.")
    step = max(length // AT_ONCE, 1)
    kept, shorter = request.messages, prompt
    for most in (len(prompt) - -(-(len(prompt) - room) // step) * step, room):
        kept, shorter = _within(backend, request, most)
        if len(shorter) <= most:
            break
    dropped, tokens = len(request.messages) - len(kept), len(prompt) - len(shorter)
    if request.when_full == "drop_oldest" and len(shorter) < length:
        return Fitted([*shorter, *begun], dropped, tokens)
    if len(shorter) >= length or not dropped:
        alone = "" if not dropped else f" Without its {dropped} oldest messages it still takes {len(shorter):,}."
        raise _full(len(prompt) + len(begun), length + len(begun), f"Nothing was cut.{alone}")
    raise ContextFull(
        f"The prompt takes {len(prompt):,} tokens; with room for the reply the context of {length:,} has place for {room:,}.",
        f"Leaving out the {dropped} oldest messages would free {tokens:,} tokens. Nothing was cut.",
        "Set kv_cache.when_full to drop_oldest (or to stop, to go on without that room), raise the context length, or "
        "start a new chat.",
    )


def _within(backend: Backend, request: GenerationRequest, most: int) -> tuple[tuple[Message, ...], list[int]]:
    """Return messages and prompt without the fewest turns that leave at most `most` tokens; without all but the last."""
    choices = shortened(request.messages)

    @cache
    def prompt(place: int) -> list[int]:
        return backend.chat(choices[place] if choices else request.messages, request.now)

    place = bisect_left(range(len(choices)), True, key=lambda place: len(prompt(place)) <= most)
    place = max(min(place, len(choices) - 1), 0)
    return choices[place] if choices else request.messages, prompt(place)


def reserve(request: GenerationRequest, length: int) -> int:
    """Return the tokens to keep free for the reply: what was asked for, up to half of the context."""
    if request.max_tokens is not None:
        return min(request.max_tokens, length // 2)
    return min(RESERVE, length // 4)


def shortened(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Return the messages without their oldest turn, without the two oldest, and so on to the last question alone."""
    system = tuple(message for message in messages if message.role == "system")
    told = [message for message in messages if message.role != "system"]
    questions = [place for place, message in enumerate(told) if message.role == "user"]
    return [(*system, *told[place:]) for place in questions if place > 0]


def _full(prompt: int, length: int, detail: str) -> ContextFull:
    return ContextFull(
        f"The prompt takes {prompt:,} tokens; the context holds {length:,}.",
        detail,
        "Shorten it, start a new chat, or raise the context length.",
    )
