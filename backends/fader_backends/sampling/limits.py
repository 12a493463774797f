"""Which sampler settings are valid, and how to say so. Knows no formulas."""

from __future__ import annotations

from ..base import FORBIDDEN, ORDER, SamplerSettings
from ..errors import BadValue, UnknownName

RANGES: tuple[tuple[str, float, float], ...] = (
    ("temperature", 0.0, 100.0),
    ("dynatemp_range", 0.0, 100.0),
    ("dynatemp_exponent", 0.0, 100.0),
    ("top_k", 0, 2**31),
    ("top_p", 0.0, 1.0),
    ("min_p", 0.0, 1.0),
    ("typical_p", 0.0, 1.0),
    ("top_n_sigma", 0.0, 100.0),
    ("xtc_probability", 0.0, 1.0),
    ("xtc_threshold", 0.0, 1.0),
    ("repeat_penalty", 0.01, 100.0),
    ("frequency_penalty", -100.0, 100.0),
    ("presence_penalty", -100.0, 100.0),
    ("penalty_window", -1, 2**31),
    ("dry_multiplier", 0.0, 100.0),
    ("dry_base", 1.0, 100.0),
    ("dry_allowed_length", 0, 2**31),
    ("dry_window", -1, 2**31),
    ("mirostat", 0, 2),
    ("mirostat_tau", 0.0, 100.0),
    ("mirostat_eta", 0.0, 1.0),
    ("adaptive_target", -1.0, 1.0),
    ("adaptive_decay", 0.0, 0.99),
    ("min_keep", 0, 2**31),
    ("seed", 0, 2**64 - 1),
    ("row", 0, 2**32),
)


def check(settings: SamplerSettings) -> None:
    """Raise BadValue for settings outside their range (NaN is outside every range), UnknownName for the order's names."""
    for name, low, high in RANGES:
        value = getattr(settings, name)
        if not low <= value <= high:
            raise BadValue(f"{name} = {value} is out of range.", "", f"Use a value from {low:g} to {high:g}.")
    seen: set[str] = set()
    for name in settings.order:
        if name not in ORDER:
            raise UnknownName("sampler", name, ORDER, "order")
        if name in seen:
            raise BadValue(f"The sampler order names {name!r} twice.", "", "Name each sampler once.")
        seen.add(name)
    for token, bias in settings.logit_bias.items():
        if token < 0:
            raise BadValue(f"logit_bias names token {token}, which cannot be.", "", "Use token ids of the model.")
        if not FORBIDDEN <= bias <= -FORBIDDEN:
            raise BadValue(f"logit_bias of token {token} is {bias}.", "", f"Use a number; {FORBIDDEN:g} forbids it.")
