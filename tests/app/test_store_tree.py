"""The store's tree: its shape, cutting, forking; and what tokens were chosen from, kept beside it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from fader.store import Store, database
from fader_backends.errors import StoreError

from tests.app.ticking import ticking, turn


def test_the_shape_has_every_message_once(store: Store) -> None:
    chat = store.create("default")
    first = turn(store, chat, None, "one\n  two")
    other = turn(store, chat, None, "three" * 100)
    shape = store.twigs(chat.id)
    assert [(twig.parent, twig.role) for twig in shape] == [
        (None, "user"),
        (shape[0].id, "assistant"),
        (None, "user"),
        (shape[2].id, "assistant"),
    ]
    assert (shape[1].id, shape[3].id) == (first, other)
    assert shape[0].sketch == "one two"
    assert len(shape[2].sketch) == 200


def test_cutting_takes_a_message_and_all_below_it(store: Store) -> None:
    chat = store.create("default")
    first = turn(store, chat, None, "one")
    second = turn(store, chat, first, "two")
    turn(store, chat, second, "three")
    store.keep_odds(second, b"notes", 1000)
    kept = turn(store, chat, first, "beside")
    leaf = turn(store, chat, second, "four")
    store.set_leaf(chat.id, leaf)
    store.cut(second)
    assert [node.content for node in store.path(kept)] == ["one", "re: one", "beside", "re: beside"]
    assert store.conversation(chat.id).leaf == store.twigs(chat.id)[2].id, "the question of what was cut"
    assert store.search("three") == []
    assert store.odds(second) is None
    with pytest.raises(StoreError, match="not there any more"):
        store.cut(second)


def test_cutting_goes_deeper_than_a_cascade(store: Store) -> None:
    """SQLite stops a cascade after a thousand generations."""
    chat = store.create("default")
    root = store.add(chat.id, None, "user", "root").id
    with store._writing() as db:
        parent = root
        for number in range(1500):
            cursor = db.execute(
                "INSERT INTO message (conversation, parent, role, content, state, created) "
                "VALUES (?, ?, 'user', ?, 'complete', 0)",
                (chat.id, parent, f"deep {number}"),
            )
            parent = int(cursor.lastrowid or 0)
    store.cut(root)
    assert store.twigs(chat.id) == []


def test_a_fork_is_a_conversation_of_its_own(store: Store) -> None:
    chat = store.create("default")
    first = turn(store, chat, None, "one")
    store.update(first, content="re: one", ids=(5, 6), state="complete", record=b'{"a": 1}')
    store.keep_odds(first, b"notes", 1000)
    turn(store, chat, first, "two")
    made = store.fork(first)
    assert made.id != chat.id
    assert (made.title, made.clock, made.messages) == (chat.title or "one", chat.clock, 2)
    copy = store.path(made.leaf)[-1]
    assert (copy.content, copy.ids, copy.record) == ("re: one", (5, 6), b'{"a": 1}')
    assert store.odds(copy.id) == b"notes"
    store.cut(first)
    assert store.path(made.leaf)[-1].content == "re: one", "the copy does not hang on the original"
    assert [hit.conversation.id for hit in store.search("one")] != []


# --- what tokens were chosen from --------------------------------------------------------------------------------------


def test_the_oldest_make_room(store: Store) -> None:
    chat = store.create("default")
    nodes = [turn(store, chat, None, f"{n}") for n in range(4)]
    for node in nodes:
        store.keep_odds(node, bytes(100), 250)
    assert [store.odds(node) is not None for node in nodes] == [False, False, True, True]
    store.keep_odds(nodes[3], bytes(240), 250)
    assert [store.odds(node) is not None for node in nodes] == [False, False, False, True], "replaced, not added"
    store.keep_odds(nodes[3], bytes(251), 250)
    assert store.odds(nodes[3]) is None, "what is larger than the budget is not kept"


def test_a_deleted_message_keeps_nothing(store: Store) -> None:
    chat = store.create("default")
    node = turn(store, chat, None, "one")
    store.keep_events(node, b"events", 100)
    store.cut(node)
    assert store.events(chat.id, 9) == [], "its events go with it"
    store.keep_odds(node, b"late", 100)
    store.keep_events(node, b"late", 100)
    assert store.odds(node) is None
    assert store.events(chat.id, 9) == []


def test_events_are_those_of_one_conversation_the_latest_first(store: Store) -> None:
    one, other = store.create("default"), store.create("default")
    nodes = [turn(store, chat, None, "x") for chat in (one, other, one, one)]
    for node in nodes:
        store.keep_events(node, f"{node}".encode(), 1000)
    assert store.events(one.id, 2) == [(nodes[3], f"{nodes[3]}".encode()), (nodes[2], f"{nodes[2]}".encode())]


def old(path: Path) -> int:
    """Make a file as the first version did, with one turn in it; return the reply."""
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as raw:
        for statement in database._TABLES.split(";\n"):
            raw.execute(statement)
        raw.execute("INSERT INTO conversation VALUES ('c', 't', 'default', 0, 0, '2026-01-01T00:00:00+00:00', 2)")
        add = "INSERT INTO message (id, conversation, parent, role, content, state, created) VALUES (?, 'c', ?, ?, ?, ?, 0)"
        raw.execute(add, (1, None, "user", "old question", "complete"))
        raw.execute(add, (2, 1, "assistant", "old answer", "complete"))
        raw.execute("PRAGMA user_version = 1")
    raw.close()
    return 2


def test_a_file_of_the_first_version_goes_on(path: Path) -> None:
    reply = old(path)
    for _ in range(2):
        store = Store.open(path, ticking())
        assert store.notice is None
        assert [node.content for node in store.path(reply)] == ["old question", "old answer"]
        assert store.search("answer")[0].node == reply
        store.close()
    store = Store.open(path, ticking())
    store.keep_odds(reply, b"notes", 100)
    assert store.odds(reply) == b"notes"
    store.close()


def test_a_step_that_fails_leaves_the_old_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old(path)
    monkeypatch.setattr(database, "_STEPS", {1: "CREATE TABLE odds (nonsense"})
    with pytest.raises(StoreError):
        Store.open(path, ticking())
    monkeypatch.undo()
    store = Store.open(path, ticking())
    assert store.twigs("c")[1].sketch == "old answer"
    store.close()
