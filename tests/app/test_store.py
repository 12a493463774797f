"""The store: a tree of messages, searched and deleted."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from fader.store import Store, search
from fader_backends.errors import StoreError, UnknownName

from tests.app.ticking import START, ticking, turn


def test_a_conversation_is_a_tree(store: Store) -> None:
    chat = store.create("default")
    first = turn(store, chat, None, "one")
    second = turn(store, chat, first, "two")
    other = turn(store, chat, first, "two, but better")
    assert [node.content for node in store.path(other)] == ["one", "re: one", "two, but better", "re: two, but better"]
    assert [node.content for node in store.children(chat.id, first)] == ["two", "two, but better"]
    assert [node.content for node in store.children(chat.id, None)] == ["one"]
    assert store.conversation(chat.id).leaf == other
    store.set_leaf(chat.id, second)
    assert store.conversation(chat.id).leaf == second
    assert store.path(second)[-1].ids == (1, 2**32 - 1)
    assert store.path(None) == []
    assert store.notice is None


def test_what_a_conversation_says_of_itself(store: Store) -> None:
    chat = store.create("default")
    assert store.conversations() == []
    assert store.last() is None
    store.add(chat.id, None, "user", "\n  What   is\nlove?")
    again = store.last()
    assert again is not None
    assert (again.title, again.profile, again.messages) == ("What is", "default", 1)
    assert again.clock == chat.clock
    assert again.updated > again.created
    newer = store.create("plain")
    turn(store, newer, None, "x" * 200)
    assert [each.id for each in store.conversations()] == [newer.id, chat.id]
    assert len(store.conversations()[0].title) == 80
    assert newer.id > chat.id


def test_ids_are_unique_within_one_moment(path: Path) -> None:
    store = Store.open(path, lambda: START)
    names = [store.create("default").id for _ in range(12)]
    assert len(set(names)) == 12
    store.close()


def test_a_reply_grows_and_ends(store: Store) -> None:
    chat = store.create("default")
    user = store.add(chat.id, None, "user", "hello")
    reply = store.add(chat.id, user.id, "assistant", "", state="streaming")
    store.update(reply.id, content="Hi", ids=(5,), state="streaming")
    assert store.path(reply.id)[-1].state == "streaming"
    store.update(reply.id, content="Hi there", ids=(5, 6), state="complete", record=b"{}")
    store.update(reply.id, content="Hi there", ids=(5, 6), state="complete")
    (node,) = store.children(chat.id, user.id)
    assert (node.content, node.ids, node.state, node.record) == ("Hi there", (5, 6), "complete", b"{}")


def test_deleting_takes_messages_and_index_along(store: Store, path: Path) -> None:
    chat = store.create("default")
    turn(store, chat, turn(store, chat, None, "zebra"), "giraffe")
    store.delete(chat.id)
    assert store.search("zebra") == []
    assert store.conversations() == []
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*) FROM message").fetchone() == (0,)
        assert raw.execute("SELECT count(*) FROM words").fetchone() == (0,)
    raw.close()


def test_unknown_things_are_named(store: Store) -> None:
    chat = store.create("default")
    other = store.create("default")
    with pytest.raises(UnknownName, match="unknown conversation 'nope'"):
        store.conversation("nope")
    with pytest.raises(StoreError, match="Message 99 is not there"):
        store.update(99, content="", ids=None, state="complete")
    with pytest.raises(StoreError, match="Message 99 is not there"):
        store.path(99)
    with pytest.raises(StoreError, match="Conversation gone is not there"):
        store.add("gone", None, "user", "x")
    node = store.add(chat.id, None, "user", "x")
    with pytest.raises(StoreError, match="is not there any more"):
        store.add(other.id, node.id, "user", "a parent of another conversation")
    with pytest.raises(StoreError, match="is not there any more"):
        store.set_leaf(other.id, node.id)


@pytest.mark.parametrize(
    "query",
    ['"', "'", "a OR", "NEAR(", "*", "col:x", "-x", "(", "x\0y", "", "   ", "%", "_", "!!!", "\\", "\ud800", "ß" * 9],
)
def test_any_text_is_a_safe_query(store: Store, query: str) -> None:
    turn(store, store.create("default"), None, "a col x y")
    store.search(query)


def test_search_ranks_own_words_first(store: Store) -> None:
    chat = store.create("default")
    user = store.add(chat.id, None, "user", "tell me of animals")
    store.add(chat.id, user.id, "assistant", "The okapi lives in Congo. An okapi is shy.")
    mine = store.add(chat.id, user.id, "user", "and what does an okapi eat, please, if anything at all is known?")
    hits = store.search("OKAPI")
    assert hits[0].node == mine.id
    assert {hit.role for hit in hits} == {"user", "assistant"}
    assert "okapi" in hits[0].snippet
    assert hits[0].conversation.id == chat.id
    assert len(store.search("okapi cong")) == 1
    assert store.search("okapi zebra") == []


def test_search_in_scripts_without_spaces_and_for_signs(store: Store) -> None:
    chat = store.create("default")
    turn(store, chat, None, "今日は良い天気ですね")
    turn(store, chat, None, "100% of C++")
    assert store.search("天気")[0].snippet == "今日は良い天気ですね"
    assert len(store.search("0%")) == 2
    assert store.search("0_") == []


def test_search_without_fts5(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(search, "prepare", lambda connection: False)
        store = Store.open(path, ticking())
        assert store.notice is not None
        assert "no FTS5" in store.notice
        turn(store, store.create("default"), None, "zebra")
        assert len(store.search("zebr")) == 2
        store.close()
    with_index = Store.open(path, ticking())
    assert len(with_index.search("zebra")) == 2
    assert sqlite3.connect(path).execute("SELECT count(*) FROM words").fetchone() == (2,)
    with_index.close()


def test_text_that_utf8_cannot_hold_is_stored(store: Store) -> None:
    chat = store.create("default")
    node = store.add(chat.id, None, "user", "a\udcff\U0001f600\0b")
    assert store.path(node.id)[0].content == "a\ufffd\U0001f600\0b"
