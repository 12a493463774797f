"""Models of known shapes with random weights, made on the spot: right for speed, no sense in their words.

Shapes are those of the configurations that Meta publishes (Llama 3.2 1B, Llama 3.1 8B); `small` is for a CPU.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from tests.backends import tiny_hf

LLAMA: dict[str, Any] = {
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
    "bos_token_id": 1,
    "eos_token_id": 3,
    "pad_token_id": 0,
}
SHAPES: dict[str, dict[str, Any]] = {
    "small": {
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 4096,
        "tie_word_embeddings": True,
    },
    "1b": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 128_256,
        "tie_word_embeddings": True,
    },
    "8b": {
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128_256,
        "tie_word_embeddings": False,
    },
}
DISK = {"small": 1 << 26, "1b": 3 << 30, "8b": 18 << 30}
"""Bytes that a model's folder takes at the most."""


def write(folder: Path, name: str, device: str, dtype: str) -> Path:
    """Write a model's folder; weights are drawn on the device, which is quicker than on a CPU."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    tiny_hf.tokenizer(folder)
    config = AutoConfig.for_model("llama", **LLAMA, **SHAPES[name])
    torch.manual_seed(1)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    model.save_pretrained(folder)
    del model
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    return folder
