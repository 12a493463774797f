"""The engine in its own process: turns, cancels, sudden deaths on both sides, and noise on its descriptors."""

from __future__ import annotations

import os
import queue
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import pytest
from fader.engine import wire
from fader.engine.child import LAST_SECONDS
from fader.engine.remote import EngineProcess, cause
from fader_plugins.registry import build
from fader_plugins.turn import AnyEvent, Failed, Finished, GenerationRequest, Prefilled, Token

Ask = Callable[..., GenerationRequest]
E = TypeVar("E", bound=AnyEvent)
PATIENCE_S = 30.0
SLOW: dict[str, Any] = {"load": {"noise": 0.0, "step_ms": 3.0}, "chunk": 4}
NOISY = """
import os, sys
from fader_plugins import PluginInfo, hookimpl
info = PluginInfo(name="noisy", summary="prints wherever it can")
print("at import")
@hookimpl
def restore_prefix(request, session, prompt):
    print("printed", flush=True)
    sys.stdout.buffer.write(b"\\xff\\x00\\x01 bytes\\n")
    os.write(1, b"\\x10\\x00\\x00\\x00 looks like a message\\n")
    os.write(2, b"to descriptor 2\\n")
    os.system("echo from a shell")
"""
PARENT = """
import sys
from pathlib import Path
from fader.engine.remote import EngineProcess
engine = EngineProcess(Path(sys.argv[1]), None, lambda event: None)
engine.start()
print(engine.pid, flush=True)
sys.stdin.read()
"""


class Remote:
    """An engine process and what it said."""

    def __init__(self, log: Path, plugins: Path | None = None) -> None:
        self.events: queue.SimpleQueue[AnyEvent] = queue.SimpleQueue()
        self.process = EngineProcess(log, plugins, self.events.put)

    def until(self, kind: type[E], fits: Callable[[E], bool] = lambda _: True) -> E:
        """Wait for an event; a turn that fails or ends meanwhile is an error."""
        while True:
            event = self.events.get(timeout=PATIENCE_S)
            if isinstance(event, kind) and fits(event):
                return event
            assert not isinstance(event, Failed | Finished), event

    def says(self, request: GenerationRequest) -> str:
        self.process.submit(request)
        text = ""
        while not isinstance(event := self.events.get(timeout=PATIENCE_S), Finished):
            assert not isinstance(event, Failed), event
            text += event.text if isinstance(event, Token) else ""
        assert event.request_id == request.id
        return text + event.text


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    made = Remote(tmp_path / "logs" / "engine.log")
    yield made
    made.process.close()


def ended(pid: int) -> bool:
    """Wait until a process that is not our child has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], PATIENCE_S)[0])
    finally:
        os.close(descriptor)


def test_turns_through_the_process(remote: Remote, ask: Ask) -> None:
    """Two turns give their replies on one process; closing ends it without force."""
    assert remote.says(ask("one\nline and 👩‍🚀")) == "one\nline and 👩‍🚀"
    pid = remote.process.pid
    assert pid is not None
    assert remote.says(ask("two")) == "two"
    assert pid == remote.process.pid
    remote.process.close()
    assert remote.process.pid is None
    assert remote.events.empty(), "closing is no failure"


@pytest.mark.slow
def test_closing_is_quick(tmp_path: Path, ask: Ask) -> None:
    """An idle engine goes at once, without waiting for its own farewell timer; the best of three on a busy machine."""
    took_s = []
    for _ in range(3):
        remote = Remote(tmp_path / "engine.log")
        remote.says(ask("warm"))
        begin = time.monotonic()
        remote.process.close()
        took_s.append(time.monotonic() - begin)
    assert min(took_s) < LAST_SECONDS


def test_a_large_request_and_control_text(remote: Remote, ask: Ask) -> None:
    """A prompt far above a pipe's buffer crosses whole: it is refused for its own length, with its exact numbers."""
    remote.process.submit(ask("ü" * 500_000))
    failed = remote.until(Failed)
    assert failed.failure.kind == "ContextFull"
    assert "1,000,003" in failed.failure.title


def test_cancel(remote: Remote, ask: Ask) -> None:
    """A cancelled turn ends with what it had; the next one is right."""
    request = ask("z" * 400, **SLOW)
    remote.process.submit(request)
    remote.until(Token, lambda event: event.index == 3)
    remote.process.cancel(request.id)
    end = remote.until(Finished)
    assert end.reason == "cancelled"
    assert 4 <= len(end.ids) < 400
    assert remote.says(ask("next", **SLOW)) == "next"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize("phase", ["start", "prefill", "decode"])
def test_killed_at_any_moment(remote: Remote, ask: Ask, phase: str) -> None:
    """kill -9 at random moments of a phase: one Failed that names the signal, then the next turn works, on a new process."""
    moments = random.Random(phase)
    for _ in range(4):
        request = ask("k" * 100, **SLOW)
        remote.process.submit(request)
        if phase == "prefill":
            done = moments.randrange(4, 90)
            remote.until(Prefilled, lambda event, done=done: event.done >= done)  # type: ignore[misc]
        elif phase == "decode":
            index = moments.randrange(90)
            remote.until(Token, lambda event, index=index: event.index == index)  # type: ignore[misc]
        pid = remote.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        failed = remote.until(Failed)
        assert (request.id, "EngineDied") == (failed.request_id, failed.failure.kind)
        assert "SIGKILL" in failed.failure.detail
        assert str(remote.process.log) in failed.failure.next_step
        assert remote.says(ask("next", **SLOW)) == "next"
        assert pid != remote.process.pid


def test_submitting_right_after_a_death(remote: Remote, ask: Ask) -> None:
    """Turns sent while the death is not known yet run on a new engine or fail with the old; each ends exactly once."""
    remote.says(ask("warm"))
    pid = remote.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    requests = [ask("after"), ask("more")]
    for request in requests:
        remote.process.submit(request)
    ends: list[str] = []
    while len(ends) < 2:
        event = remote.events.get(timeout=PATIENCE_S)
        if isinstance(event, Finished | Failed):
            assert isinstance(event, Finished) or event.failure.kind == "EngineDied", event
            ends.append(event.request_id)
    assert {request.id for request in requests} == set(ends)
    assert remote.says(ask("last")) == "last", "no late second end of the others came in between"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits on a process descriptor, which is Linux's")
def test_news_of_an_old_death_blames_no_new_turn(tmp_path: Path, ask: Ask) -> None:
    """A reader that learns late of its engine's death reports only the turns of that engine."""
    remote, held, go_on = Remote(tmp_path / "engine.log"), threading.Event(), threading.Event()
    warm, lost, new = ask("warm"), ask("lost" * 99, **SLOW), ask("new" * 99, **SLOW)

    def emit(event: AnyEvent) -> None:
        remote.events.put(event)
        if event.request_id == lost.id and isinstance(event, Token) and not held.is_set():
            held.set()
            assert go_on.wait(PATIENCE_S)

    remote.process.emit = emit
    try:
        remote.says(warm)
        remote.process.submit(lost)
        assert held.wait(PATIENCE_S)
        pid = remote.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert ended(pid)
        remote.process.submit(new)
        remote.until(Token, lambda event: event.request_id == new.id)
        go_on.set()
        assert remote.until(Failed).request_id == lost.id
        assert remote.until(Finished).request_id == new.id
        assert remote.events.empty()
    finally:
        go_on.set()
        remote.process.close()


def test_an_engine_that_cannot_start(tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an interpreter to run, the turn fails with the reason instead of hanging."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    remote = Remote(tmp_path / "engine.log")
    remote.process.submit(ask())
    failed = remote.until(Failed)
    assert failed.failure.kind == "EngineDied"
    assert "no-python" in failed.failure.detail


def test_the_child_ends_with_its_input(tmp_path: Path, ask: Ask) -> None:
    """When the pipe closes in the middle of a turn, the process lets go and ends with code 0."""
    command = [sys.executable, "-m", "fader.engine.child", str(tmp_path / "engine.log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        inbox, outbox = cast("BinaryIO", child.stdin), cast("BinaryIO", child.stdout)
        wire.write(inbox, wire.Submit(ask("long" * 200, **SLOW)))
        while not isinstance(wire.events.decode(wire.read(outbox) or b""), Token):
            pass
        inbox.close()
        last: AnyEvent | None = None
        while (data := wire.read(outbox)) is not None:
            last = wire.events.decode(data)
        assert isinstance(last, Finished)
        assert last.reason == "cancelled"
        assert child.wait(PATIENCE_S) == 0


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits on a process descriptor, which is Linux's")
def test_the_child_ends_when_the_parent_is_killed(tmp_path: Path) -> None:
    """kill -9 of the app leaves no engine behind."""
    command = [sys.executable, "-c", PARENT, str(tmp_path / "engine.log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.kill()
        assert ended(pid), "the engine outlived its app"


def test_noise_goes_to_the_log(tmp_path: Path, ask: Ask, capfd: pytest.CaptureFixture[str]) -> None:
    """A plugin that prints, writes to descriptors 1 and 2 and runs a shell cannot touch the pipe; the log holds it all."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "noisy.py").write_text(NOISY)
    both = build(folder)
    capfd.readouterr()
    remote = Remote(tmp_path / "engine.log", folder)
    try:
        assert remote.says(ask("clear", on=both)) == "clear"
        assert remote.says(ask("still clear", on=both)) == "still clear"
    finally:
        remote.process.close()
    log = (tmp_path / "engine.log").read_bytes()
    for noise in (
        b"at import",
        b"printed",
        b"\xff\x00\x01 bytes",
        b"looks like a message",
        b"descriptor 2",
        b"a shell",
    ):
        assert noise in log, noise
    assert capfd.readouterr() == ("", ""), "nothing reached the terminal"


@pytest.mark.parametrize(
    ("code", "word"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "memory"), (-11, "SIGSEGV"), (-99, "signal 99")]
)
def test_causes_are_named(code: int, word: str) -> None:
    """Exit codes and signals, known or not, become a sentence."""
    assert word in cause(code)
