"""The real app in a terminal: type a prompt, wait for the reply's record in its store.

Knows the app's keys, its store's table and nothing of its insides.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import psutil
from fader_plugins.turn import RunRecord

from tests.bench.harness import Missing
from tests.bench.sides import ROOT
from tests.bench.terminal import Terminal

QUIT = "\x11"
START_SECONDS = 60.0
TURN_SECONDS = 600.0


class App:
    """Starts the app. Use as a context manager: leaving it quits."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self.database = Path(environment["FADER_HOME"]) / "data" / "fader.db"
        self.terminal = Terminal(command, environment, str(ROOT))
        self.process = psutil.Process(self.terminal.process.pid)

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminal.close(QUIT)

    def ready(self) -> None:
        """Wait until the app takes a prompt and has started its engine."""
        terminal = self.terminal
        if not terminal.pump(lambda: bool(self.engines()) and full(terminal.screen()), START_SECONDS):
            raise Missing("The app did not open: " + " | ".join(line for line in terminal.screen() if line)[:300])
        terminal.pump(lambda: terminal.quiet_for(0.5), START_SECONDS)

    def engines(self) -> list[psutil.Process]:
        """Return the processes the app has started."""
        return self.process.children(recursive=True)

    def paste(self, text: str) -> None:
        """Paste text into the prompt."""
        self.terminal.type(f"\x1b[200~{text}\x1b[201~")

    def send(self, text: str) -> None:
        """Paste a prompt and press Enter."""
        self.paste(text)
        self.terminal.pump(lambda: self.terminal.quiet_for(0.3), 10, 0.1)
        self.terminal.type("\r")

    def turn(self, text: str) -> RunRecord:
        """Send a prompt; return the record of the reply when it has ended."""
        before = len(self.records())
        self.send(text)
        if not self.terminal.pump(lambda: len(self.records()) > before, TURN_SECONDS, 0.5):
            raise Missing("The turn did not end: " + " | ".join(line for line in self.terminal.screen() if line)[:300])
        return self.records()[-1]

    def records(self) -> list[RunRecord]:
        """Return the records of all replies that have ended."""
        if not self.database.exists():
            return []
        query = "SELECT record FROM message WHERE role = 'assistant' AND record IS NOT NULL ORDER BY id"
        with closing(sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True, timeout=5)) as db:
            try:
                rows = db.execute(query).fetchall()
            except sqlite3.OperationalError:  # the tables are being made
                return []
        return [msgspec.json.decode(row[0], type=RunRecord) for row in rows]


def opened(lines: list[str]) -> bool:
    """Whether the screen shows the app's title, prompt and keys."""
    return "Fader" in lines[0] and "Help" in lines[-1].title() and any("Enter sends" in line for line in lines)


def full(lines: list[str]) -> bool:
    """Whether the screen is complete: opened, and the rack with its last part drawn."""
    return opened(lines) and any("sampler" in line for line in lines) and any("Numbers" in line for line in lines[:-1])
