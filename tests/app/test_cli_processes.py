from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fader.paths import Paths


def spawn(
    user: Paths, *arguments: str, code: str = "from fader.cli import main; main()", stdout: Any = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "FADER_HOME": str(user.config.parent),
        "PYTHONIOENCODING": "ascii",
    }
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)


READY = """
import sys
from fader.cli import main
from fader.commands.run import Answer
from fader_plugins.turn import Token
take, err = Answer.take, sys.stderr
def noticed(self, event):
    take(self, event)
    if isinstance(event, Token) and event.index == 0:
        print("first token", file=err, flush=True)
Answer.take = noticed
main()
"""

HEAVY = """
import sys
from fader.cli import main
try:
    main()
finally:
    heavy = {"torch", "transformers", "llama_cpp", "textual"} & set(sys.modules)
    assert not heavy, heavy
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--help", "plugins list", "profiles list", "log", "run -p echo hi", ""])
def test_nothing_heavy_is_imported(user: Paths, command: str) -> None:
    process = spawn(user, *command.split(), code=HEAVY)
    _, err = process.communicate(timeout=30)
    assert b"AssertionError" not in err, err.decode()
    assert process.returncode == (0 if command else 2)


@pytest.mark.slow
def test_an_odd_console_gets_utf8(user: Paths) -> None:
    out, err = spawn(user, "run", "-p", "echo", "naïve 😀").communicate(timeout=30)
    assert (out.decode(), err) == ("naïve 😀\n", b"")


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(user: Paths) -> None:
    process = spawn(user, "run", "-p", "echo", "--ignore-eos", "--max-tokens", "3000", "hello " * 50)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=30) == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_full_disk_below_stdout(user: Paths, flags: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        process = spawn(user, "run", "-p", "echo", "hello", *flags, stdout=full)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert err == b"fader: cannot write the output: No space left on device.\n"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal as a terminal does")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_ctrl_c_ends_the_answer_where_it_is(user: Paths, flags: list[str]) -> None:
    user.profiles.mkdir(parents=True)
    (user.profiles / "long.toml").write_text('extends = "echo"\ncontext.length = 1000000\n')
    process = spawn(user, "run", "-p", "long", "--ignore-eos", "--max-tokens", "900000", "hello", *flags, code=READY)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stderr.readline() == b"first token\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == b""
    if flags:
        assert json.loads(out)["finish_reason"] == "cancelled"
        assert json.loads(out)["output_tokens"] > 0
    else:
        assert out.startswith(b"h")
        assert out.endswith(b"\n")
