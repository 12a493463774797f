"""Presets of text-generation-webui (`user_data/presets/*.yaml`): what differs from its own neutral preset.

Knows that program's names, defaults and order of samplers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .common import Draft, Imported, penalised, temperature_last, translated

PROGRAM = "text-generation-webui"
NAMES = {
    "temperature": "temperature",
    "dynatemp_exponent": "dynatemp_exponent",
    "top_p": "top_p",
    "min_p": "min_p",
    "top_k": "top_k",
    "typical_p": "typical_p",
    "top_n_sigma": "top_n_sigma",
    "xtc_threshold": "xtc_threshold",
    "xtc_probability": "xtc_probability",
    "dry_multiplier": "dry_multiplier",
    "dry_base": "dry_base",
    "dry_allowed_length": "dry_allowed_length",
    "repetition_penalty": "repeat_penalty",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "mirostat_mode": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
    "adaptive_decay": "adaptive_decay",
}
OFF: dict[str, list[Any]] = {
    "smoothing_factor": [0],
    "tfs": [1],
    "top_a": [0],
    "epsilon_cutoff": [0],
    "eta_cutoff": [0],
    "encoder_repetition_penalty": [1],
    "no_repeat_ngram_size": [0],
    "penalty_alpha": [0],
    "guidance_scale": [1],
    "num_beams": [1],
    "min_length": [0],
}
ONLY_BESIDE = {"smoothing_curve": "smoothing_factor", "length_penalty": "num_beams", "early_stopping": "num_beams"}
"""These say something only where the other one is on."""
OTHERS = (
    "dynamic_temperature",
    "dynatemp_low",
    "dynatemp_high",
    "repetition_penalty_range",
    "dry_sequence_breakers",
    "sampler_priority",
    "temperature_last",
    "do_sample",
    "adaptive_target",
    "grammar_string",
)
RANGE = 1024
"""Its default for how far back penalties and DRY look."""
ORDER: dict[str, str | None] = {
    "repetition_penalty": "penalties",
    "presence_penalty": "penalties",
    "frequency_penalty": "penalties",
    "dry": "dry",
    "top_n_sigma": "top_n_sigma",
    "temperature": "temperature",
    "dynamic_temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "typical_p": "typical_p",
    "min_p": "min_p",
    "adaptive_p": None,
    "mirostat": None,
    "xtc": "xtc",
}
"""In the order that program has when a preset names none."""


def read(data: Mapping[str, Any]) -> Imported | None:
    """Return what a preset says; None when it is none of this program."""
    known = {*NAMES, *OFF, *ONLY_BESIDE, *OTHERS} & set(data)
    if not known or len(known) * 2 < len(data):
        return None
    draft = Draft(data)
    greedy = "do_sample" in draft.left and not draft.flag("do_sample")
    dynamic = draft.flag("dynamic_temperature")
    low, high = draft.number("dynatemp_low"), draft.number("dynatemp_high")
    draft.carry(NAMES)
    if dynamic:
        draft.dynamic(1.0 if low is None else low, 1.0 if high is None else high, "dynatemp_low, dynatemp_high")
    if greedy:
        draft.put("temperature", 0.0, "do_sample")
    target = draft.number("adaptive_target")
    if target is not None and target > 0:
        draft.put("adaptive_target", target, "adaptive_target")
    ranges(draft)
    draft.breakers("dry_sequence_breakers")
    draft.grammar(draft.left.pop("grammar_string", None), "grammar_string")
    named = draft.left.pop("sampler_priority", None)
    order, _ = translated(ORDER, ORDER)
    if named:
        order = priority(draft, "sampler_priority", named)
    draft.order(temperature_last(order) if draft.flag("temperature_last") else order)
    for name, other in ONLY_BESIDE.items():
        if draft.left.get(other) in (None, *OFF[other]):
            draft.left.pop(name, None)
    draft.drop(OFF)
    return draft.done(PROGRAM)


def ranges(draft: Draft) -> None:
    """Take the one range over that penalties and DRY share there."""
    given = draft.number("repetition_penalty_range")
    for ours, on in (("penalty_window", penalised(draft)), ("dry_window", "dry_multiplier" in draft.sampler)):
        draft.window(ours, "repetition_penalty_range", RANGE if given is None and on else given, on)


def priority(draft: Draft, name: str, named: Any) -> tuple[str, ...]:
    """Return an order in our names: from a list, or from a text with a name in each line."""
    names = named.replace(",", "\n").split() if isinstance(named, str) else named
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        draft.note(name, named, "not a list of samplers")
        return translated(ORDER, ORDER)[0]
    order, unknown = translated([one.strip() for one in names], ORDER)
    if unknown:
        draft.note(name, ", ".join(unknown), "left out of the order: Fader has no such sampler")
    return order
