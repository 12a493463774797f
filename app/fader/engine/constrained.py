"""Whether a turn's reply must follow a grammar, and what holds it to it.

Knows sampler settings and what a backend can do; samples nothing.
"""

from __future__ import annotations

from fader_backends.base import Backend, SamplerSettings
from fader_backends.constraint import Constraining, Constraint
from fader_backends.errors import NotSupported


def constraint_of(backend: Backend, sampler: SamplerSettings) -> Constraint | None:
    """Return the constraint of one reply, None without one. Raises NotSupported, BadValue."""
    if not (sampler.grammar or sampler.json_schema):
        return None
    if not isinstance(backend, Constraining):
        name = "grammar" if sampler.grammar else "json_schema"
        raise NotSupported(
            f"The {backend.facts.backend} backend cannot follow a {name.replace('_', ' ').replace('json', 'JSON')}.",
            "",
            f"Clear sampler.{name}, or choose a backend that can, such as llama.cpp.",
        )
    return backend.constrain(sampler.grammar, sampler.json_schema)
