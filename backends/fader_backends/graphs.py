"""What a backend says of compiled steps, and the two verbs a plugin needs to check them.

Knows no library. A backend that names the capability `graph` has both verbs of `Graphed`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec


class GraphState(msgspec.Struct, frozen=True, kw_only=True):
    """Compiled steps of the present context, as counted since it was made."""

    mode: str
    """`static`: steps of fixed shapes, not compiled. `compile`: compiled."""
    on: bool
    """Whether steps go that way now."""
    why: str = ""
    """Why they do not."""
    verify: int = 1
    """Most tokens of a step that has a graph."""
    eager_ms: float | None = None
    """A one-token step without its graph, as measured when they were checked."""
    step_ms: float | None = None
    """The same step with it."""
    compile_ms: float = 0.0
    """Time of the calls in which something was compiled, all shapes together."""
    shapes: int = 0
    """Pairs of (tokens of a step, keys it looks at) that were made ready."""
    graphs: int = 0
    """Graphs that came of them; more than `shapes` where the model's code could not be taken in one piece."""
    recompiles: int = 0
    """Shapes that had to be compiled a second time."""
    breaks: int = 0
    """Places at which a graph ended and Python went on."""
    break_at: str = ""
    """The first of these, in the compiler's words."""
    steps: int = 0
    """Steps that were run so."""
    others: int = 0
    """Calls that were not: prompts, several rows together, other lengths."""


@runtime_checkable
class Graphed(Protocol):
    """A backend whose steps can be compiled."""

    def graph(self) -> GraphState | None:
        """Return how it stands; None when the context asks for none."""
        ...

    def use_graph(self, on: bool, why: str = "", times: tuple[float, float] | None = None) -> None:
        """Run steps through the graphs or not, from the next call on.

        `graph` tells why not, and the milliseconds that a step was found to take without and with them.
        """
        ...


def state_of(backend: object) -> GraphState | None:
    """Return how a backend's graphs stand; None where there are none."""
    return backend.graph() if isinstance(backend, Graphed) else None


def left(before: GraphState | None, after: GraphState | None) -> str:
    """Return why a backend left its graphs between two states; empty when it did not."""
    return after.why if before is not None and before.on and after is not None and not after.on else ""
