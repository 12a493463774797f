"""How any number of tokens becomes calls that a context has room for. Knows sessions and contexts by their contracts only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fader_backends.base import ContextSpec, Extension, Session
from fader_backends.errors import ContextFull


def check_room(context: ContextSpec, length: int) -> None:
    """Raise ContextFull when a session of `length` tokens does not fit."""
    if length > context.length:
        raise ContextFull(
            f"{length:,} tokens do not fit a context of {context.length:,}.",
            "",
            "Start a new conversation, shorten the message, or set a longer context.",
        )


def extensions(session: Session, tokens: Sequence[int], rows: int, batch: int) -> Iterator[Extension]:
    """Cut `tokens` into calls of at most `batch`, one call when there are none; together they score the last `rows`."""
    for start in range(0, max(len(tokens), 1), batch):
        part = tokens[start : start + batch]
        scored = min(len(part), max(0, rows - (len(tokens) - start - len(part))))
        yield Extension(session, part, scored)
