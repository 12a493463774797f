"""A program in a pseudo-terminal, drained as a terminal does, with the time each piece of its output arrived.

Knows no program. Needs a system with pseudo-terminals.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence

import pyte

COLUMNS, LINES = 120, 40


class Terminal:
    """Starts `command` at once. Use as a context manager: leaving it ends the program."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], cwd: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        os.set_blocking(self.master, False)
        self.chunks: list[tuple[int, bytes]] = []
        """(when it arrived, what), in order."""
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._shown = 0
        self.begun_ns = time.perf_counter_ns()
        self.process = subprocess.Popen(
            command, env=environment, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)

    def type(self, text: str) -> None:
        """Send keys, draining meanwhile."""
        data = text.encode()
        while data:
            try:
                data = data[os.write(self.master, data) :]
            except BlockingIOError:
                self._drain(0.01)

    def pump(self, until: Callable[[], bool], seconds: float, every: float = 0.2) -> bool:
        """Drain until `until()`, asked `every` so many seconds, is true; False when `seconds` pass or the program ends."""
        end = time.perf_counter() + seconds
        while True:
            pause = time.perf_counter() + every
            while (left := pause - time.perf_counter()) > 0:
                if not self._drain(left):
                    return until()
            if until():
                return True
            if time.perf_counter() > end:
                return False

    def _drain(self, seconds: float) -> bool:
        """Take what arrives within `seconds`; False when the program has closed its side."""
        ready, _, _ = select.select([self.master], [], [], max(seconds, 0.0))
        if ready:
            try:
                data = os.read(self.master, 1 << 16)
            except BlockingIOError:
                return True
            except OSError:
                return False
            self.chunks.append((time.perf_counter_ns(), data))
            return bool(data)
        return True

    def screen(self) -> list[str]:
        """Return what is on the screen now, line by line."""
        self._feed(len(self.chunks))
        return [line.rstrip() for line in self._screen.display]

    def shows(self, text: str) -> bool:
        """Whether `text` is somewhere on the screen."""
        return any(text in line for line in self.screen())

    def holds(self, *texts: str) -> bool:
        """Whether each text has arrived in one piece at some time; cheap, while the program is being timed."""
        raw = b"".join(data for _, data in self.chunks)
        return all(text.encode() in raw for text in texts)

    def first(self, seen: Callable[[list[str]], bool]) -> float | None:
        """Return the milliseconds from the start to the first piece of output after which `seen(screen)`.

        Works on what was drained so far, afterwards, so that looking costs the program nothing.
        """
        for end in range(self._shown + 1, len(self.chunks) + 1):
            self._feed(end)
            if seen([line.rstrip() for line in self._screen.display]):
                return (self.chunks[end - 1][0] - self.begun_ns) * 1e-6
        return None

    def _feed(self, end: int) -> None:
        for _, data in self.chunks[self._shown : end]:
            self._stream.feed(data)
        self._shown = end

    def quiet_for(self, seconds: float) -> bool:
        """Whether nothing has arrived for so long."""
        last = self.chunks[-1][0] if self.chunks else self.begun_ns
        return time.perf_counter_ns() - last > seconds * 1e9

    def close(self, keys: str = "") -> None:
        """End the program, with `keys` if it listens to them."""
        if keys and self.process.poll() is None:
            self.type(keys)
            self.pump(lambda: self.process.poll() is not None, 10, 0.05)
        if self.process.poll() is None:
            self.process.terminate()
            self.pump(lambda: self.process.poll() is not None, 5, 0.05)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
