"""Taking the words out of a turn's record, so that it can be given away: times and counts stay, what was said does not.

Knows events and requests. What is not named here does not pass: a new kind of event or field must be thought about first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from fader_backends.base import Message
from fader_plugins.turn import (
    AnyEvent,
    Begun,
    Difference,
    Drafted,
    Finished,
    GenerationRequest,
    Loaded,
    Prefilled,
    Prepared,
    Rendered,
    Restored,
    Started,
    Token,
    Trimmed,
)

from .experiment import CLOCK

NO_ID = 0
"""In place of every token id: ids are words to anyone who has the model."""
NO_WORD = "·"
"""In place of text that became visible, so that the time to the first visible character stays."""
LEFT_OUT = (
    "the words of the prompt and of the system prompt",
    "the words of the replies, their token ids and probabilities",
)
"""What a bundle without words lacks."""


def request(one: GenerationRequest, messages: int) -> GenerationRequest:
    """Return a request with as many messages, all of them empty; the conversation's id and clock are gone, too.

    Settings stay as they are, for they are what is measured.
    """
    said = tuple(Message("user" if place % 2 == 0 else "assistant", "") for place in range(messages))
    return msgspec.structs.replace(one, owner="", now=CLOCK, messages=said, begin=None)


def events(all_of_them: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """Yield the events of a turn without its words; those of which no number is made are left out."""
    for event in all_of_them:
        match event:
            case Started() | Loaded() | Rendered() | Trimmed() | Prefilled() | Prepared():
                yield event
            case Restored():
                found = event.difference
                apart = None if found is None else Difference(found.position, "", "")
                yield msgspec.structs.replace(event, note="", difference=apart)
            case Begun():
                yield msgspec.structs.replace(event, ids=(NO_ID,) * len(event.ids), text=_text(event.text), pieces={})
            case Token():
                text = _text(event.text)
                yield msgspec.structs.replace(event, token=NO_ID, text=text, logprob=0.0, odds=None, pieces={})
            case Drafted():
                yield msgspec.structs.replace(event, notes=dict.fromkeys(event.notes, ""))
            case Finished():
                yield msgspec.structs.replace(event, ids=(NO_ID,) * len(event.ids), text=_text(event.text))
            case _:
                pass


def _text(text: str) -> str:
    return NO_WORD if text else ""
