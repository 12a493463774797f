"""What reading any preset needs: values checked against our settings, the order translated, notes on what is lost.

Knows our sampler's settings, and no other program's.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
from fader_backends import gbnf
from fader_backends.base import BREAKERS, ORDER
from fader_backends.errors import BadValue
from fader_plugins.sampler import NEUTRAL, Sampler
from fader_plugins.sampler_text import check_schema

UNKNOWN = "Fader has no such setting"
_HINTS = get_type_hints(Sampler, include_extras=True)
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


class Note(NamedTuple):
    """Something that was not carried over as it stood."""

    name: str
    """As the preset calls it."""
    value: Any
    why: str

    def __str__(self) -> str:
        """Return it as a line."""
        return f"{self.name} = {_SHORT.repr(self.value)}: {self.why}"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A preset in our words."""

    program: str
    title: str = ""
    """Its own name; empty where the format has none."""
    sampler: dict[str, Any]
    """Settings of the sampler plugin that differ from `neutral`."""
    profile: dict[str, Any] = {}
    """Keys of the profile itself: system, stop, max_tokens, context."""
    notes: tuple[Note, ...] = ()


class Draft:
    """A preset while it is read: `left` are the names nobody has looked at yet."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.left = dict(data)
        self.sampler: dict[str, Any] = {}
        self.profile: dict[str, Any] = {}
        self.notes: list[Note] = []

    def note(self, name: str, value: Any, why: str) -> None:
        """Tell that something was not carried over."""
        self.notes.append(Note(name, value, why))

    def number(self, name: str) -> float | None:
        """Take a number out; None where there is none, with a note if there is something else."""
        value = self.left.pop(name, None)
        if value is None:
            return None
        try:
            found = float("nan") if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = float("nan")
        if not math.isfinite(found):
            self.note(name, value, "not a number")
            return None
        return found

    def flag(self, name: str) -> bool:
        """Take a yes or no out; missing is no."""
        value = self.left.pop(name, None)
        return value is True or value == 1 or (isinstance(value, str) and value.lower() == "true")

    def carry(self, names: Mapping[str, str]) -> None:
        """Take numbers over that mean the same in both programs: their name -> ours."""
        for theirs, ours in names.items():
            value = self.number(theirs)
            if value is not None:
                self.put(ours, value, theirs)

    def put(self, ours: str, value: float, theirs: str) -> None:
        """Set one of our sampler's numbers, unless it is `neutral`'s or out of range."""
        whole = int in (_HINTS[ours], *_parts(_HINTS[ours]))
        given = round(value) if whole and value == round(value) else value
        try:
            msgspec.convert(given, _HINTS[ours])
        except msgspec.ValidationError as error:
            reason = str(error).split(" - at `")[0].replace("`", "")
            self.note(theirs, given, f"{ours} cannot be that: {reason[:1].lower()}{reason[1:]}")
            return
        self.sampler[ours] = given
        if given == NEUTRAL.get(ours):
            del self.sampler[ours]

    def window(self, ours: str, theirs: str, size: float | None, needed: bool) -> None:
        """Set how many tokens a penalty looks at; in these programs 0 and less are all. `needed`: the penalty is on."""
        if size is not None and size > 0:
            self.put(ours, size, theirs)
        elif size is not None and needed:
            self.put(ours, -1, theirs)

    def dynamic(self, low: float, high: float, theirs: str) -> None:
        """Set a temperature that moves between two ends."""
        self.put("temperature", (low + high) / 2, theirs)
        self.put("dynatemp_range", abs(high - low) / 2, theirs)

    def breakers(self, name: str) -> None:
        """Take DRY's breakers over: a list, or its JSON with or without the brackets."""
        value = self.left.pop(name, None)
        if value is None or value == "":
            return
        found = value
        if isinstance(value, str):
            try:
                found = json.loads(value if value.lstrip().startswith("[") else f"[{value}]")
            except ValueError:
                found = None
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            self.note(name, value, "not a list of texts")
        elif tuple(found) != BREAKERS:
            self.sampler["dry_breakers"] = json.dumps(found, ensure_ascii=False)

    def grammar(self, value: Any, theirs: str) -> None:
        """Set the grammar, unless it is blank; one that does not parse is noted with its line and column."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return
        if isinstance(value, str):
            self._constrain("grammar", value, value, theirs)
        else:
            self.note(theirs, value, "not a text")

    def schema(self, value: Any, theirs: str) -> None:
        """Set the JSON schema, an object or its text, unless it is empty."""
        if not value or (isinstance(value, str) and not value.strip()):
            return
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        self._constrain("json_schema", text, value, theirs)

    def _constrain(self, ours: str, text: str, value: Any, theirs: str) -> None:
        """Set what the reply must follow, as it stands: `@` names no file here. The first one that parses is taken."""
        if "grammar" in self.sampler or "json_schema" in self.sampler:
            self.note(theirs, value, "a reply can follow one grammar or JSON schema, and another one was carried over")
            return
        try:
            gbnf.parse(text) if ours == "grammar" else check_schema(text)
        except BadValue as error:
            self.note(theirs, value, f"{error.title[:1].lower()}{error.title[1:]}".rstrip("."))
        else:
            self.sampler[ours] = text

    def order(self, order: Sequence[str]) -> None:
        """Set the order of the samplers, in our names."""
        if tuple(order) != ORDER:
            self.sampler["order"] = ", ".join(order)

    def drop(self, off: Mapping[str, Sequence[Any]], why: str = "Fader has no such sampler") -> None:
        """Take out what we cannot do; a note for each that does not stand at one of its off values."""
        for name, values in off.items():
            if name in self.left:
                value = self.left.pop(name)
                if value is not None and value not in values:
                    self.note(name, value, why)

    def ignore(self, names: Iterable[str]) -> None:
        """Take out what has no meaning here."""
        for name in names:
            self.left.pop(name, None)

    def done(self, program: str, title: str = "") -> Imported:
        """Return the preset; what nobody looked at is noted, unless it is empty or off."""
        for name, value in self.left.items():
            if value is not None and value is not False and value not in ("", [], {}):
                self.note(name, value, UNKNOWN)
        return Imported(
            program=program, title=title, sampler=self.sampler, profile=self.profile, notes=tuple(self.notes)
        )


def penalised(draft: Draft) -> bool:
    """Whether one of the penalties is on."""
    return any(name in draft.sampler for name in ("repeat_penalty", "frequency_penalty", "presence_penalty"))


def translated(names: Iterable[str], ours: Mapping[str, str | None]) -> tuple[tuple[str, ...], list[str]]:
    """Return an order in our names, each once, and the names nobody knows. None: it acts, but not in the order."""
    order: list[str] = []
    unknown: list[str] = []
    for name in names:
        if name not in ours:
            unknown.append(name)
            continue
        mine = ours[name]
        if mine is not None and mine not in order:
            order.append(mine)
    return tuple(order), unknown


def temperature_last(order: Sequence[str]) -> tuple[str, ...]:
    """Return the order with the temperature moved to its end."""
    rest = tuple(name for name in order if name != "temperature")
    return (*rest, "temperature") if len(rest) < len(order) else rest


def _parts(hint: Any) -> list[Any]:
    """Return the types a hint is made of: `Annotated[int, …] | None` holds int."""
    found: list[Any] = []
    for part in get_args(hint):
        found += [part, *_parts(part)]
    return found
