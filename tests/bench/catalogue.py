"""Every benchmark by name: what is compared, in which unit, and what must hold.

Runs nothing.
"""

from __future__ import annotations

from tests.bench.harness import Bench

ALL = (
    Bench(
        "decode-overhead",
        "TPOT of `fader run`, 256 tokens",
        "bare llama_decode loop with the native sampler chain",
        "ms",
        1.03,
        "ratio",
        "decode:decode_overhead",
    ),
    Bench(
        "tui-decode-overhead",
        "TPOT in the app, drawing at 120x40, 256 tokens",
        "bare llama_decode loop with the native sampler chain",
        "ms",
        1.10,
        "ratio",
        "decode:tui_decode_overhead",
    ),
    Bench("ui-cpu", "CPU of the app while 50 tokens/s stream", "", "% of a core", 10.0, "a", "screen:ui_cpu"),
    Bench(
        "prefill-overhead",
        "TTFT, cold, 1,000-token prompt",
        "bare prefill of the same ids",
        "ms",
        1.05,
        "ratio",
        "prefill:prefill_overhead",
    ),
    Bench(
        "prefix-turn2",
        "TTFT of turn 2 after a 1,000-token turn, prefix_cache on",
        "the same, prefix_cache off",
        "ms",
        0.10,
        "ratio",
        "prefill:prefix_turn2",
    ),
    Bench(
        "first-frame",
        "spawn to first full frame of `fader`",
        "the same of an empty Textual app with Header, Markdown, Input, Footer",
        "ms",
        1.4,
        "ratio",
        "screen:first_frame",
    ),
    Bench("idle-cpu", "CPU of the idle app and its engine", "", "% of a core", 1.0, "a", "screen:idle_cpu"),
    Bench(
        "one-shot",
        'whole `fader run "What is the capital of France?"`',
        "the same question to `llm -m SmolLM2`",
        "s",
        0.6,
        "ratio",
        "one_shot:one_shot",
    ),
    Bench(
        "chain-cost",
        "sampler chain per token, 150,000 entries, default profile",
        "",
        "ms",
        0.5,
        "a",
        "chain_cost:chain_cost",
    ),
    Bench(
        "lookup-copy",
        "decode time of a copied text, 300 tokens, prompt_lookup on",
        "the same, prompt_lookup off",
        "ms",
        0.67,
        "ratio",
        "lookup_copy:lookup_copy",
    ),
    Bench(
        "lookup-prose",
        "decode time of free prose at temperature 1, prompt_lookup on",
        "the same, prompt_lookup off",
        "ms",
        1.03,
        "ratio",
        "lookup_copy:lookup_prose",
    ),
    Bench("kv-bytes", "live KV buffers, K and V q8_0", "the same, f16", "MiB", 0.55, "ratio", "kv:kv_bytes"),
)
BENCHES = {bench.name: bench for bench in ALL}
