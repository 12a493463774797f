"""Taking folder names out of what a bundle holds: where a model or a file lies is nobody's business, and changes no number.

Knows values, not what they are for: a text counts as a place where something lies there, or where it ends as a model file does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from fader_plugins.turn import GenerationRequest

MODEL_FILES = (".gguf", ".safetensors")


def placeless(value: Any) -> Any:
    """Return plain data with the last name in place of every path of this machine."""
    match value:
        case str():
            at = value[:1] if value.startswith("@") else ""  # a setting that is read from a file
            return at + last_name(value) if _is_place(value.removeprefix("@")) else value
        case Mapping():
            return {key: placeless(one) for key, one in value.items()}
        case list() | tuple():
            return type(value)(placeless(one) for one in value)
    return value


def of_request(request: GenerationRequest) -> GenerationRequest:
    """Return a request without the folders of its model and of what its settings name."""
    model, context = request.model, request.context
    return msgspec.structs.replace(
        request,
        model=msgspec.structs.replace(model, model=last_name(model.model), options=placeless(model.options)),
        context=msgspec.structs.replace(context, options=placeless(context.options)),
        plugins={
            name: msgspec.structs.replace(state, settings=placeless(state.settings))
            for name, state in request.plugins.items()
        },
    )


def last_name(path: str) -> str:
    """Return what a path ends in, whichever system wrote it."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _is_place(text: str) -> bool:
    if ("/" not in text and "\\" not in text) or last_name(text) in ("", ".", "..", "~"):
        return False
    if text.lower().endswith(MODEL_FILES):
        return True
    try:
        return Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):  # too long for a path, a NUL, no home: no place
        return False
