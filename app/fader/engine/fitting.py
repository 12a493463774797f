"""What of a conversation fits the context, and what to do where not all of it does.

Knows messages and token counts; evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fader_backends.base import Backend, Message
from fader_backends.errors import ContextFull
from fader_plugins.turn import GenerationRequest

RESERVE = 512
"""Tokens kept free for a reply of unstated length, at most a quarter of the context."""


class Fitted(NamedTuple):
    """A prompt that fits."""

    prompt: list[int]
    dropped: int = 0
    """How many of the oldest messages were left out."""
    shorter: int = 0
    """By how many tokens the prompt is shorter for it."""


def fit(backend: Backend, request: GenerationRequest, begun: Sequence[int] = ()) -> Fitted:
    """Return the prompt and after it `begun`, without the oldest messages where they do not fit and may go.

    Messages go turn by turn (a question and what answers it), as few as it takes until the rest and room for the reply
    fit; the system prompt and the last question always stay. Raises ContextFull as the request's `when_full` says.
    """
    length = backend.context.length - len(begun)
    prompt = backend.chat(request.messages, request.now)
    room = length - reserve(request, length)
    if len(prompt) <= room or (request.when_full == "stop" and len(prompt) < length):
        return Fitted([*prompt, *begun])
    if request.when_full == "stop":
        raise _full(len(prompt) + len(begun), length + len(begun), "Nothing was cut.")
    kept, shorter = request.messages, prompt
    choices = shortened(request.messages)
    low, high = 0, len(choices)
    while low < high:  # the fewest turns that are enough; all but the last where none are
        middle = (low + high) // 2
        kept, shorter = choices[middle], backend.chat(choices[middle], request.now)
        low, high = (low, middle) if len(shorter) <= room else (middle + 1, high)
    if choices and kept != (best := choices[min(low, len(choices) - 1)]):
        kept, shorter = best, backend.chat(best, request.now)
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
