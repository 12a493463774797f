"""Text completion presets of SillyTavern (`TextGen Settings/*.json`, and the older `KoboldAI Settings/*.json`).

Knows that program's names, and which of its four orders is meant for which server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .common import Draft, Imported, penalised, temperature_last, translated
from .textgen import ORDER as TEXTGEN
from .textgen import priority

PROGRAM = "SillyTavern"
NAMES = {
    "temp": "temperature",
    "dynatemp_exponent": "dynatemp_exponent",
    "top_p": "top_p",
    "top_k": "top_k",
    "typical_p": "typical_p",
    "typical": "typical_p",
    "min_p": "min_p",
    "nsigma": "top_n_sigma",
    "xtc_threshold": "xtc_threshold",
    "xtc_probability": "xtc_probability",
    "rep_pen": "repeat_penalty",
    "freq_pen": "frequency_penalty",
    "presence_pen": "presence_penalty",
    "dry_multiplier": "dry_multiplier",
    "dry_base": "dry_base",
    "dry_allowed_length": "dry_allowed_length",
    "mirostat_mode": "mirostat",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
    "min_keep": "min_keep",
    "adaptive_decay": "adaptive_decay",
}
OWN = ("temp", "rep_pen", "rep_pen_range", "freq_pen", "presence_pen", "sampler_order", "samplers", "nsigma")
"""Names that no other program's presets have."""
OFF: dict[str, list[Any]] = {
    "tfs": [1],
    "top_a": [0],
    "epsilon_cutoff": [0],
    "eta_cutoff": [0],
    "no_repeat_ngram_size": [0],
    "penalty_alpha": [0],
    "num_beams": [1],
    "min_length": [0],
    "encoder_rep_pen": [1],
    "rep_pen_slope": [0, 1],
    "rep_pen_decay": [0],
    "skew": [0],
    "smoothing_factor": [0],
    "guidance_scale": [1],
}
ONLY_BESIDE = {
    "smoothing_curve": "smoothing_factor",
    "length_penalty": "num_beams",
    "early_stopping": "num_beams",
    "negative_prompt": "guidance_scale",
    "rep_pen_slope": "rep_pen",
}
"""These say something only where the other one is on."""
ELSEWHERE = {
    "banned_tokens": "texts and token ids depend on the model; use logit_bias with this model's ids",
    "logit_bias": "texts depend on the model's tokens; use logit_bias with this model's ids",
    "ban_eos_token": "replies end where the model ends them",
    "ignore_eos_token": "replies end where the model ends them",
    "max_length": "the context's length belongs to the model: set context.length",
}
NO_MEANING = (
    *("add_bos_token", "skip_special_tokens", "spaces_between_special_tokens", "streaming", "streaming_url", "type"),
    *("preset", "rep_pen_size", "speculative_ngram", "include_reasoning", "max_tokens_second", "n", "single_line"),
    *("use_default_badwordsids", "bypass_status_check", "extensions", "truncation_length"),
)
LLAMA: dict[str, str | None] = {
    **{name: name for name in ("penalties", "dry", "top_n_sigma", "top_k", "top_p", "min_p", "xtc", "temperature")},
    "typ_p": "typical_p",
    "typical_p": "typical_p",
    "adaptive_p": None,
}
KOBOLD = ("top_k", "", "top_p", "", "typical_p", "temperature", "penalties")
"""What the numbers in `sampler_order` mean; "" are top-a and tail free sampling."""


def read(data: Mapping[str, Any]) -> Imported | None:
    """Return what a preset says; None when it is none of this program."""
    if not any(name in data for name in OWN):
        return None
    draft = Draft(data)
    greedy = "do_sample" in draft.left and not draft.flag("do_sample")
    dynamic = draft.flag("dynatemp")
    low, high = draft.number("min_temp"), draft.number("max_temp")
    for name in [name for name, other in ONLY_BESIDE.items() if draft.left.get(other) in (None, *OFF.get(other, [1]))]:
        draft.left.pop(name, None)
    for name in ("top_k", "nsigma", "seed"):
        value = draft.left.get(name)
        if isinstance(value, int | float) and value < 0:
            draft.left.pop(name)  # off; any seed
    draft.carry({**NAMES, "seed": "seed"})
    if dynamic:
        draft.dynamic(low or 0.0, 2.0 if high is None else high, "min_temp, max_temp")
    if greedy:
        draft.put("temperature", 0.0, "do_sample")
    target = draft.number("adaptive_target")
    if target is not None and target > 0:
        draft.put("adaptive_target", target, "adaptive_target")
    draft.window("penalty_window", "rep_pen_range", draft.number("rep_pen_range") or 0, penalised(draft))
    dry = "dry_multiplier" in draft.sampler
    draft.window("dry_window", "dry_penalty_last_n", draft.number("dry_penalty_last_n") or 0, dry)
    draft.breakers("dry_sequence_breakers")
    most = draft.number("genamt")
    if most is not None and most >= 1:
        draft.profile["max_tokens"] = int(most)
    draft.schema(draft.left.pop("json_schema", None), "json_schema")  # goes before the grammar there, too
    for name in ("grammar_string", "grammar"):
        draft.grammar(draft.left.pop(name, None), name)
    _order(draft)
    draft.drop(OFF)
    for name, why in ELSEWHERE.items():
        draft.drop({name: ["", [], {}, False]}, why)
    draft.ignore(NO_MEANING)
    return draft.done(PROGRAM)


def _order(draft: Draft) -> None:
    """Take the order for llama.cpp over; without it the one for text-generation-webui, else KoboldCpp's."""
    last = draft.left.pop("temperature_last", None)
    lists = {
        name: draft.left.pop(name)
        for name in ("samplers", "sampler_priority", "sampler_order", "samplers_priorities")
        if draft.left.get(name)
    }
    if not lists:
        if last is False:  # as the servers did that knew only this switch
            draft.order(translated(TEXTGEN, TEXTGEN)[0])
        return
    taken = next(iter(lists))
    value = lists.pop(taken)
    if taken == "sampler_priority":
        order = priority(draft, taken, value)
        draft.order(temperature_last(order) if last else order)
    elif not isinstance(value, list):
        draft.note(taken, value, "not a list of samplers")
    elif taken == "samplers":
        order, unknown = translated([str(one) for one in value], LLAMA)
        if unknown:
            draft.note(taken, ", ".join(unknown), "left out of the order: Fader has no such sampler")
        draft.order(order)
    elif taken == "sampler_order":
        draft.order(_kobold(value))
    else:
        draft.note(taken, value, "the order of another server (Aphrodite)")
    if lists:
        draft.note(", ".join(lists), "…", f"orders for other servers; Fader took {taken!r}")


def _kobold(numbers: list[Any]) -> tuple[str, ...]:
    """Return KoboldCpp's order: DRY and top-n-sigma come before what has a number, min-p goes with top-p, XTC last."""
    order = ["dry", "top_n_sigma"]
    for number in numbers:
        name = KOBOLD[number] if isinstance(number, int) and 0 <= number < len(KOBOLD) else ""
        if name and name not in order:
            order += [name, "min_p"] if name == "top_p" else [name]
    return (*order, "xtc")
