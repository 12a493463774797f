from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from fader.store import Store
from fader.store.owner import alive, me


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "fader.db"


PRELUDE = """
import sys
from datetime import datetime
from pathlib import Path
from fader.store import Store
store = Store.open(Path(sys.argv[1]), datetime.now)
"""

HAMMER = """
chat = store.create("default")
parent = None
for number in range(60):
    user = store.add(chat.id, parent, "user", f"{sys.argv[2]} {number}")
    reply = store.add(chat.id, user.id, "assistant", "", state="streaming")
    store.update(reply.id, content="half", ids=(1,), state="streaming")
    store.update(reply.id, content="whole", ids=(1, 2), state="complete")
    parent = reply.id
"""

WRITER = """
chat = store.create("default")
user = store.add(chat.id, None, "user", "tell me a story")
reply = store.add(chat.id, user.id, "assistant", "", state="streaming")
text = ""
for number in range(10**9):
    text += f"{number} "
    store.update(reply.id, content=text, ids=tuple(range(number)), state="streaming")
    print(reply.id, number, flush=True)
"""


def process(code: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PRELUDE + code, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_write_to_one_new_file(path: Path) -> None:
    both = [process(HAMMER, str(path), name) for name in ("left", "right")]
    for each in both:
        each.communicate(timeout=60)
    assert [each.returncode for each in both] == [0, 0]
    store = Store.open(path, datetime.now)
    for chat in store.conversations():
        nodes = store.path(chat.leaf)
        name = nodes[0].content.split()[0]
        assert [node.content for node in nodes[::2]] == [f"{name} {number}" for number in range(60)]
        assert {(node.content, node.state) for node in nodes[1::2]} == {("whole", "complete")}
    assert len(store.conversations()) == 2
    store.close()


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_that_was_flushed(path: Path) -> None:
    observer = Store.open(path, datetime.now)
    writer = process(WRITER, str(path))
    assert writer.stdout is not None
    for line in writer.stdout:
        node, number = map(int, line.split())
        if number == 20:
            break
    assert observer.path(node)[-1].state == "streaming", "another instance is still writing it"
    second = Store.open(path, datetime.now)
    assert second.path(node)[-1].state == "streaming", "opening must not end what another instance writes"
    second.close()
    writer.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
    writer.stdout.read()
    writer.wait(timeout=20)
    writer.stdout.close()

    assert observer.path(node)[-1].state == "interrupted", "an instance that stays open sees it too"
    again = Store.open(path, datetime.now)
    user, reply = again.path(node)
    assert user.content == "tell me a story"
    assert reply.state == "interrupted"
    assert reply.content.startswith(" ".join(map(str, range(21))))
    assert again.search("tell me a story")
    assert again.search("20 19")
    again.close()
    observer.close()


def test_owners() -> None:
    host, pid, started = me().split("|")
    assert alive(me())
    assert not alive(None)
    assert not alive(f"{host}|{pid}|{float(started) - 100}"), "a recycled process id is another process"
    assert not alive(f"{host}|999999999|1.0")
    assert alive(f"another-{host}|999999999|1.0")
