"""Opening the SQLite file: permissions, schema, damage, and every SQLite error as a StoreError.

Knows the schema, not what a conversation means.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from fader_backends.errors import StoreError

from ..paths import make_folder

SCHEMA = 3
WAIT_S = 10.0
"""How long a writer waits for another process's write."""
CHECKED_BYTES = 16 * 2**20
"""Files up to this size are checked at every start (about 30 ms at the most); larger ones after an error."""

_TABLES = """
CREATE TABLE conversation (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, profile TEXT NOT NULL, created INTEGER NOT NULL,
    updated INTEGER NOT NULL, clock TEXT NOT NULL, leaf INTEGER);
CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
    parent INTEGER REFERENCES message(id) ON DELETE CASCADE,
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
    content TEXT NOT NULL,
    ids BLOB,
    state TEXT NOT NULL,
    created INTEGER NOT NULL,
    record BLOB,
    owner TEXT,  -- the process that streams it, see owner.py
    found INTEGER NOT NULL DEFAULT 0  -- whether the full-text index holds it
);
CREATE INDEX message_by_place ON message (conversation, parent);
CREATE INDEX message_by_parent ON message (parent);
CREATE INDEX conversation_by_age ON conversation (updated);
CREATE INDEX message_to_find ON message (id) WHERE found = 0;
CREATE INDEX message_streaming ON message (id) WHERE state = 'streaming';
"""

_STEPS = {
    1: "CREATE TABLE odds (message INTEGER PRIMARY KEY REFERENCES message(id) ON DELETE CASCADE, data BLOB NOT NULL)",
    2: "CREATE TABLE events (message INTEGER PRIMARY KEY REFERENCES message(id) ON DELETE CASCADE, data BLOB NOT NULL)",
}
"""Version -> what makes the next one of it."""


@contextmanager
def guarded(path: Path, mark: bool = True) -> Iterator[None]:
    """Turn what SQLite raises inside into a StoreError that names `path` and the next step."""
    try:
        yield
    except sqlite3.Error as error:
        if mark and _damage(error):
            with suppress(OSError):
                _marker(path).touch()
        raise _explained(path, error) from error


def _explained(path: Path, error: sqlite3.Error) -> StoreError:
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL"):
        return StoreError(f"No room left to write {path}.", "", "Free some disk space and send again.")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreError(f"{path} is held by another program.", "", "Close that program and try again.")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH", "SQLITE_IOERR")):
        step = "Make it and its folder writable, or set FADER_HOME to a folder that is."
        return StoreError(f"Cannot write {path}: {error}.", "", step)
    if _damage(error):
        return StoreError(f"{path} is damaged: {error}.", "", "Start Fader again: it puts the file aside and keeps it.")
    return StoreError(f"{path}: {error}.", "", "See the log (fader paths) and try again.")


def _damage(error: sqlite3.Error) -> bool:
    name = getattr(error, "sqlite_errorname", "") or ""
    return name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def suspect(path: Path) -> bool:
    """Whether damage was met in the file at `path` since it was last checked."""
    return _marker(path).exists()


def _marker(path: Path) -> Path:
    return path.with_name(path.name + ".check")


def open_database(path: Path, now: datetime) -> tuple[sqlite3.Connection, str | None]:
    """Return a connection to the file at `path`, made when it is not there, and a notice for the user if any.

    A damaged file is renamed to `<name>.damaged-<time>` with its journal and kept. Raises StoreError.
    """
    make_folder(path.parent)
    notice = None
    if broken := _broken(path):
        aside = _put_aside(path, now)
        notice = f"The conversations file was damaged ({broken}). It is kept as {aside}; a new one was started."
    with guarded(path, mark=False):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            step = "Make it and its folder writable, or set FADER_HOME to a folder that is."
            raise StoreError(f"Cannot write {path}: {error.strerror or error}.", "", step) from error
        connection = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            _set_up(connection)
        except BaseException:
            connection.close()
            raise
    return connection, notice


def _set_up(connection: sqlite3.Connection) -> None:
    # Readers never wait for a writer. FULL: a committed turn is on the disk even if the power fails; the price is one
    # sync per commit, and a streaming reply commits about once a second.
    _use_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Asked again: another instance may have been first.
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                for statement in _TABLES.split(";\n"):
                    connection.execute(statement)
            for step in range(max(version, 1), SCHEMA):
                connection.execute(_STEPS[step])
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _use_wal(connection: sqlite3.Connection) -> None:
    # The busy timeout does not hold for the switch to WAL, which only the first start of all makes.
    end = time.monotonic() + WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.005)


def _broken(path: Path) -> str:
    """Return what is wrong with the file, or nothing. A newer or foreign file raises StoreError and is not touched."""
    if not path.exists() or (path.is_file() and path.stat().st_size == 0):
        return ""
    with guarded(path, mark=False):
        try:
            with closing(sqlite3.connect(path.as_uri() + "?mode=ro", uri=True, timeout=WAIT_S)) as reader:
                version = reader.execute("PRAGMA user_version").fetchone()[0]
                tables = reader.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
                _refuse(path, version, tables)
                if path.stat().st_size <= CHECKED_BYTES or suspect(path):
                    answer = str(reader.execute("PRAGMA quick_check(1)").fetchone()[0])
                    if answer != "ok":
                        return " ".join(answer.split())
        except sqlite3.DatabaseError as error:
            if not _damage(error):
                raise
            return str(error)
    _marker(path).unlink(missing_ok=True)
    return ""


def _refuse(path: Path, version: int, tables: int) -> None:
    if version > SCHEMA:
        raise StoreError(
            f"{path} was made by a newer Fader (schema {version}; this one knows {SCHEMA}). It was not touched.",
            "",
            "Update Fader, or set FADER_HOME to another folder.",
        )
    if version < 1 and tables:
        step = "Move it away, or set FADER_HOME to another folder."
        raise StoreError(f"{path} is a database of another program. It was not touched.", "", step)


def _put_aside(path: Path, now: datetime) -> Path:
    stem = f"{path.name}.damaged-{now:%Y%m%d-%H%M%S}"
    aside = path.with_name(stem)
    number = 2
    while aside.exists():
        aside = path.with_name(f"{stem}-{number}")
        number += 1
    try:
        path.rename(aside)
        for tail in ("-wal", "-shm"):
            journal = path.with_name(path.name + tail)
            if journal.exists():
                journal.rename(aside.with_name(aside.name + tail))
        _marker(path).unlink(missing_ok=True)
    except OSError as error:
        step = "Close other instances of Fader and start again."
        raise StoreError(f"{path} is damaged and cannot be put aside: {error}.", "", step) from error
    return aside
