"""Results in the formats of llama-bench and hyperfine: written from a bundle's runs, and llama-bench's read.

Knows those formats and the raw record. Fields of llama-bench are those that its compare-llama-bench.py knows (2025),
those of hyperfine are of its 1.19. What was not measured is null or empty; switches Fader has not are at llama-bench's defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median, stdev
from typing import Any

import msgspec
from fader_backends.errors import BadValue
from fader_plugins.turn import Numbers

from .evidence import Manifest, Side
from .raw import Measured

LLAMA_BENCH = (
    "build_commit", "build_number", "cpu_info", "gpu_info", "backends", "model_filename", "model_type", "model_size",
    "model_n_params", "n_batch", "n_ubatch", "n_threads", "cpu_mask", "cpu_strict", "poll", "type_k", "type_v",
    "n_gpu_layers", "split_mode", "main_gpu", "no_kv_offload", "flash_attn", "tensor_split", "tensor_buft_overrides",
    "use_mmap", "embeddings", "no_op_offload", "n_prompt", "n_gen", "n_depth", "test_time", "avg_ns", "stddev_ns",
    "avg_ts", "stddev_ts", "samples_ns", "samples_ts",
)  # fmt: skip
"""Fields of one line of `llama-bench -o jsonl`, in its order."""


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    """One result that another program measured. It is no baseline of an experiment: method and machine are its own."""

    source: str
    test: str
    """As llama-bench names it: pp512, tg128, pp512+tg128 @ d1024."""
    model: str
    rate: float
    """Tokens per second, mean."""
    deviation: float | None
    samples: int | None
    about: str
    """Machine and build, as far as they are told."""


class _Row(msgspec.Struct):
    model_type: str
    avg_ts: float
    n_prompt: int
    n_gen: int
    n_depth: int = 0
    stddev_ts: float | None = None
    samples_ts: list[float] | None = None
    build_commit: str = ""
    cpu_info: str = ""
    gpu_info: str = ""
    backends: str = ""
    n_threads: int | None = None
    type_k: str = ""


def read_llama_bench(text: str, name: str) -> list[Foreign]:
    """Return the results in the output of `llama-bench -o json` or `-o jsonl`. Raises BadValue naming the place."""
    if text.lstrip()[:1] == "[":
        return [_foreign(row) for row in _decoded(text, list[_Row], name)]
    rows = [
        _decoded(line, _Row, f"{name}, line {number}")
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    if not rows:
        raise BadValue(f"{name} holds no results.", "", "Make it with: llama-bench -o json")
    return [_foreign(row) for row in rows]


def _decoded(text: str, kind: Any, place: str) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as error:
        step = "Make it with: llama-bench -o json"
        raise BadValue(f"{place} is not what llama-bench writes: {error}.", "", step) from error


def _foreign(row: _Row) -> Foreign:
    parts = [f"{kind}{count}" for kind, count in (("pp", row.n_prompt), ("tg", row.n_gen)) if count]
    threads = f"{row.n_threads} threads" if row.n_threads else ""
    about = (row.gpu_info or row.cpu_info, threads, row.backends, row.type_k and f"KV {row.type_k}", row.build_commit)
    return Foreign(
        source="llama-bench",
        test="+".join(parts) + (f" @ d{row.n_depth}" if row.n_depth else ""),
        model=row.model_type,
        rate=row.avg_ts,
        deviation=row.stddev_ts,
        samples=len(row.samples_ts) if row.samples_ts is not None else None,
        about=", ".join(filter(None, about)),
    )


MARK = "foreign: measured by another program with a method of its own, without tokenising and sampling"


def foreign_rows(found: Sequence[Foreign]) -> list[tuple[str, ...]]:
    """Return rows for a table: source, test, model, tokens per second, samples, about."""
    rows: list[tuple[str, ...]] = []
    for one in found:
        rate = f"{one.rate:.1f}" + ("" if one.deviation is None else f" ± {one.deviation:.1f}")
        samples = "" if one.samples is None else f"n={one.samples}"
        rows.append((f"{one.source} (foreign)", one.test, one.model, f"{rate} tok/s", samples, one.about))
    return rows


# --- what goes out ----------------------------------------------------------------------------------------------------


def llama_bench_lines(manifest: Manifest, measured: Sequence[Measured]) -> str:
    """Return the counted runs as lines of `llama-bench -o jsonl`: prompt and reply of each case, turn and side apart.

    A prompt's line counts the tokens that were evaluated (`n_prompt`) and those that were there (`n_depth`). The side
    is what `build_commit` says, so that compare-llama-bench.py can be told to compare them.
    """
    rows: dict[tuple[Side, int, int, int], list[int]] = {}
    about: dict[Side, Measured] = {}
    for one in _counted(measured):
        numbers, side = one.stats.numbers(), one.run.side
        about.setdefault(side, one)
        for shape, took in _tests(numbers):
            if took > 0:
                rows.setdefault((side, *shape), []).append(took)
    lines = []
    for (side, prompt, reply, depth), samples in rows.items():
        rates = [1e9 * (prompt + reply) / took for took in samples]
        said = {
            **_settings(manifest, about[side], side),
            "n_prompt": prompt,
            "n_gen": reply,
            "n_depth": depth,
            "test_time": manifest.created,
            "avg_ns": round(fmean(samples)),
            "stddev_ns": round(_deviation(samples)),
            "avg_ts": fmean(rates),
            "stddev_ts": _deviation(rates),
            "samples_ns": samples,
            "samples_ts": rates,
        }
        lines.append(msgspec.json.encode({name: said[name] for name in LLAMA_BENCH}).decode())
    return "".join(line + "\n" for line in lines)


def _tests(numbers: Numbers) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Yield (tokens read, tokens written, tokens there before) and nanoseconds: of the prompt, then of the reply."""
    prompt, depth = numbers.processed_tokens, numbers.reused_tokens or 0
    if prompt and (took := numbers.ttft_parts.get("prefill")):
        yield (prompt, 0, depth), round(took * 1e6)
    if numbers.tpot_ms and numbers.output_tokens > 1:
        count = numbers.output_tokens - 1
        yield (0, count, (numbers.prompt_tokens or 0) + 1), round(numbers.tpot_ms * count * 1e6)


def _settings(manifest: Manifest, one: Measured, side: Side) -> dict[str, Any]:
    context, load = one.stats.context or one.stats.request.context, one.stats.request.model.options
    facts, model = one.stats.facts, manifest.model
    flash = str(context.options.get("flash_attention", "auto"))
    return {
        "build_commit": f"{side}-{manifest.id}",
        "build_number": 0,
        "cpu_info": manifest.hardware.cpu,
        "gpu_info": ", ".join(manifest.hardware.gpus),
        "backends": facts.backend if facts else model.backend,
        "model_filename": model.file,
        "model_type": " ".join(filter(None, (model.name, model.quantisation))),
        "model_size": model.size_bytes,
        "model_n_params": model.parameters,
        "n_batch": context.batch,
        "n_ubatch": min(context.batch, one.stats.request.chunk),
        "n_threads": context.threads,
        "cpu_mask": "0x0",
        "cpu_strict": False,
        "poll": 50,
        "type_k": str(context.options.get("type_k", "f16")),
        "type_v": str(context.options.get("type_v", "f16")),
        "n_gpu_layers": load.get("n_gpu_layers", 0),
        "split_mode": "layer",
        "main_gpu": 0,
        "no_kv_offload": False,
        "flash_attn": {"on": 1, "off": 0}.get(flash, -1),
        "tensor_split": "0.00",
        "tensor_buft_overrides": "none",
        "use_mmap": True,
        "embeddings": False,
        "no_op_offload": 0,
    }


def hyperfine(manifest: Manifest, measured: Sequence[Measured]) -> dict[str, Any]:
    """Return the counted runs as `hyperfine --export-json` would: seconds from submit to last token, case by case.

    `user` and `system` are null, for no processor time was measured per run.
    """
    groups: dict[tuple[Side, str, int, str], list[Measured]] = {}
    for one in _counted(measured):
        run = one.run
        groups.setdefault((run.side, run.case, run.turn, run.condition), []).append(one)
    results = []
    for (side, case, turn, condition), runs in groups.items():
        timed = [(one, numbers.e2e_ms / 1000) for one in runs if (numbers := one.stats.numbers()).e2e_ms is not None]
        if not timed:
            continue
        times = [time for _, time in timed]
        profile = manifest.profiles[min(len(manifest.profiles) - 1, "ab".index(side))] if manifest.profiles else side
        results.append(
            {
                "command": f"{manifest.workload}: {case}, turn {turn + 1}, {condition}, side {side} ({profile})",
                "mean": fmean(times),
                "stddev": stdev(times) if len(times) > 1 else None,
                "median": median(times),
                "user": None,
                "system": None,
                "min": min(times),
                "max": max(times),
                "times": times,
                "memory_usage_byte": [one.run.rss_peak_bytes for one, _ in timed],
                "exit_codes": [0] * len(times),
                "parameters": {"side": side, "case": case, "turn": str(turn), "condition": condition},
            }
        )
    return {"results": results}


def _counted(measured: Sequence[Measured]) -> Iterator[Measured]:
    """Yield the runs of the comparison; where nothing was compared, all that count."""
    yield from (one for one in measured if one.run.counted and one.run.phase == "ab")


def _deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0
