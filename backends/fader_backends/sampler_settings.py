"""How one token is chosen from scores, as values.

Knows no formulas: those are `fader_backends.sampling`'s.
"""

from __future__ import annotations

import msgspec

ORDER = ("penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature")
"""Names of the samplers that can be ordered, in llama.cpp's default order."""
FORBIDDEN = -1e30
"""A bias that leaves no chance; finite, so that every record can hold it."""
BREAKERS = ("\n", ":", '"', "*")
"""Where DRY starts anew, unless said otherwise."""


class SamplerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one token is chosen from scores. Every default is that sampler's off value, so the default is greedy.

    Logit bias comes first and the draw last; between them the samplers named in `order`, in that order.
    """

    order: tuple[str, ...] = ORDER
    """Some or all of `ORDER`; one that is not named does not act."""
    logit_bias: dict[int, float] = {}
    """Token id -> what is added to its score; `FORBIDDEN` forbids it."""
    temperature: float = 0.0
    """0 keeps only the best candidate."""
    dynatemp_range: float = 0.0
    """Temperature moves this far down and up with the entropy; 0 is off."""
    dynatemp_exponent: float = 1.0
    top_k: int = 0
    """Keep the k best; 0 is off."""
    top_p: float = 1.0
    """Keep the smallest set whose probability reaches p; 1 is off."""
    min_p: float = 0.0
    """Drop candidates below this share of the best one's probability; 0 is off."""
    typical_p: float = 1.0
    """Keep those of most typical surprise up to this mass; 1 is off."""
    top_n_sigma: float = 0.0
    """Drop scores this many standard deviations below the best; 0 is off."""
    xtc_probability: float = 0.0
    """How often the top choices are excluded; 0 is off."""
    xtc_threshold: float = 0.1
    """What counts as a top choice; above 0.5 is off."""
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_window: int = 64
    """How many of the last tokens (prompt included) the penalties look at; 0 is off, -1 is all."""
    dry_multiplier: float = 0.0
    """Strength of DRY; 0 is off."""
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    """Repetitions shorter than this are free."""
    dry_window: int = 64
    """How many of the last tokens DRY looks at; 0 is off, -1 is all."""
    dry_breakers: tuple[str, ...] = BREAKERS
    mirostat: int = 0
    """1 or 2: keep the surprise near tau; then only logit bias and temperature act besides. 0 is off."""
    mirostat_tau: float = 5.0
    """Surprise aimed at, in bits."""
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    """Probability the chosen tokens should have on average; below 0 is off."""
    adaptive_decay: float = 0.9
    min_keep: int = 0
    """Truncating samplers leave at least this many."""
    grammar: str = ""
    """GBNF that the reply must follow; empty is none. Only with backends that are `constraint.Constraining`."""
    json_schema: str = ""
    """JSON schema that the reply must follow, as text; not together with a grammar."""
    seed: int = 0
    """0 to 2**64-1. With `row` and the position it fixes every random number of the reply."""
    row: int = 0
