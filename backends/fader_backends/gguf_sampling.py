"""Owns what a GGUF file recommends for choosing tokens, in our names.

Knows headers that were read already.
"""

from __future__ import annotations

from fader_backends.gguf import GgufFile, Value

_SAMPLING = {
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "temp": "temperature",
    "penalty_last_n": "penalty_window",
    "penalty_repeat": "repeat_penalty",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}


def recommended_sampling(file: GgufFile) -> dict[str, Value]:
    """Return the sampler settings the file recommends, by the names of `SamplerSettings`; often none."""
    found = {ours: file.metadata.get(f"general.sampling.{theirs}") for theirs, ours in _SAMPLING.items()}
    return {name: value for name, value in found.items() if value is not None}
