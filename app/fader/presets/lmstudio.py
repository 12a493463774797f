"""Presets of LM Studio 0.3 and later (`~/.lmstudio/config-presets/*.preset.json`): lists of fields.

Knows that program's keys. Its samplers run in llama.cpp's order, which is ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .common import Draft, Imported

PROGRAM = "LM Studio"
NAMES = {
    "temperature": "temperature",
    "topKSampling": "top_k",
    "topPSampling": "top_p",
    "minPSampling": "min_p",
    "repeatPenalty": "repeat_penalty",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "xtcProbability": "xtc_probability",
    "xtcThreshold": "xtc_threshold",
    "seed": "seed",
}
PREDICTION = "llm.prediction."
LOAD = "llm.load."
ENGINES = ("llama.", "mlx.", "onnx.")
WHY = {
    "promptTemplate": "Fader takes the template from the model; `template` in a profile names another",
    "tools": "Fader calls no tools",
    "speculativeDecoding.draftModel": "a model file of LM Studio; name one in Fader's draft plugin",
}


def read(data: Mapping[str, Any]) -> Imported | None:
    """Return what a preset says; None when it is none of this program."""
    if not any(isinstance(data.get(part), Mapping) and "fields" in data[part] for part in ("operation", "load")):
        return None
    found: dict[str, Any] = {}
    labels: dict[str, str] = {}
    draft = Draft({})
    for part in ("operation", "load"):
        for key, value in _fields(data.get(part), draft):
            name = _short(key)
            labels[name] = key
            checked = value.get("checked") if isinstance(value, Mapping) else None
            if checked is False:
                continue  # the box is not ticked: the sampler is off
            found[name] = value.get("value") if isinstance(value, Mapping) and checked is True else value
    draft.left = found
    if isinstance(found.get("seed"), int | float) and found["seed"] < 0:
        found.pop("seed")
    if isinstance(found.get("topKSampling"), int | float) and found["topKSampling"] < 0:
        found["topKSampling"] = 0
    draft.carry(NAMES)
    _profile(draft)
    _structured(draft)
    draft.drop({"contextOverflowPolicy": [], "tools": [{"type": "none"}]}, "Fader has no such setting")
    for name in [name for name in found if name in WHY]:
        draft.note(name, found.pop(name), WHY[name])
    for name in [name for name in found if name.startswith("load.")]:
        draft.note(name, found.pop(name), "belongs to the model and the machine: set it in [load] or [context]")
    title = data.get("name")
    imported = draft.done(PROGRAM, title if isinstance(title, str) else "")
    notes = tuple(note._replace(name=labels.get(note.name, note.name)) for note in imported.notes)
    return msgspec.structs.replace(imported, notes=notes)


def _fields(part: Any, draft: Draft) -> Iterator[tuple[str, Any]]:
    fields = part.get("fields") if isinstance(part, Mapping) else None
    for field in fields if isinstance(fields, list) else []:
        if isinstance(field, Mapping) and isinstance(field.get("key"), str):
            yield field["key"], field.get("value")
        else:
            draft.note("fields", field, "not a key with a value")


def _short(key: str) -> str:
    """Return a key without what stands before its own name."""
    if key.startswith(LOAD):
        return {"llm.load.contextLength": "contextLength", "llm.load.seed": "seed"}.get(key, key.removeprefix("llm."))
    name = key.removeprefix(PREDICTION)
    for engine in ENGINES:
        name = name.removeprefix(engine)
    return name


def _structured(draft: Draft) -> None:
    """Take over what the reply must follow: JSON, JSON of a schema, or a grammar."""
    value = draft.left.pop("structured", None)
    match value:
        case None | {"type": "none"}:
            pass
        case {"type": "json"}:
            draft.schema(value.get("jsonSchema") or {"type": "object"}, "structured")
        case {"type": "gbnf"}:
            draft.grammar(value.get("gbnfGrammar"), "structured")
        case _:
            draft.note("structured", value, "neither JSON nor a grammar")


def _profile(draft: Draft) -> None:
    """Take over what is not the sampler's."""
    left, context = draft.left, {}
    for theirs, ours in (("contextLength", "length"), ("cpuThreads", "threads")):
        number = draft.number(theirs)
        if number is not None and number >= 1:
            context[ours] = int(number)
    if context:
        draft.profile["context"] = context
    most = draft.number("maxPredictedTokens")
    if most is not None and most >= 1:
        draft.profile["max_tokens"] = int(most)
    system, stop = left.pop("systemPrompt", None), left.pop("stopStrings", None)
    if isinstance(system, str) and system.strip():
        draft.profile["system"] = system
    elif system:
        draft.note("systemPrompt", system, "not a text")
    if isinstance(stop, list) and all(isinstance(one, str) for one in stop):
        kept = [one for one in stop if one]
        draft.profile |= {"stop": kept} if kept else {}
    elif stop:
        draft.note("stopStrings", stop, "not a list of texts")
