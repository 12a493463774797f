"""Owns how backend options are checked: known names, values of the right type and range, and the number of cores.

Knows no backend.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import psutil

from fader_backends.base import Scalar
from fader_backends.errors import BadValue, UnknownName


def cores() -> int:
    """Return the number of physical cores: threads beyond them slow decoding down."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def check_names(options: Mapping[str, Scalar], known: tuple[str, ...], backend: str) -> None:
    """Raise UnknownName for the first option that is not known."""
    for name in options:
        if name not in known:
            raise UnknownName(f"{backend} option", name, known)


def choice(options: Mapping[str, Scalar], name: str, default: str, known: Mapping[str, object]) -> str:
    """Return a named value. Raises BadValue."""
    value = options.get(name, default)
    if not isinstance(value, str) or value not in known:
        raise BadValue(f"{name} = {value!r} is none of {', '.join(known)}.")
    return value


def integer(options: Mapping[str, Scalar], name: str, default: int) -> int:
    """Return a whole number. Raises BadValue."""
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadValue(f"{name} = {value!r} is not a whole number.")
    return value


def boolean(options: Mapping[str, Scalar], name: str, default: bool) -> bool:
    """Return a truth value. Raises BadValue."""
    value = options.get(name, default)
    if not isinstance(value, bool):
        raise BadValue(f"{name} = {value!r} is neither true nor false.")
    return value


def within(name: str, value: int, low: int, high: int) -> None:
    """Raise BadValue when `value` is outside its range."""
    if not low <= value <= high:
        raise BadValue(f"{name} = {value} is outside {low} to {high}.")
