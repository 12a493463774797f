"""Law 10: the app may be killed at any moment; at most one second of text is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fader.store import Store

DRIVER = str(Path(__file__).with_name("driver.py"))
KILLS = 30
ALLOWED_S = 1.0
SLACK_S = 0.25
"""For the pipe and a busy machine between the driver's print and this process's clock."""


@pytest.mark.slow
def test_a_killed_app_loses_at_most_a_second(tmp_path: Path) -> None:
    """30 kills of one and the same store: every question is there, and every reply up to a second before the end."""
    moments = random.Random(20)
    for number in range(KILLS):
        seen: list[tuple[float, str]] = []
        driver = subprocess.Popen([sys.executable, DRIVER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        killer: threading.Timer | None = None
        assert driver.stdout is not None
        for line in driver.stdout:
            seen.append((time.monotonic(), line.strip()))
            if killer is None:
                killer = threading.Timer(moments.uniform(0.0, 2.2), driver.kill)
                killer.start()
        driver.wait()
        killed = time.monotonic()
        driver.stdout.close()
        check(tmp_path, seen, killed, number)


def check(folder: Path, seen: list[tuple[float, str]], killed: float, number: int) -> None:
    """Compare what the driver said with what the store holds."""
    store = Store.open(folder / "fader.db", lambda: datetime.now(UTC))
    try:
        assert store.notice is None, f"kill {number}: the database was damaged"
        conversation = store.last()
        assert conversation is not None
        nodes = store.path(conversation.leaf)
        sent = sum(line.startswith("sent") for _, line in seen)
        assert len([node for node in nodes if node.role == "user"]) >= sent, f"kill {number}: a question is missing"
        replies = [node for node in nodes if node.role == "assistant"]
        done = sum(line.startswith("done") for _, line in seen)
        assert all(node.state == "complete" for node in replies[:done]), f"kill {number}: a whole reply is missing"
        last_sent = max(at for at, (_, line) in enumerate(seen) if line.startswith("sent"))
        due = [
            int(line.split()[1])
            for at, line in seen[last_sent:]
            if line.startswith("text") and at < killed - ALLOWED_S - SLACK_S
        ]
        kept = len(replies[-1].content) if len(replies) == sent else 0
        assert kept >= max(due, default=0), f"kill {number}: {kept} characters kept, {max(due)} were a second old"
        assert replies[-1].state in ("interrupted", "complete"), replies[-1].state
    finally:
        store.close()
