"""What a settings type says about its form: one `Field` for each setting, and how keys change its value.

Knows msgspec types, not widgets. The value of a field is always plain data.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from fader_plugins.turn import Cost, Settings
from msgspec import inspect

Kind = Literal["switch", "whole", "number", "choice", "text"]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One setting as a form control."""

    name: str
    kind: Kind
    help: str = ""
    cost: Cost = "turn"
    low: float | None = None
    high: float | None = None
    step: float | None = None
    choices: tuple[Any, ...] = ()
    optional: bool = False
    """Whether None may be given, by an empty entry."""
    default: Any = None

    def shown(self, value: Any) -> str:
        """Return a value as the form shows it."""
        if value is None:
            return "—"
        if isinstance(value, bool):
            return "on" if value else "off"
        if isinstance(value, float):
            return f"{value:.4g}"
        return str(value)

    def share(self, value: Any) -> float | None:
        """Return where a number stands between its bounds, 0 to 1; None when it has no scale."""
        if self.low is None or self.high is None or not isinstance(value, int | float) or self.high <= self.low:
            return None
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def stepped(self, value: Any, direction: int) -> Any:
        """Return the value one step up or down; the same one where there is no step."""
        if self.kind == "switch":
            return not value
        if self.kind == "choice":
            options = (None, *self.choices) if self.optional else self.choices
            place = options.index(value) if value in options else 0
            return options[(place + direction) % len(options)]
        if self.kind == "text":
            return value
        if value is None:
            return self.at(0.0) if self.low is not None else 0
        moved = value + direction * (self.step or (1 if self.kind == "whole" else self._tenth()))
        return self._bounded(moved)

    def at(self, share: float) -> Any:
        """Return the value at a place between the bounds, on a whole step."""
        low, high = self.low or 0.0, self.high if self.high is not None else 1.0
        step = self.step or (1 if self.kind == "whole" else self._tenth() / 10)
        return self._bounded(low + round(share * (high - low) / step) * step)

    def _tenth(self) -> float:
        return (self.high - self.low) / 20 if self.low is not None and self.high is not None else 0.1

    def _bounded(self, value: float) -> float | int:
        value = value if self.low is None else max(value, self.low)
        value = value if self.high is None else min(value, self.high)
        # Steps of 0.1 must not collect rounding errors.
        return round(value) if self.kind == "whole" else round(value, 6)


def fields(kind: type[Settings]) -> list[Field]:
    """Return the form of a settings type, in the order it declares."""
    told = inspect.type_info(kind)
    if not isinstance(told, inspect.StructType):
        return []
    defaults = msgspec.to_builtins(kind())
    return [_field(field.name, field.type, defaults.get(field.name)) for field in told.fields]


def _field(name: str, kind: inspect.Type, default: Any) -> Field:
    help_text, cost, step, optional = "", "turn", None, False
    while isinstance(kind, inspect.Metadata | inspect.UnionType):
        if isinstance(kind, inspect.Metadata):
            help_text = (kind.extra_json_schema or {}).get("description", help_text)
            cost = (kind.extra or {}).get("cost", cost)
            step = (kind.extra or {}).get("step", step)
            kind = kind.type
        else:
            real = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
            optional = optional or len(real) < len(kind.types)
            kind = real[0] if len(real) == 1 else inspect.StrType()
    sort, low, high, choices = _sort(kind)
    return msgspec.convert(
        {
            "name": name,
            "kind": sort,
            "help": help_text,
            "cost": cost,
            "low": low,
            "high": high,
            "step": step,
            "choices": choices,
            "optional": optional,
            "default": default,
        },
        Field,
    )


def _sort(kind: inspect.Type) -> tuple[Kind, float | None, float | None, tuple[Any, ...]]:
    match kind:
        case inspect.BoolType():
            return "switch", None, None, ()
        case inspect.IntType(ge=low, le=high):
            return "whole", low, high, ()
        case inspect.FloatType(ge=low, le=high):
            return "number", low, high, ()
        case inspect.LiteralType(values=values):
            return "choice", None, None, tuple(values)
        case inspect.EnumType(cls=choices):
            return "choice", None, None, tuple(choice.value for choice in choices)
    return "text", None, None, ()
