"""The store's file: who may read it, damage, other versions, disks that are full or not writable."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from fader.store import Store, database
from fader_backends.errors import StoreError

from tests.app.ticking import START, ticking, turn


def test_only_the_owner_may_read(path: Path, store: Store) -> None:
    if os.name == "posix":
        store.create("default")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda data: b"this is not a database\n" * 50,
    "half": lambda data: data[: len(data) // 2],
    "zeros in the middle": lambda data: data[:8192] + bytes(len(data) - 8192),
    "noise": lambda data: data[:4096] + bytes(range(256)) * ((len(data) - 4096) // 256),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_kept_aside(path: Path, kind: str) -> None:
    store = Store.open(path, ticking())
    turn(store, store.create("default"), None, "precious " * 2000)
    store.close()
    damaged = DAMAGE[kind](path.read_bytes())
    for _ in range(2):
        path.write_bytes(damaged)
        again = Store.open(path, lambda: START)
        assert again.notice is not None
        assert "fader.db.damaged-20260301-120000" in again.notice
        assert again.conversations() == []
        turn(again, again.create("default"), None, "on we go")
        again.close()
    kept = sorted(file for file in path.parent.glob("fader.db.damaged-*") if file.name[-4:] not in ("-wal", "-shm"))
    assert [file.read_bytes() for file in kept] == [damaged, damaged]


def test_damage_met_later_is_looked_for_at_the_next_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "CHECKED_BYTES", 0)
    store = Store.open(path, ticking())
    turn(store, store.create("default"), None, "precious " * 2000)
    store.close()
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorname = "SQLITE_CORRUPT"
    with pytest.raises(StoreError, match=r"is damaged.*Start Fader again"), database.guarded(path):
        raise error
    assert database.suspect(path)
    sound = Store.open(path, ticking())
    assert sound.notice is None
    assert len(sound.conversations()) == 1
    sound.close()
    assert not database.suspect(path)

    path.write_bytes(DAMAGE["zeros in the middle"](path.read_bytes()))
    again = Store.open(path, ticking())
    assert again.notice is not None
    again.close()
    assert not database.suspect(path)


def test_a_newer_file_is_refused_and_not_touched(path: Path) -> None:
    Store.open(path, ticking()).close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 7")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"made by a newer Fader \(schema 7; this one knows 3\).*Update Fader"):
        Store.open(path, ticking())
    assert path.read_bytes() == before


def test_a_foreign_database_is_refused_and_not_touched(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE theirs (x)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="database of another program"):
        Store.open(path, ticking())
    assert path.read_bytes() == before


def test_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match=r"Cannot make the folder .*data.*FADER_HOME"):
        Store.open(tmp_path / "data" / "fader.db", ticking())


def test_a_folder_where_the_file_should_be(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"Cannot write .*fader\.db"):
        Store.open(path, ticking())


def test_a_file_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(path, ticking())
    chat = store.create("default")
    leaf = turn(store, chat, None, "kept")
    store._db.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match=r"Cannot write .*fader\.db.*FADER_HOME"):
        store.add(chat.id, leaf, "user", "lost?")
    store._db.execute("PRAGMA query_only = OFF")
    assert [node.content for node in store.path(leaf)] == ["kept", "re: kept"]
    store.close()


def test_a_full_disk(store: Store) -> None:
    chat = store.create("default")
    leaf = turn(store, chat, None, "kept")
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match=r"No room left to write .*fader\.db.*Free some disk space"):
        store.add(chat.id, leaf, "user", "x" * 100_000)
    store._db.execute("PRAGMA max_page_count = 1000000")
    assert [node.content for node in store.path(store.conversation(chat.id).leaf)] == ["kept", "re: kept"]
    store.add(chat.id, leaf, "user", "x" * 100_000)


def test_readers_do_not_wait_for_a_writer(store: Store, path: Path) -> None:
    chat = store.create("default")
    leaf = turn(store, chat, None, "kept")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE conversation SET title = 'half done'")
    assert store.conversation(chat.id).title == "kept"
    assert len(store.path(leaf)) == 2
    writer.execute("ROLLBACK")
    writer.close()
