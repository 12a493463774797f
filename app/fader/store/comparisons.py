"""Comparisons and blind choices in the conversations' file: their own tables, made when first needed.

Knows rows and bytes, not what a comparison is. An older Fader that opens the file does not see these tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

import msgspec
from fader_backends.errors import UnknownName

from .values import clean, from_micros, title_of, to_micros

_TABLES = (
    """CREATE TABLE IF NOT EXISTS comparison (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation TEXT REFERENCES conversation(id) ON DELETE SET NULL,
    created INTEGER NOT NULL, title TEXT NOT NULL, columns INTEGER NOT NULL, data BLOB NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS choice (
    id INTEGER PRIMARY KEY AUTOINCREMENT, created INTEGER NOT NULL, winner TEXT NOT NULL, shown BLOB NOT NULL)""",
)


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A stored comparison without what it holds."""

    id: int
    created: datetime
    title: str
    """First line of its question."""
    columns: int


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One blind choice."""

    created: datetime
    winner: str
    """What the chosen column changed."""
    shown: tuple[str, ...]
    """What each of the columns changed, the chosen one among them."""


class Comparisons:
    """The part of `Store` that keeps comparisons. Every method may raise StoreError."""

    _now: Callable[[], datetime]
    _writing: Callable[[], AbstractContextManager[sqlite3.Connection]]

    @contextmanager
    def _comparing(self) -> Iterator[sqlite3.Connection]:
        with self._writing() as db:
            for statement in _TABLES:
                db.execute(statement)
            yield db

    def put_comparison(
        self,
        data: bytes,
        prompt: str,
        columns: int,
        conversation: str | None,
        id: int | None = None,  # noqa: A002
    ) -> int:
        """Write a comparison, anew or in place of number `id`; return its number."""
        with self._comparing() as db:
            there = "SELECT 1 FROM conversation WHERE id = ?"
            if conversation is not None and not db.execute(there, (conversation,)).fetchone():
                conversation = None
            if id is not None and db.execute("SELECT 1 FROM comparison WHERE id = ?", (id,)).fetchone():
                change = "UPDATE comparison SET conversation = ?, columns = ?, data = ? WHERE id = ?"
                db.execute(change, (conversation, columns, data, id))
                return id
            cursor = db.execute(
                "INSERT INTO comparison (conversation, created, title, columns, data) VALUES (?, ?, ?, ?, ?)",
                (conversation, to_micros(self._now()), title_of(clean(prompt)), columns, data),
            )
            return int(cursor.lastrowid or 0)

    def comparison(self, id: int) -> bytes:  # noqa: A002
        """Return a comparison's data. Raises UnknownName."""
        with self._comparing() as db:
            row = db.execute("SELECT data FROM comparison WHERE id = ?", (id,)).fetchone()
            recent = db.execute("SELECT id FROM comparison ORDER BY id DESC LIMIT 5").fetchall()
        if row is None:
            raise UnknownName("comparison", str(id), [str(one) for (one,) in recent])
        return bytes(row[0])

    def comparisons(self, limit: int = 200) -> list[Listed]:
        """Return comparisons, the latest first."""
        with self._comparing() as db:
            rows = db.execute(
                "SELECT id, created, title, columns FROM comparison ORDER BY id DESC LIMIT ?", (limit,)
            ).fetchall()
        return [Listed(id=id, created=from_micros(at), title=title, columns=count) for id, at, title, count in rows]  # noqa: A001

    def choose(self, winner: str, shown: Sequence[str]) -> None:
        """Note a blind choice."""
        data = msgspec.json.encode(list(shown))
        with self._comparing() as db:
            db.execute(
                "INSERT INTO choice (created, winner, shown) VALUES (?, ?, ?)", (to_micros(self._now()), winner, data)
            )

    def choices(self) -> list[Choice]:
        """Return all blind choices, oldest first."""
        with self._comparing() as db:
            rows = db.execute("SELECT created, winner, shown FROM choice ORDER BY id").fetchall()
        return [
            Choice(created=from_micros(at), winner=winner, shown=msgspec.json.decode(shown, type=tuple[str, ...]))
            for at, winner, shown in rows
        ]
