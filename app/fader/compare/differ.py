"""Where two replies part, with both candidates and the cause, and which words differ.

Knows stored answers, nothing that runs.
"""

from __future__ import annotations

import difflib
import math
import re
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from fader_backends.base import SamplerSettings
from fader_plugins.calls import common
from fader_plugins.turn import RunRecord

from .values import Answer

CONTEXT = 40
"""Characters shown before the place."""
LONGEST = 4_000
"""Words above which `words` compares only the beginnings; its time grows with the square."""


class Candidate(msgspec.Struct, frozen=True):
    """What one of two columns chose at the place where they part."""

    text: str
    logprob: float | None
    """Natural log of its probability in its own column; None where the reply had ended."""

    @property
    def probability(self) -> float | None:
        """The probability."""
        return None if self.logprob is None else math.exp(self.logprob)


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """The first token at which two replies differ."""

    at: int
    """Index of the token; 0 is the first of the reply."""
    before: str
    """The text that both have just before it."""
    one: Candidate
    other: Candidate
    cause: str
    """`settings`, `seed`, `model`, `context`, several of them joined by " and ", or `near-tie`."""

    def __str__(self) -> str:
        """Return one line for people."""
        return f"parts at token {self.at}: {_said(self.one)} against {_said(self.other)}; cause: {self.cause}" + (
            f" ({self.gap})" if self.cause == "near-tie" else ""
        )

    @property
    def gap(self) -> str:
        """How far apart the two candidates' log-probabilities are."""
        if self.one.logprob is None or self.other.logprob is None:
            return "rounding moved the model's choice to end"
        return f"rounding; {abs(self.one.logprob - self.other.logprob):.3f} nats apart"


def _said(candidate: Candidate) -> str:
    if candidate.probability is None:
        return "the end"
    return f"{candidate.text!r} {candidate.probability:.1%}"


def divergence(one: Answer, other: Answer) -> Divergence | None:
    """Return where two replies part; None when neither has a token that the other lacks or has otherwise.

    A reply that was stopped or ran out of its length is no difference where it is the other's beginning.
    """
    at = common(one.ids, other.ids)
    if at == len(one.ids) == len(other.ids):
        return None
    for shorter in (one, other):
        if at == len(shorter.ids) and shorter.record.numbers.finish_reason != "end":
            return None
    return Divergence(
        at=at,
        before="".join(one.pieces[:at])[-CONTEXT:],
        one=_candidate(one, at),
        other=_candidate(other, at),
        cause=cause(one.record, other.record),
    )


def _candidate(answer: Answer, at: int) -> Candidate:
    if at >= len(answer.ids):
        return Candidate("", None)
    return Candidate(answer.pieces[at], answer.logprobs[at])


def cause(one: RunRecord, other: RunRecord) -> str:
    """Return what differs between two turns that could have changed their words; `near-tie` when nothing does."""
    a, b = one.request, other.request
    causes = []
    if a.model != b.model:
        causes.append("model")
    if a.messages and b.messages and a.messages != b.messages:
        causes.append("prompt")
    if _computing(one) != _computing(other):
        causes.append("context")
    if _bare(a.sampler) != _bare(b.sampler) or one.adjusted != other.adjusted:
        causes.append("settings")
    if a.sampler.seed != b.sampler.seed and not (_greedy(a.sampler) and _greedy(b.sampler)):
        causes.append("seed")
    return " and ".join(causes) or "near-tie"


def _bare(sampler: SamplerSettings) -> SamplerSettings:
    return msgspec.structs.replace(sampler, seed=0, row=0)


def _greedy(sampler: SamplerSettings) -> bool:
    return sampler.temperature <= 0 and not sampler.xtc_probability and not sampler.dynatemp_range


def _computing(record: RunRecord) -> dict[str, object]:
    """What of the context changes more than rounding: the number types of keys and values."""
    options = record.request.context.options
    return {name: options[name] for name in ("type_k", "type_v") if name in options}


Kind: TypeAlias = Literal["same", "gone", "new"]


class Piece(NamedTuple):
    """Words that follow one another: in both texts, only in the first, or only in the second."""

    kind: Kind
    text: str


def words(one: str, other: str) -> list[Piece]:
    """Return two texts aligned word by word; spaces and line ends stay with the word before them, which has at least one."""
    left, right = (re.findall(r"\s+|\S+\s*", text) for text in (one, other))
    rest = Piece("gone", "".join(left[LONGEST:])), Piece("new", "".join(right[LONGEST:]))
    left, right = left[:LONGEST], right[:LONGEST]
    matcher = difflib.SequenceMatcher(
        None, [word.strip() for word in left], [word.strip() for word in right], autojunk=False
    )
    pieces = []
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", "".join(right[c:d])))
            continue
        gone = "".join(left[a:b])
        apart = " " if gone and not gone[-1].isspace() else ""
        pieces += [Piece("gone", gone + apart), Piece("new", "".join(right[c:d]))]
    return [piece for piece in (*pieces, *rest) if piece.text]
