"""Writes Hugging Face model folders of a few hundred kilobytes with random weights, one for each kind of architecture."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the device check runs where it is not installed
    import pytest

SPECIAL = ("<|pad|>", "<|bos|>", "<|im_start|>", "<|im_end|>", "<think>")
SHAPE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 1024,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 3,
    "pad_token_id": 0,
}
SLIDING = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 1}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {},
    "gemma3_text": {**SLIDING, "query_pre_attn_scalar": 32},
    "qwen3_moe": EXPERTS,
    "gemma2": {**SLIDING, "query_pre_attn_scalar": 32, "attn_logit_softcapping": 20.0},
    "gpt_oss": {**SLIDING, "num_local_experts": 4, "num_experts_per_tok": 2},
}
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def write(folder: Path, kind: str = "llama", template: str = TEMPLATE, seed: int = 1, **changes: Any) -> Path:
    """Write weights, configuration and tokenizer; `changes` are keys of the configuration."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    size = tokenizer(folder, template)
    config = AutoConfig.for_model(kind, **{**SHAPE, **KINDS[kind], "vocab_size": size, **changes})
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    return folder


def tokenizer(folder: Path, template: str = TEMPLATE) -> int:
    """Write a byte-level tokenizer with a few merges and control tokens; return its size."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "t"), ("Ġt", "he"), ("i", "n")]
    texts = [*SPECIAL, *alphabet, *("".join(pair) for pair in merges)]
    made = Tokenizer(models.BPE(vocab={text: place for place, text in enumerate(texts)}, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL[:4]])
    made.add_tokens([AddedToken(SPECIAL[4], special=False)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<|bos|>", eos_token="<|im_end|>", pad_token="<|pad|>"
    )
    if template:
        fast.chat_template = template
    fast.save_pretrained(folder)
    return len(texts)


def written_once(temporary: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from kind to a tiny model's folder, written when first asked for; nobody may change it."""
    return functools.cache(lambda kind: write(temporary.mktemp(kind) / kind, kind))
