"""Sampler settings that are lists or tables, as one line of text and back.

Knows the notation, not what the samplers do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fader_backends import gbnf
from fader_backends.base import FORBIDDEN, ORDER
from fader_backends.errors import BadValue, UnknownName


def order_of(text: str) -> tuple[str, ...]:
    """Read `penalties, top_k, temperature`; semicolons do as well. Raises UnknownName."""
    names = tuple(name.strip() for name in text.replace(";", ",").split(",") if name.strip())
    for name in names:
        if name not in ORDER:
            raise UnknownName("sampler", name, ORDER, "order")
    return names


def bias_of(text: str) -> dict[int, float]:
    """Read `123=-1.5, 45=-inf`. Raises BadValue."""
    bias = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        token, _, value = pair.partition("=")
        try:
            bias[int(token)] = max(float(value), FORBIDDEN)
        except ValueError:
            raise BadValue(
                f"logit_bias {pair!r} is not TOKEN=BIAS.", "", "Write token ids and numbers: 123=-1.5, 45=-inf"
            ) from None
        if math.isnan(bias[int(token)]):
            raise BadValue(f"logit_bias {pair!r} is not a number.", "", "Use a number; -inf forbids the token.")
    return bias


def breakers_of(text: str) -> tuple[str, ...]:
    """Read a JSON list of texts, as other programs' presets hold them. Raises BadValue."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise BadValue(f"dry_breakers {text!r} is not a list of texts.", "", 'Write JSON: ["\\n", ":"]')
    return tuple(found)


def constraints_of(grammar: str, json_schema: str) -> dict[str, str]:
    """Return both as texts; one that begins with @ names a file. Raises BadValue for what cannot be meant."""
    texts = {"grammar": text_of("grammar", grammar), "json_schema": text_of("json_schema", json_schema)}
    if all(texts.values()):
        raise BadValue("A grammar and a JSON schema are set.", "A reply can follow one of them.", "Clear one.")
    if texts["grammar"]:
        gbnf.parse(texts["grammar"])
    if texts["json_schema"]:
        check_schema(texts["json_schema"])
    return texts


def check_schema(text: str) -> None:
    """Raise BadValue for a text that is not a JSON object; whether it is a schema is the backend's to say."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadValue(f"json_schema is not JSON: {error}.", "", "Correct it, or clear it.") from None
    if not isinstance(schema, dict):
        raise BadValue("json_schema is not a JSON object.", "", 'Write for example {"type": "object"}.')


def text_of(name: str, value: str) -> str:
    """Return a setting's text, read from its file when it begins with @. Raises BadValue."""
    if not value.startswith("@"):
        return value if value.strip() else ""
    path = Path(value[1:]).expanduser()
    try:
        return path.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadValue(f"{name}: {path} cannot be read: {why}.", "", "Check the path.") from error


def texts_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with lists and tables as the text that reads back to them."""
    shown = dict(fields)
    if "order" in shown:
        shown["order"] = ", ".join(shown["order"])
    if "logit_bias" in shown:
        shown["logit_bias"] = ", ".join(f"{token}={bias:g}" for token, bias in shown["logit_bias"].items())
    if "dry_breakers" in shown:
        shown["dry_breakers"] = json.dumps(list(shown["dry_breakers"]), ensure_ascii=False)
    return shown
