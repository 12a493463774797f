"""The store itself: conversations and their messages, written so that nothing said is lost.

Knows SQL and who is alive, not how text came about.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fader_backends.base import Role
from fader_backends.errors import StoreError, UnknownName

from . import branches, kept, owner, rows, search
from .comparisons import Comparisons
from .database import guarded, open_database, suspect
from .values import Conversation, Hit, Node, Twig, clean, pack_ids, title_of, to_micros


class Store(Comparisons):
    """Conversations in one SQLite file. Methods may be called from any thread; every one may raise StoreError."""

    notice: str | None
    """What the user should know about how the file was opened."""

    def __init__(self, path: Path, connection: sqlite3.Connection, now: Callable[[], datetime]) -> None:
        self._path = path
        self._db = connection
        self._now = now
        self._lock = threading.RLock()
        self._indexed = False
        self.notice = None

    @classmethod
    def open(cls, path: Path, now: Callable[[], datetime]) -> Store:
        """Open the file at `path`, made when it is not there; a damaged one is put aside, and `notice` says so."""
        path = path.absolute()
        try:
            return cls._opened(path, now)
        except StoreError:
            if not suspect(path):
                raise
            return cls._opened(path, now)  # damage was met only just now; this time it is looked for

    @classmethod
    def _opened(cls, path: Path, now: Callable[[], datetime]) -> Store:
        connection, notice = open_database(path, now())
        store = cls(path, connection, now)
        store.notice = notice
        try:
            store._recover()
        except BaseException:
            connection.close()
            raise
        return store

    def close(self) -> None:
        """Close the file. Closing twice is fine."""
        with self._lock:
            self._db.close()

    # --- conversations ------------------------------------------------------------------------------------------------

    def create(self, profile: str) -> Conversation:
        """Start a conversation. It is listed once it has a message."""
        moment = self._now()
        stem = f"{moment.astimezone(UTC):%Y%m%d-%H%M%S}-{moment.microsecond // 1000:03d}"
        with self._writing() as db:
            name, number = stem, 2
            while db.execute("SELECT 1 FROM conversation WHERE id = ?", (name,)).fetchone():
                name, number = f"{stem}-{number}", number + 1
            micros = to_micros(moment)
            db.execute(
                "INSERT INTO conversation VALUES (?, '', ?, ?, ?, ?, NULL)",
                (name, clean(profile), micros, micros, moment.isoformat()),
            )
        return self.conversation(name)

    def conversation(self, id: str) -> Conversation:  # noqa: A002
        """Return one conversation. Raises UnknownName."""
        if found := self._read(f"{rows.CONVERSATION} WHERE id = ?", (clean(id),)):
            return rows.conversation_of(found[0])
        recent = self._read("SELECT id FROM conversation ORDER BY updated DESC LIMIT 5", ())
        raise UnknownName("conversation", id, [row[0] for row in recent])

    def conversations(self, limit: int = 200) -> list[Conversation]:
        """Return conversations that have messages, the one changed last first."""
        order = "ORDER BY updated DESC, rowid DESC LIMIT ?"
        found = self._read(f"{rows.CONVERSATION} WHERE messages > 0 {order}", (limit,))
        return [rows.conversation_of(row) for row in found]

    def last(self) -> Conversation | None:
        """Return the conversation changed last."""
        return next(iter(self.conversations(1)), None)

    def delete(self, conversation: str) -> None:
        """Delete a conversation with all its messages."""
        with self._writing() as db:
            if self._indexed:
                search.forget(db, conversation)
            db.execute("DELETE FROM conversation WHERE id = ?", (conversation,))

    # --- messages -----------------------------------------------------------------------------------------------------

    def add(
        self,
        conversation: str,
        parent: int | None,
        role: Role,
        content: str,
        *,
        ids: tuple[int, ...] | None = None,
        state: str = "complete",
    ) -> Node:
        """Add a message below `parent` and make it the leaf. It is on the disk when this returns."""
        content, micros = clean(content), to_micros(self._now())
        holder = owner.me() if state == "streaming" else None
        with self._writing() as db:
            self._belongs(db, conversation, parent)
            cursor = db.execute(
                "INSERT INTO message (conversation, parent, role, content, ids, state, created, owner) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (conversation, parent, role, content, pack_ids(ids), state, micros, holder),
            )
            node = int(cursor.lastrowid or 0)
            db.execute("UPDATE conversation SET leaf = ?, updated = ? WHERE id = ?", (node, micros, conversation))
            if role == "user":
                titled = "UPDATE conversation SET title = ? WHERE id = ? AND title = ''"
                db.execute(titled, (title_of(content), conversation))
            if self._indexed and state != "streaming":
                search.index(db, node, role, content)
        return self._node(node)

    def update(
        self, node: int, *, content: str, ids: tuple[int, ...] | None, state: str, record: bytes | None = None
    ) -> None:
        """Write a reply as far as it has come (state "streaming") or its end; `record` None leaves the record alone."""
        content, micros = clean(content), to_micros(self._now())
        holder = owner.me() if state == "streaming" else None
        with self._writing() as db:
            found = db.execute(
                "UPDATE message SET content = ?, ids = ?, state = ?, record = coalesce(?, record), owner = ? "
                "WHERE id = ? RETURNING conversation, role",
                (content, pack_ids(ids), state, record, holder, node),
            ).fetchall()
            if not found:
                raise self._missing(node)
            db.execute("UPDATE conversation SET updated = ? WHERE id = ?", (micros, found[0][0]))
            if self._indexed and state != "streaming":
                search.index(db, node, found[0][1], content)

    def set_leaf(self, conversation: str, node: int | None) -> None:
        """Make `node` the message the conversation stands at; None is before its first message."""
        with self._writing() as db:
            self._belongs(db, conversation, node)
            db.execute("UPDATE conversation SET leaf = ? WHERE id = ?", (node, conversation))

    def path(self, node: int | None) -> list[Node]:
        """Return the messages from the first one down to `node`."""
        if node is None:
            return []
        climb = (
            "WITH RECURSIVE up (id, parent, depth) AS (SELECT id, parent, 0 FROM message WHERE id = ? UNION ALL "
            "SELECT above.id, above.parent, depth + 1 FROM message AS above JOIN up ON above.id = up.parent) "
        )
        found = self._read(f"{climb}{rows.NODE} JOIN up ON m.id = up.id ORDER BY depth DESC", (node,))
        if not found:
            raise self._missing(node)
        return [rows.node_of(row) for row in found]

    def children(self, conversation: str, node: int | None) -> list[Node]:
        """Return the messages directly below `node` (None: the first messages), oldest first."""
        found = self._read(f"{rows.NODE} WHERE conversation = ? AND parent IS ? ORDER BY id", (conversation, node))
        return [rows.node_of(row) for row in found]

    def twigs(self, conversation: str) -> list[Twig]:
        """Return the shape of a conversation: every message without most of its text, oldest first."""
        with self._lock, guarded(self._path):
            return branches.twigs(self._db, conversation)

    def cut(self, node: int) -> None:
        """Delete a message with everything below it."""
        gone = self._node(node)
        with self._writing() as db:
            self._belongs(db, gone.conversation, node)
            branches.cut(db, node, self._indexed)

    def fork(self, node: int) -> Conversation:
        """Copy the messages from the first one down to `node` into a conversation of its own, and return that."""
        path = self.path(node)
        source = self.conversation(path[0].conversation)
        made = self.create(source.profile)
        with self._writing() as db:
            leaf = branches.copy(db, [one.id for one in path], made.id)
            db.execute(
                "UPDATE conversation SET title = ?, clock = ?, leaf = ? WHERE id = ?",
                (source.title, source.clock.isoformat(), leaf, made.id),
            )
            self._indexed = search.prepare(db)
        return self.conversation(made.id)

    def search(self, text: str, limit: int = 50) -> list[Hit]:
        """Return messages that hold all words of `text` (the last one may be a beginning), best first."""
        with self._lock, guarded(self._path):
            matches = search.find(self._db, clean(text), limit, self._indexed)
        hits = []
        for match in matches:
            node = self._node(match.node)
            found = self.conversation(node.conversation)
            hits.append(Hit(conversation=found, node=node.id, role=node.role, snippet=match.snippet))
        return hits

    # --- kept beside replies ------------------------------------------------------------------------------------------

    def keep_odds(self, node: int, data: bytes, budget: int) -> None:
        """Keep what a reply's tokens were chosen from; the oldest of all make room where `budget` bytes are not enough."""
        self._keep("odds", node, data, budget)

    def odds(self, node: int) -> bytes | None:
        """Return what is kept of a reply's tokens."""
        with self._lock, guarded(self._path):
            return kept.get(self._db, "odds", node)

    def keep_events(self, node: int, data: bytes, budget: int) -> None:
        """Keep the events of a reply's turn; as `keep_odds`."""
        self._keep("events", node, data, budget)

    def events(self, conversation: str, most: int) -> list[tuple[int, bytes]]:
        """Return the last replies of a conversation whose turns are kept, on all branches, the latest first."""
        query = "SELECT e.message, e.data FROM events e JOIN message m ON m.id = e.message WHERE m.conversation = ?"
        found = self._read(f"{query} ORDER BY e.message DESC LIMIT ?", (conversation, most))
        return [(message, bytes(data)) for message, data in found]

    def _keep(self, table: kept.Table, node: int, data: bytes, budget: int) -> None:
        with self._writing() as db:
            if db.execute("SELECT 1 FROM message WHERE id = ?", (node,)).fetchone():
                kept.put(db, table, node, data, budget)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Mark replies whose process is gone, and bring the index up to date."""
        with self._writing() as db:
            for node, holder in db.execute("SELECT id, owner FROM message WHERE state = 'streaming'").fetchall():
                if not owner.alive(holder):
                    db.execute("UPDATE message SET state = 'interrupted', owner = NULL WHERE id = ?", (node,))
            self._indexed = search.prepare(db)
        if not self._indexed:
            plain = "This Python's SQLite has no FTS5: searching old conversations is slower and unranked."
            self.notice = f"{self.notice} {plain}" if self.notice else plain

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, guarded(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # A full disk may have rolled back already.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _read(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        with self._lock, guarded(self._path):
            return self._db.execute(query, values).fetchall()

    def _node(self, node: int) -> Node:
        if found := self._read(f"{rows.NODE} WHERE m.id = ?", (node,)):
            return rows.node_of(found[0])
        raise self._missing(node)

    def _belongs(self, db: sqlite3.Connection, conversation: str, node: int | None) -> None:
        """Raise unless the conversation is there and holds `node`."""
        if not db.execute("SELECT 1 FROM conversation WHERE id = ?", (conversation,)).fetchone():
            raise StoreError(f"Conversation {conversation} is not there any more.", "", "Start a new conversation.")
        query = "SELECT 1 FROM message WHERE id = ? AND conversation = ?"
        if node is not None and not db.execute(query, (node, conversation)).fetchone():
            raise self._missing(node)

    def _missing(self, node: int) -> StoreError:
        return StoreError(f"Message {node} is not there any more.", "", "Open the conversation again.")
