"""An app whose terminal is closed ends, also where no hangup signal comes: in a session without a controlling terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")]


def test_the_app_ends_with_its_terminal(tmp_path: Path) -> None:
    if sys.platform == "win32":  # for the type checker
        return
    import pty

    master, slave = pty.openpty()
    app = subprocess.Popen(
        [sys.executable, "-c", "from fader.cli import main; main()", "-p", "echo"],
        env={**os.environ, "FADER_HOME": str(tmp_path), "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    try:
        seen, end = b"", time.monotonic() + 60
        while b"Fader" not in seen:
            assert time.monotonic() < end, "the screen did not come"
            seen += os.read(master, 1 << 16)
        os.close(master)
        app.wait(60)
    finally:
        app.kill()
        app.wait()
