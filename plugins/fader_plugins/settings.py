"""What a plugin's settings are made of: typed fields with a help line, bounds and a cost.

Knows no plugin and no request.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

Cost: TypeAlias = Literal["live", "turn", "context", "load"]
"""When a changed setting acts: at the next token, next turn, in a new context (prefill again), after a reload."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of a plugin's settings. Fields are `Annotated[type, setting(...)] = default`; a `Literal` makes a choice."""

    def effective(self) -> dict[str, Any]:
        """Return every field as it will act: override it where None stands for something. Forms show it greyed."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def check(self) -> None:
        """Raise BadValue for what the types admit and nobody can mean. Called whenever a setting is changed by hand."""


S = TypeVar("S", bound=Settings)


def setting(
    help: str,  # noqa: A002 - reads as documentation where it is used
    *,
    cost: Cost = "turn",
    ge: float | None = None,
    le: float | None = None,
    step: float | None = None,
) -> msgspec.Meta:
    """Describe one settings field: its help line, when a change acts, its bounds and the step of its form control."""
    return msgspec.Meta(description=help, ge=ge, le=le, extra={"cost": cost, "step": step})
