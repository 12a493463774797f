"""Full-text search over messages, by FTS5 where SQLite has it and by plain matching otherwise.

Knows rows of the message table, not conversations.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple


class Match(NamedTuple):
    """A message that matches."""

    node: int
    snippet: str


def prepare(connection: sqlite3.Connection) -> bool:
    """Make the index and bring it up to date; return whether there is one (SQLite may be built without FTS5)."""
    try:
        # Two columns, so that a person's own words can weigh more than what a model said.
        tokenizer = "tokenize = 'unicode61 remove_diacritics 2'"
        connection.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(mine, other, {tokenizer})")
        connection.execute("SELECT rowid FROM words LIMIT 1").fetchall()
    except sqlite3.OperationalError as error:
        if "no such module" in str(error):
            return False
        raise
    missing = "SELECT id, role, content FROM message WHERE found = 0 AND state != 'streaming'"
    for node, role, content in connection.execute(missing).fetchall():
        index(connection, node, role, content)
    return True


def index(connection: sqlite3.Connection, node: int, role: str, content: str) -> None:
    """Put a message that will not grow any more into the index, or put it anew."""
    mine, other = (content, "") if role == "user" else ("", content)
    connection.execute("DELETE FROM words WHERE rowid = ?", (node,))
    connection.execute("INSERT INTO words (rowid, mine, other) VALUES (?, ?, ?)", (node, mine, other))
    connection.execute("UPDATE message SET found = 1 WHERE id = ?", (node,))


def forget(connection: sqlite3.Connection, conversation: str) -> None:
    """Take a conversation's messages out of the index."""
    connection.execute(
        "DELETE FROM words WHERE rowid IN (SELECT id FROM message WHERE conversation = ?)", (conversation,)
    )


def drop(connection: sqlite3.Connection, nodes: Sequence[int]) -> None:
    """Take single messages out of the index."""
    connection.executemany("DELETE FROM words WHERE rowid = ?", [(node,) for node in nodes])


def find(connection: sqlite3.Connection, text: str, limit: int, indexed: bool) -> list[Match]:
    """Return the best matches first; any text is a safe query and means "all of these words"."""
    words = text.replace("\0", " ").split()
    if not words:
        return []
    matches = _by_index(connection, words, limit) if indexed else []
    # Scripts without spaces are one long word to the index, so what it does not find is looked for by plain matching.
    return matches or _by_matching(connection, words, limit)


def _by_index(connection: sqlite3.Connection, words: list[str], limit: int) -> list[Match]:
    quoted = ['"' + word.replace('"', '""') + '"' for word in words if any(map(str.isalnum, word))]
    if not quoted:
        return []
    rows = connection.execute(
        "SELECT words.rowid, snippet(words, -1, '', '', '…', 16) FROM words JOIN message ON message.id = words.rowid "
        "WHERE words MATCH ? ORDER BY bm25(words, 4.0, 1.0), words.rowid DESC LIMIT ?",
        (" ".join(quoted) + "*", limit),
    )
    return [Match(node, " ".join(snippet.split())) for node, snippet in rows]


def _by_matching(connection: sqlite3.Connection, words: list[str], limit: int) -> list[Match]:
    patterns = ["%" + word.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_") + "%" for word in words]
    each = " AND ".join(["content LIKE ? ESCAPE '\\'"] * len(patterns))
    rows = connection.execute(
        f"SELECT id, content FROM message WHERE {each} ORDER BY role = 'user' DESC, id DESC LIMIT ?",
        (*patterns, limit),
    )
    return [Match(node, _around(content, words[0])) for node, content in rows]


def _around(content: str, word: str) -> str:
    at = max(content.lower().find(word.lower()), 0)
    start, end = max(at - 40, 0), at + len(word) + 60
    snippet = " ".join(content[start:end].split())
    return ("…" if start else "") + snippet + ("…" if end < len(content) else "")
