"""Why a prompt could not reuse what its conversation had computed before, in one line.

Knows the last turn of each conversation, not where prefixes are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from fader_backends.base import Message

from .radix import Ids, shared

REMEMBERED = 64
"""Conversations whose last turn is known."""
EXCERPT = 6
"""Tokens shown of either side."""
AROUND = 48
"""Tokens on either side of a difference in which its cause is looked for."""

T = TypeVar("T")
Pieces = Callable[[int], bytes]


class Turn(NamedTuple):
    """What a conversation's session held after a turn, and what had been asked."""

    messages: tuple[Message, ...]
    now: datetime
    key: str
    prompt: int
    """Tokens of the prompt; what follows is the reply."""
    tokens: Ids


class LastTurns:
    """The last turn of each conversation, of the `REMEMBERED` last ones."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, Turn] = OrderedDict()
        self._asked: OrderedDict[str, int] = OrderedDict()

    def ask(self, owner: str, prompt: int) -> None:
        """Learn of how many tokens the prompt of a turn is that begins."""
        _put(self._asked, owner, prompt)

    def answer(self, owner: str, messages: tuple[Message, ...], now: datetime, key: str, tokens: Ids) -> None:
        """Learn what the session holds after the turn."""
        _put(self._turns, owner, Turn(messages, now, key, self._asked.get(owner, len(tokens)), tokens))

    def get(self, owner: str) -> Turn | None:
        """Return the owner's last turn, if it is known."""
        return self._turns.get(owner)


def _put(known: OrderedDict[str, T], owner: str, value: T) -> None:
    known[owner] = value
    known.move_to_end(owner)
    if len(known) > REMEMBERED:
        known.popitem(last=False)


def explain(
    last: Turn | None, messages: Sequence[Message], now: datetime, key: str, prompt: Ids, reused: int, piece: Pieces
) -> str:
    """Return why only `reused` tokens of `prompt` were there; empty when that is all there could be.

    `prompt` is without its last token, which is always evaluated.
    """
    if last is None:
        first = not any(message.role == "assistant" for message in messages)
        return "" if reused or first else "nothing of this conversation is kept: evicted, or never seen here"
    common = shared(last.tokens, prompt)
    if reused > common:
        return ""
    if last.key != key:
        return "" if reused == common == len(prompt) else "what was kept is for another model or context"
    if common in (len(last.tokens), len(prompt)):
        return "" if reused == common else f"{common - reused:,} tokens were evicted"
    held, wanted = (excerpt(tokens[common:], piece) for tokens in (last.tokens, prompt))
    return f"differs at token {common:,}: {held!r} became {wanted!r} ({_cause(last, messages, now, prompt, common, piece)})"


def _cause(last: Turn, messages: Sequence[Message], now: datetime, prompt: Ids, common: int, piece: Pieces) -> str:
    for number, (old, new) in enumerate(zip(last.messages, messages, strict=False), 1):
        if (old.role, old.content, old.ids) != (new.role, new.content, new.ids):
            return _edit(number, old, new)
    held = text(last.tokens[max(0, common - AROUND) : common + AROUND], piece)
    old_text, new_text = (text(tokens[common : common + EXCERPT], piece) for tokens in (last.tokens, prompt))
    reply = messages[len(last.messages)] if len(messages) > len(last.messages) else None
    if common < last.prompt and last.now != now and any(one.isdigit() for one in old_text + new_text):
        return "the template prints a date"
    if "<think" in held or "</think" in held:
        return "the template leaves earlier thinking out"
    if "".join(old_text.split())[:2] == "".join(new_text.split())[:2] or not old_text.strip() or not new_text.strip():
        return "the template trims or adds white space"
    if common >= last.prompt:
        lost = reply is not None and reply.ids is None
        return "the reply's text was encoded anew" if lost else "the reply was changed"
    return "the template shows earlier messages differently"


def _edit(number: int, old: Message, new: Message) -> str:
    if old.role == new.role and old.content.strip() == new.content.strip():
        if old.content != new.content:
            return f"white space of message {number} was trimmed or added"
        return f"message {number} was encoded anew"
    return f"message {number} is another one, or was edited"


def excerpt(tokens: Ids, piece: Pieces) -> str:
    """Return the text of the first few tokens; control tokens as their number in brackets."""
    return text(tokens[:EXCERPT], piece)


def text(tokens: Ids, piece: Pieces) -> str:
    """Return the text of tokens; control tokens as their number in brackets."""
    return b"".join(piece(token) or f"<{token}>".encode() for token in tokens.tolist()).decode(errors="replace")
