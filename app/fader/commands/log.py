"""`fader log`: what was said lately, or where some words were said.

Knows the store; adds nothing to it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
import msgspec

from ..paths import Paths
from ..store import Conversation, Node, Store
from .plain import plain


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """One turn in `fader log --json`."""

    conversation: str
    title: str
    profile: str
    node: int
    """The reply's message id; the question's where there is no reply."""
    created: datetime
    question: str
    reply: str | None
    state: str
    """complete, streaming, cancelled, failed or interrupted."""
    numbers: dict[str, Any] | None
    """The turn's numbers as they were recorded."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One message in `fader log SEARCH --json`."""

    conversation: str
    title: str
    node: int
    role: str
    snippet: str


def show_log(search: str | None, count: int, paths: Paths, as_json: bool) -> None:
    """Print the last `count` turns, the newest last, or the best `count` messages that hold all words of `search`."""
    rows: list[Logged] | list[Found] = []
    if paths.database.exists():
        store = Store.open(paths.database, lambda: datetime.now().astimezone())
        try:
            if store.notice:
                click.echo(f"fader: {store.notice}", err=True)
            rows = find(store, search, count) if search else recent(store, count)
        finally:
            store.close()
    if as_json:
        click.echo(msgspec.json.encode(rows).decode())
    elif not rows:
        click.echo("fader: nothing found." if search else "fader: no conversations yet.", err=True)
    else:
        click.echo(plain("\n".join(line for row in rows for line in lines(row)), sys.stdout))


def find(store: Store, search: str, count: int) -> list[Found]:
    """Return hits, best first."""
    return [
        Found(
            conversation=hit.conversation.id,
            title=hit.conversation.title,
            node=hit.node,
            role=hit.role,
            snippet=hit.snippet,
        )
        for hit in store.search(search, count)
    ]


def recent(store: Store, count: int) -> list[Logged]:
    """Return the last turns over all conversations, as their present branches have them, the newest last."""
    turns = [turn for chat in store.conversations(count) for turn in turns_of(chat, store.path(chat.leaf))]
    return sorted(turns, key=lambda turn: (turn.created, turn.node))[-count:]


def turns_of(chat: Conversation, nodes: list[Node]) -> Iterator[Logged]:
    """Yield questions with their replies."""
    for place, node in enumerate(nodes):
        if node.role != "user":
            continue
        after = nodes[place + 1] if place + 1 < len(nodes) else None
        reply = after if after is not None and after.role == "assistant" else None
        yield Logged(
            conversation=chat.id,
            title=chat.title,
            profile=chat.profile,
            node=(reply or node).id,
            created=node.created,
            question=node.content,
            reply=reply.content if reply else None,
            state=reply.state if reply else node.state,
            numbers=numbers_of(reply),
        )


def numbers_of(reply: Node | None) -> dict[str, Any] | None:
    """Return the numbers in a reply's record; None without a record that can be read."""
    try:
        numbers = msgspec.json.decode(reply.record)["numbers"] if reply and reply.record else None
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return numbers if isinstance(numbers, dict) else None


def lines(row: Logged | Found) -> Iterator[str]:
    """Yield a row as lines for people."""
    if isinstance(row, Found):
        yield f"{row.conversation}  {row.role:9}  {row.snippet}"
        return
    note = "" if row.state == "complete" else f"  ({row.state})"
    numbers = row.numbers or {}
    times = [
        f"{label} {numbers[key]:.0f} ms"
        for label, key in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"))
        if numbers.get(key)
    ]
    yield "  ".join([f"--- {row.created:%Y-%m-%d %H:%M}", row.conversation, row.profile, *times]) + note
    yield f"> {row.question}"
    if row.reply:
        yield row.reply
