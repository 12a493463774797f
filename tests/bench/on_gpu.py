"""Steps on a CUDA device, on models of known shapes with random weights in bfloat16."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.harness import Missing, Options, Outcome

LOAD = {"device": "cuda", "dtype": "bfloat16"}
NEEDED = "It needs a CUDA device: "


@contextmanager
def _model(name: str) -> Iterator[Path]:
    """Give a model's folder. Raises Missing where there is no CUDA device."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        raise Missing('torch is not installed: pip install "fader[torch]".')
    import torch

    if not torch.cuda.is_available():
        raise Missing(NEEDED + ("torch was built without CUDA." if torch.version.cuda is None else "torch sees none."))
    from tests.gpu import shapes

    with tempfile.TemporaryDirectory(prefix="fader-bench-", ignore_cleanup_errors=True) as home:
        yield shapes.write(Path(home) / name, name, "cuda", "bfloat16")


def compiled_tpot(options: Options) -> Outcome:
    """Compare compiled steps with transformers' generate."""
    with _model("1b") as folder:
        from tests.gpu.measure import PROMPT, TOKENS, ours, theirs

        a, b = [], []
        for _ in range(options.pairs(3, 1)):
            b.append(theirs(folder, "cuda", "bfloat16")["tpot_ms"])
            a.append(ours(folder, "compiled", LOAD)["tpot_ms"])
    return Outcome(
        a,
        b,
        f"Llama 3.2 1B's shape, random weights, bfloat16; {TOKENS} tokens after {PROMPT}, greedy, in one process; the first "
        "generate warms up, and what is compiled or recorded is done before tokens count",
    )


def bandwidth(options: Options) -> Outcome:
    """Compare a token's time with that of reading what it needs at the device's copy bandwidth."""
    with _model("8b") as folder:
        from tests.gpu.measure import PROMPT, TOKENS, copy_bytes_per_s, ours

        a, b, notes = [], [], []
        for _ in range(options.pairs(3, 1)):
            found, copy = ours(folder, "compiled", LOAD, tune=True), copy_bytes_per_s("cuda")
            a.append(found["tpot_ms"])
            b.append(found["step_bytes"] / copy * 1e3)
            notes.append(f"{b[-1] / a[-1]:.2f} of {copy / 1e12:.2f} TB/s")
    return Outcome(
        a,
        b,
        f"Llama 3.1 8B's shape, random weights, bfloat16, kernels tuned; {TOKENS} tokens after {PROMPT}; read: all weights but "
        "the embedding, and keys and values; copy: 4 GiB on the device, bytes read and written, best of ten",
        notes,
    )
