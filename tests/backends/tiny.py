"""Writes GGUF models of a few kilobytes with random weights: what the embedded model is not (SentencePiece, recurrent)."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

Value = str | int | float | bool | list[str] | list[int] | list[float]
EMBEDDING = 32

PIECES = [" ", *"</s>hieol wr\n", "</", "</s", "he", "ll", "hell", "hello", " hello", "wor", "ld"]
LLAMA_SHAPES = {
    "attn_norm.weight": (EMBEDDING,),
    "attn_q.weight": (EMBEDDING, EMBEDDING),
    "attn_k.weight": (EMBEDDING, EMBEDDING),
    "attn_v.weight": (EMBEDDING, EMBEDDING),
    "attn_output.weight": (EMBEDDING, EMBEDDING),
    "ffn_norm.weight": (EMBEDDING,),
    "ffn_gate.weight": (EMBEDDING, 64),
    "ffn_up.weight": (EMBEDDING, 64),
    "ffn_down.weight": (64, EMBEDDING),
}
QWEN2_SHAPES = {**LLAMA_SHAPES, **{f"attn_{part}.bias": (EMBEDDING,) for part in "qkv"}}
QWEN3_SHAPES = {**LLAMA_SHAPES, "attn_q_norm.weight": (EMBEDDING,), "attn_k_norm.weight": (EMBEDDING,)}
GEMMA3_SHAPES = {**QWEN3_SHAPES, "post_attention_norm.weight": (EMBEDDING,), "post_ffw_norm.weight": (EMBEDDING,)}
MAMBA_SHAPES = {
    "attn_norm.weight": (EMBEDDING,),
    "ssm_in.weight": (EMBEDDING, 128),
    "ssm_conv1d.weight": (4, 64),
    "ssm_conv1d.bias": (64,),
    "ssm_x.weight": (64, 4 + 2 * 16),
    "ssm_dt.weight": (4, 64),
    "ssm_dt.bias": (64,),
    "ssm_a": (16, 64),
    "ssm_d": (64,),
    "ssm_out.weight": (64, EMBEDDING),
}

SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "llama": LLAMA_SHAPES,
    "qwen2": QWEN2_SHAPES,
    "qwen3": QWEN3_SHAPES,
    "gemma3": GEMMA3_SHAPES,
    "mamba": MAMBA_SHAPES,
}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def encoded(value: Value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        kind, parts = _array(value)
        return struct.pack("<IIQ", 9, kind, len(value)) + parts
    return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)


def _array(value: list[str] | list[int] | list[float]) -> tuple[int, bytes]:
    if isinstance(value[0], str):
        return 8, b"".join(text(str(item)) for item in value)
    kind, code = (6, "f") if isinstance(value[0], float) else (5, "i")
    return kind, struct.pack(f"<{len(value)}{code}", *value)


def sentencepiece() -> dict[str, Value]:
    """A vocabulary in which the text of `</s>` can be merged together, and text gets a space in front."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [2, 3, 3, *[6] * 256]
    pieces = [piece.replace(" ", "▁") for piece in dict.fromkeys(PIECES)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens + pieces,
        "tokenizer.ggml.scores": [0.0] * len(tokens) + [-float(index) for index in range(len(pieces))],
        "tokenizer.ggml.token_type": kinds + [1] * len(pieces),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
    }


def write(path: Path, architecture: str, template: str = "", **more: Value) -> Path:
    """Write two layers of one of `SHAPES` with the vocabulary above; other metadata is added as given."""
    vocabulary = sentencepiece()
    size = len(vocabulary["tokenizer.ggml.tokens"])  # type: ignore[arg-type]
    keys: dict[str, Value] = {
        "context_length": 512,
        "embedding_length": EMBEDDING,
        "block_count": 2,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    if architecture == "mamba":
        keys |= {"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 16, "ssm.time_step_rank": 4}
    else:
        keys |= {"attention.head_count": 1, "feed_forward_length": 64, "rope.dimension_count": EMBEDDING}
    if architecture == "gemma3":
        keys |= {"attention.key_length": EMBEDDING, "attention.value_length": EMBEDDING, "attention.sliding_window": 8}
    metadata: dict[str, Value] = {"general.architecture": architecture, "general.name": f"Tiny {architecture}", **more}
    metadata |= {f"{architecture}.{key}": value for key, value in keys.items()} | vocabulary
    if template:
        metadata["tokenizer.chat_template"] = template
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (EMBEDDING, size), "output_norm.weight": (EMBEDDING,)}
    for layer in range(2):
        for name, shape in SHAPES[architecture].items():
            shapes[f"blk.{layer}.{name}"] = shape
    path.write_bytes(_file(metadata, shapes))
    return path


def _file(metadata: dict[str, Value], shapes: dict[str, tuple[int, ...]]) -> bytes:
    random = np.random.default_rng(1)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata))
    head += b"".join(text(key) + encoded(value) for key, value in metadata.items())
    data = b""
    for name, shape in shapes.items():
        values: npt.NDArray[np.float64] = random.normal(0, 0.3, int(np.prod(shape)))
        if name.endswith("ssm_a"):
            values = -np.abs(values)
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += values.astype("<f4").tobytes()
        data += bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + data
