"""Owns how GGUF names and lays out what transformers wants: for each family its configuration keys and tensors.

Knows values, no files. From llama.cpp's converter (`convert_hf_to_gguf.py` and `gguf-py/gguf/tensor_mapping.py`), read backwards.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from torch import Tensor

from fader_backends.errors import ModelUnsupported
from fader_backends.gguf import GgufFile

_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_GEMMA = {
    **_LAYER,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
ROTARY = "rope_freqs.weight"
"""Divisors of the rotary frequencies (Llama 3.1 and later): no weight of the model, but part of its computation."""


class Family(NamedTuple):
    """What is special about a family."""

    kind: str
    """transformers' `model_type`."""
    layer: dict[str, str] = _LAYER
    permuted: bool = False
    """Whether the rows of q and k stand in the order of Meta's rotary embedding: pairs side by side."""
    shifted: bool = False
    """Whether norms are kept with 1 added."""


FAMILIES = {
    "llama": Family("llama", permuted=True),
    "qwen2": Family("qwen2"),
    "qwen3": Family("qwen3"),
    "gemma2": Family("gemma2", _GEMMA, shifted=True),
    "gemma3": Family("gemma3_text", _GEMMA, shifted=True),
}


def family_of(file: GgufFile) -> Family:
    """Return a file's family. Raises ModelUnsupported."""
    if file.architecture not in FAMILIES:
        raise ModelUnsupported(
            f"GGUF files of {file.architecture} cannot be run on torch ({file.name}).",
            f"Those of {', '.join(FAMILIES)} can.",
            "Run it on llama.cpp, or choose the model's Hugging Face folder.",
        )
    if int(file.number("expert_count")):
        raise ModelUnsupported(
            f"{file.name} is a mixture of experts, which torch cannot take from a GGUF file.",
            "",
            "Run it on llama.cpp, or choose the model's Hugging Face folder.",
        )
    scaling = file.metadata.get(f"{file.architecture}.rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise ModelUnsupported(
            f"{file.name} stretches its positions in a way torch cannot take from a GGUF file ({scaling}).",
            "",
            "Run it on llama.cpp, or choose the model's Hugging Face folder.",
        )
    return FAMILIES[file.architecture]


def configuration(file: GgufFile, vocabulary: int, names: set[str], end: int | None) -> dict[str, Any]:
    """Return what `config.json` must say. `vocabulary`: rows of the embedding; `names`: the file's tensors."""
    family, meta, arch = family_of(file), file.metadata, file.architecture
    heads, width = file.number("attention.head_count"), file.number("embedding_length")
    head_dim = file.number("attention.key_length") or file.number("rope.dimension_count") or width // heads
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": float(meta.get(f"{arch}.rope.freq_base", 10000.0))}  # type: ignore[arg-type]
    if meta.get(f"{arch}.rope.scaling.type") == "linear":
        rope |= {"rope_type": "linear", "factor": float(meta.get(f"{arch}.rope.scaling.factor", 1.0))}  # type: ignore[arg-type]
    found: dict[str, Any] = {
        "model_type": family.kind,
        "hidden_size": width,
        "intermediate_size": file.number("feed_forward_length"),
        "num_hidden_layers": file.number("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.number("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": meta.get(f"{arch}.attention.layer_norm_rms_epsilon", 1e-6),
        "max_position_embeddings": file.context_length,
        "vocab_size": vocabulary,
        "tie_word_embeddings": "output.weight" not in names,
        "rope_parameters": rope,
        "eos_token_id": end,
    }
    if arch.startswith("gemma"):
        found["sliding_window"] = file.number("attention.sliding_window")
        found["query_pre_attn_scalar"] = head_dim
    if arch == "gemma2":
        found["final_logit_softcapping"] = meta.get("gemma2.final_logit_softcapping", 30.0)
        found["attn_logit_softcapping"] = meta.get("gemma2.attn_logit_softcapping", 50.0)
    if arch == "gemma3":  # every sixth layer sees everything, the others turn by a base of their own
        found["layer_types"] = [
            "full_attention" if (layer + 1) % 6 == 0 else "sliding_attention"
            for layer in range(found["num_hidden_layers"])
        ]
        found["rope_parameters"] = {
            "full_attention": rope,
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        }
    return found


def name_of(family: Family, name: str) -> str | None:
    """Return transformers' name of a tensor; None when the family has none of that name."""
    if found := re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name):
        layer, part, leaf = found.groups()
        return f"model.layers.{layer}.{family.layer[part]}.{leaf}" if part in family.layer else None
    part, _, leaf = name.partition(".")
    return f"{_TOP[part]}.{leaf}" if part in _TOP else None


def laid_out(family: Family, file: GgufFile, name: str, values: Tensor) -> Tensor:
    """Return a tensor as transformers lays it out."""
    if family.shifted and name.endswith("norm.weight"):
        return values - 1
    part = name.split(".")[2] if name.startswith("blk.") else ""
    if family.permuted and part in ("attn_q", "attn_k"):
        heads = file.number("attention.head_count")
        if part == "attn_k":
            heads = file.number("attention.head_count_kv", heads)
        rest = values.shape[1:]
        return values.reshape(heads, values.shape[0] // heads // 2, 2, *rest).swapaxes(1, 2).reshape(values.shape)
    return values
