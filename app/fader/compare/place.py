"""Where in a conversation a comparison stands, and keeping one of its replies there.

Knows chat and store, nothing that runs.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec
from fader_backends.base import Message
from fader_backends.errors import FaderError, StoreError, UnknownName

from ..chat import Chat
from ..store import Node, Store
from ..turns import odds_budget, said
from .values import Comparison, StoredColumn

MOVED = "What it answered is gone from its conversation, so it was kept in a new one."


class Stand(NamedTuple):
    """A question and where it stands."""

    conversation: str
    clock: datetime
    parent: int | None
    question: int | None
    """Its message, when it was asked before."""
    messages: tuple[Message, ...]


def stand(chat: Chat, text: str) -> Stand:
    """Return where a question would stand: `text` after what is in view, or without a text the last question again.

    Raises FaderError while a reply runs, or when there is nothing to ask.
    """
    if chat.turn is not None:
        raise FaderError("A reply is running.", "", "Press Esc to stop it, or let it end.")
    if text.strip():
        before = said(chat.store.path(chat.leaf))
        opened = chat.opened()
        return Stand(opened.id, opened.clock, chat.leaf, None, (*before, Message("user", text)))
    question = chat.last_question()
    if question is None:
        raise FaderError("There is nothing to ask yet.", "", "Write a question: /compare QUESTION.")
    opened = chat.opened()
    return Stand(opened.id, opened.clock, question.parent, question.id, tuple(said(chat.store.path(question.id))))


def keep(chat: Chat, comparison: Comparison, letter: int) -> tuple[Comparison, str]:
    """Put a column's reply into the conversation and go on from it; the other columns' replies stay beside it.

    Return the comparison with where its replies are, and what must be said (empty when nothing). Where the place it
    belongs to was deleted meanwhile, a new conversation takes it. Raises FaderError with the conversation as it was.
    """
    chosen = comparison.columns[letter]
    if chat.turn is not None:
        raise FaderError("A reply is running.", "", "Press Esc to stop it, or let it end.")
    if chosen.answer is None or not chosen.answer.record.text:
        raise FaderError("This column has no reply to keep.", "", "Run it again, or keep another one.")
    store, notice = chat.store, ""
    conversation, question = _question(store, comparison)
    if question is None:
        conversation, question = _anew(store, comparison)
        notice = MOVED if comparison.conversation is not None else ""
        comparison = msgspec.structs.replace(comparison, replies={})
    replies = dict(comparison.replies)
    for column in comparison.columns:
        name = _request_of(column)
        if column.answer is not None and column.answer.record.text and not _there(store, replies.get(name)):
            replies[name] = _add(store, conversation, question, column).id
    store.set_leaf(conversation, replies[_request_of(chosen)])
    chat.resume(conversation)
    return msgspec.structs.replace(
        comparison, conversation=conversation, question=question, replies=replies, kept="ABCDEFGH"[letter]
    ), notice


def _question(store: Store, comparison: Comparison) -> tuple[str, int | None]:
    """Return conversation and message of the question, asking it where it only was thought of; None: its place is gone."""
    conversation = comparison.conversation
    if conversation is None:
        return "", None
    if _there(store, comparison.question):
        return conversation, comparison.question
    try:
        store.conversation(conversation)
    except UnknownName:
        return "", None
    if comparison.parent is not None and not _there(store, comparison.parent):
        return "", None
    return conversation, store.add(conversation, comparison.parent, "user", comparison.prompt).id


def _there(store: Store, node: int | None) -> bool:
    try:
        return bool(store.path(node))
    except StoreError:
        return False


def _anew(store: Store, comparison: Comparison) -> tuple[str, int]:
    """Begin a conversation that holds what was said up to the question."""
    conversation, parent = store.create(comparison.profile).id, None
    for message in comparison.messages:
        parent = store.add(conversation, parent, message.role, message.content, ids=message.ids).id
    assert parent is not None
    return conversation, parent


def _request_of(column: StoredColumn) -> str:
    return column.answer.record.request.id if column.answer is not None else ""


def _add(store: Store, conversation: str, question: int, column: StoredColumn) -> Node:
    assert column.answer is not None
    record = column.answer.record
    reason = record.numbers.finish_reason
    state = "failed" if reason == "failed" else "cancelled" if reason in (None, "cancelled") else "complete"
    node = store.add(conversation, question, "assistant", record.text, ids=record.ids, state=state)
    store.update(node.id, content=record.text, ids=record.ids, state=state, record=msgspec.json.encode(record))
    if column.answer.chosen:
        store.keep_odds(node.id, column.answer.chosen, odds_budget(record.request))
    return node
