"""What one token costs a backend in operators and kernels, as data, and the verb by which a backend tells it.

Knows no library. A backend that can be looked into has the verb of `Inspected`.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from .base import Session

TEXT = "The keeper of the light counted the boats that came in before the storm, and wrote their names down. "
PROMPT, STEPS = 32, 16
"""Tokens before the steps that are looked at, and how many steps."""
CLASSES = {
    "attention": r"attention|flash|fmha|softmax",
    "matmul": r"mm$|mm_|linear|matmul|gemm|gemv|cutlass|xmma|nvjet",
    "norm": r"norm|rsqrt|mean|pow",
    "elementwise": r"add|mul|sub|div|silu|gelu|relu|sigmoid|neg|cos|sin|exp$|where|masked|tanh|^l[et]$|^g[et]$|bitwise|"
    r"elementwise|triton|compiled|fused",
    "copy": r"copy|^_?to(_|$)|cat|clone|contiguous|index|slice|view|reshape|transpose|^t$|expand|strided|empty|memcpy|"
    r"memset|zero|fill|select|split|permute|squeeze|arange|resize|alias|detach|embedding|gather|item|scalar",
}
"""Class -> pattern in an operator's or kernel's name; the first that is found counts. What a compiler fused into one kernel is
counted by the first class in its name."""
OTHER = "other"


class OperatorClass(msgspec.Struct, frozen=True, kw_only=True):
    """Operators of one kind, per token."""

    name: str
    calls: float
    ms: float
    """Their time, on the device where there is one, and with all that they call; the profiler's own cost is in it."""


class Operators(msgspec.Struct, frozen=True, kw_only=True):
    """One-token steps, looked into. None: this engine does not tell."""

    label: str
    tokens: int
    """Steps that the figures are means of."""
    step_ms: float
    """Median time of a step, nobody looking."""
    calls: float | None = None
    """Operators called per token; what an operator calls itself is not counted again."""
    kernels: float | None = None
    """Kernels started on a device per token."""
    classes: tuple[OperatorClass, ...] = ()
    facts: dict[str, str] = {}
    """What else there is to know, by name."""


@runtime_checkable
class Inspected(Protocol):
    """A backend that can be looked into."""

    def operators(self, session: Session) -> list[Operators]:
        """Run steps in an empty session and tell what they were made of; without and with graphs where there are any.

        Raises what evaluating may raise.
        """
        ...


def class_of(name: str) -> str:
    """Return the class of an operator or kernel by its name."""
    base = name.rpartition("aten::")[2].lower()
    return next((kind for kind, pattern in CLASSES.items() if re.search(pattern, base)), OTHER)


def steps(session: Session, tokens: Sequence[int], count: int) -> float:
    """Make `count` one-token steps, then take them back; return their median milliseconds."""
    length = len(session.tokens)
    took = []
    for place in range(count):
        begin = time.perf_counter()
        session.extend([tokens[place % len(tokens)]])
        took.append((time.perf_counter() - begin) * 1000)
    session.rewind(length)
    return statistics.median(took)
