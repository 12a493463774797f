"""The one sampler chain: from a row of scores to a token, in numpy.

Knows nothing of models or turns. Formulas are those of llama.cpp's samplers of the same names; the draw differs on purpose.
Its random numbers depend only on (seed, row, position, stream) and it is an inverse CDF over candidates in token-id
order, so nothing that merely reorders or drops candidates shifts the stream.

    numbers.py     random numbers and the draw
    candidates.py  what is left to choose from
    scores.py      what changes scores: logit bias, penalties, DRY, temperature
    cuts.py        what drops candidates: top-n-sigma, top-k, typical, top-p, min-p, XTC
    targets.py     what steers the surprise: mirostat 1 and 2, adaptive-p
    trace.py       who removed which, for those who ask
    limits.py      which settings are valid
    chain.py       all of them in the order that is asked for
"""

from .candidates import Candidates, Floats, Tokens
from .chain import Chain, Sampler, Vocabulary, chain
from .limits import check
from .numbers import draw, uniform

__all__ = ["Candidates", "Chain", "Floats", "Sampler", "Tokens", "Vocabulary", "chain", "check", "draw", "uniform"]
