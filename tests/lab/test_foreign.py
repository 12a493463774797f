from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from fader.lab.evidence import Hardware, ModelNote
from fader.lab.foreign import LLAMA_BENCH, foreign_rows, hyperfine, llama_bench_lines, read_llama_bench
from fader.switchboard import Switchboard
from fader_backends.errors import BadValue

from tests.lab.made import manifest, measured

Board = Callable[..., Switchboard]
ROW: dict[str, Any] = {
    "build_commit": "8cf427ff", "build_number": 5163, "cpu_info": "AMD Ryzen 7 7800X3D", "gpu_info": "", "backends": "CPU",
    "model_filename": "models/llama.gguf", "model_type": "llama 8B Q4_0", "model_size": 4661211136,
    "model_n_params": 8030261248, "n_batch": 2048, "n_ubatch": 512, "n_threads": 8, "cpu_mask": "0x0",
    "cpu_strict": False, "poll": 50, "type_k": "f16", "type_v": "f16", "n_gpu_layers": 0, "split_mode": "layer",
    "main_gpu": 0, "no_kv_offload": False, "flash_attn": 0, "tensor_split": "0.00", "load_mode": "mmap",
    "embeddings": False, "n_prompt": 512, "n_gen": 0, "n_depth": 1024, "test_time": "2025-04-24T11:57:09Z",
    "avg_ns": 70285660, "stddev_ns": 982040, "avg_ts": 72.5, "stddev_ts": 1.25,
    "samples_ns": [1, 2, 3], "samples_ts": [71.0, 72.5, 74.0],
}  # fmt: skip


@pytest.mark.parametrize("text", [json.dumps([ROW], indent=2), json.dumps(ROW) + "\n\n"])
def test_results_of_llama_bench_are_read_and_marked(text: str) -> None:
    found = read_llama_bench(text, "x.json")
    about = "AMD Ryzen 7 7800X3D, 8 threads, CPU, KV f16, 8cf427ff"
    row = ("llama-bench (foreign)", "pp512 @ d1024", "llama 8B Q4_0", "72.5 ± 1.2 tok/s", "n=3", about)
    assert foreign_rows(found) == [row]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "x.json holds no results."),
        ("[{}]", "x.json is not what llama-bench writes: Object missing required field `model_type` - at `$[0]`."),
        (json.dumps(ROW) + "\nnonsense", "x.json, line 2 is not what llama-bench writes:"),
    ],
)
def test_what_llama_bench_did_not_write_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadValue) as caught:
        read_llama_bench(text, "x.json")
    assert str(caught.value).startswith(said)


def test_lines_of_llama_bench(board: Board) -> None:
    note = manifest(model=ModelNote(name="smol", quantisation="Q4_1", file="smol.gguf"), hardware=Hardware(cpu="Chip"))
    runs = [
        measured(board(), 0, prefill=50),
        measured(board(), 1, prefill=100, round=1),
        measured(board(), 2, reused=60, side="b"),
        measured(board(), 3, phase="aa"),
    ]
    lines = [json.loads(line) for line in llama_bench_lines(note, runs).splitlines()]
    assert [list(line) for line in lines] == [list(LLAMA_BENCH)] * 4
    shapes = [(line["build_commit"][0], line["n_prompt"], line["n_gen"], line["n_depth"]) for line in lines]
    assert shapes == [("a", 100, 0, 0), ("a", 0, 8, 101), ("b", 40, 0, 60), ("b", 0, 8, 101)]
    prompt = lines[0]
    assert (prompt["samples_ns"], prompt["avg_ns"]) == ([50_000_000, 100_000_000], 75_000_000)
    assert (prompt["samples_ts"], prompt["avg_ts"]) == ([2000.0, 1000.0], 1500.0)
    assert prompt["stddev_ts"] == pytest.approx(707.106781)
    assert lines[1]["avg_ts"] == pytest.approx(50.0)
    assert read_llama_bench(llama_bench_lines(note, runs), "x")[0].test == "pp100"


def test_seconds_as_hyperfine_writes_them(board: Board) -> None:
    runs = [measured(board(), number, prefill=49 + 10 * number) for number in range(2)]
    results = hyperfine(manifest(profiles=("default",)), runs)["results"]
    assert len(results) == 1
    one = results[0]
    assert list(one) == (
        [
            "command",
            "mean",
            "stddev",
            "median",
            "user",
            "system",
            "min",
            "max",
            "times",
            "memory_usage_byte",
            "exit_codes",
            "parameters",
        ]
    )
    assert one["times"] == pytest.approx([0.21, 0.22])
    assert (one["mean"], one["median"], one["min"], one["max"]) == pytest.approx((0.215, 0.215, 0.21, 0.22))
    assert one["user"] is one["system"] is None
    assert one["exit_codes"] == [0, 0]
    assert one["command"] == "made: one, turn 1, cold, side a (default)"
