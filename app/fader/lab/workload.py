"""Workloads: TOML files that say what is asked, in which order, and what is provoked on the way.

Knows files and prompts; runs nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import fader_profiles
import msgspec
from fader_backends.base import Role
from fader_backends.errors import BadValue, UnknownName
from msgspec import Meta

from ..paths import Paths
from ..profiles import reason
from ..toml_source import line_of, read_toml
from .evidence import Condition, State

ROUND = "{round}"
"""In a text: the number of the repetition, so that nothing of it was evaluated before."""
FIRST_ROUND = 101
"""Three digits each, so that prompts of all rounds are of one length."""
WARM_UP = "warm-up"


class Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message of a conversation that had begun."""

    role: Role
    content: str


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One conversation. Each round holds it once per side."""

    name: str
    system: str = ""
    before: list[Said] = []
    """What was said before the first turn, replies included."""
    turns: Annotated[list[str], Meta(min_length=1)]
    """What the person says, one after the other; the replies are the model's own."""
    again: bool = False
    """Ask the last one once more in its place, as a person does who wants another reply: its prompt is known then."""
    output: Annotated[int, Meta(ge=1)] | None = None
    """Tokens of each reply; the workload's where none are named."""
    fault: Literal["", "stop", "kill", "memory"] = ""
    """What happens in the first turn: a stop, the engine killed, a context that no memory has room for."""
    after: Annotated[int, Meta(ge=0)] = 4
    """Tokens of the first reply after which the fault or the second prompt comes."""
    beside: str = ""
    """Another conversation's prompt, sent while the first reply streams."""
    expect: State = "ok"
    """How the first turn ends."""

    @property
    def asks(self) -> int:
        """How many turns there are, the repeated one included."""
        return len(self.turns) + self.again


class WarmUp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another conversation of the same shape, which is not counted."""

    system: str = ""
    turns: Annotated[list[str], Meta(min_length=1)]


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked."""

    name: str = ""
    summary: str = ""
    output: Annotated[int, Meta(ge=1)] = 64
    """Tokens of each reply; end tokens are ignored, so that all are as long."""
    rounds: Annotated[int, Meta(ge=1)] = 10
    """Repetitions on each side."""
    settings: dict[str, str | bool | int | float] = {}
    """What both sides need, such as `kv_cache.length = 1024`."""
    gates: list[str] = []
    """Limits that a result has to keep, such as `ttft_p95 <= 300 ms`."""
    warm_up: WarmUp
    case: Annotated[list[Case], Meta(min_length=1)]

    def condition(self, case: Case, turn: int) -> Condition:
        """Return whether something of a turn's prompt was evaluated before it, by the order of things.

        Later turns of a conversation, repeated ones, and conversations below a system prompt that an earlier one had are
        warm; the turn after a killed engine or another context is cold again.
        """
        if turn == 1 and case.fault in ("kill", "memory"):
            return "cold"
        earlier = self.case[: self.case.index(case)] if case in self.case else []
        known = bool(case.system) and any(one.system == case.system for one in earlier)
        return "warm" if turn > 0 or known else "cold"

    @property
    def turns(self) -> int:
        """Runs of one side in one round."""
        return sum(case.asks + bool(case.beside) for case in self.case)

    @property
    def warm_up_case(self) -> Case:
        """The warm-up as a conversation."""
        return Case(name=WARM_UP, system=self.warm_up.system, turns=self.warm_up.turns)

    def tokens_of(self, case: Case) -> int:
        """Return how long a reply of a case is."""
        return case.output or self.output


def filled(text: str, number: int) -> str:
    """Return a text of the workload as it is in round `number`."""
    return text.replace(ROUND, str(FIRST_ROUND + number))


def names(paths: Paths) -> list[str]:
    """Return the names of all workloads, sorted."""
    return sorted({path.stem for folder in (paths.workloads, shipped()) for path in folder.glob("*.toml")})


def shipped() -> Path:
    """Return the folder of those that ship."""
    return Path(fader_profiles.__file__).parent / "workloads"


def load(name: str, paths: Paths) -> Workload:
    """Return a workload by name or path; a person's own wins. Raises UnknownName, or BadValue with file and line."""
    if name.endswith(".toml") or "/" in name or "\\" in name:
        return parse(read_toml(path := Path(name).expanduser().absolute()), path.stem, path)
    for folder in (paths.workloads, shipped()):
        if (path := folder / f"{name}.toml").is_file():
            return parse(read_toml(path), name, path)
    raise UnknownName("workload", name, names(paths))


def read(text: str, path: Path) -> Workload:
    """Return the workload that a bundle holds. Raises BadValue."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadValue(f"{path}: not valid TOML: {error}.", "", "Get the bundle again.") from error
    return parse(data, data.get("name", path.stem), path)


def parse(data: dict[str, Any], name: str, path: Path) -> Workload:
    """Return a workload from a table. Raises BadValue."""
    try:
        found = msgspec.convert({**data, "name": name, "settings": _flat(data.get("settings", {}))}, Workload)
    except msgspec.ValidationError as error:
        place = str(error).partition(" - at `$.")[2].rstrip("`")
        line = line_of(path, [place.split("[")[0].split(".")[0]]) if place and path.exists() else None
        at = f"{path}, line {line}" if line else str(path)
        said = f"{place}: {reason(error)}" if place else reason(error)
        raise BadValue(f"{at}: {said}.", "", "What a workload may hold: app/LAB.md.") from error
    repeated = _repeated([case.name for case in found.case])
    if repeated:
        raise BadValue(f"{path}: two cases are called {repeated!r}.", "", "Give each its own name.")
    return found


def _flat(table: Any, above: str = "") -> Any:
    """Return nested tables as dotted keys: `kv_cache.length = 1024` is nested to TOML."""
    if not isinstance(table, dict):
        return table
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat.update(_flat(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value})
    return flat


def _repeated(words: Sequence[str]) -> str | None:
    return next((word for place, word in enumerate(words) if word in words[:place]), None)


def dump(workload: Workload) -> str:
    """Return a workload as TOML, whole, as bundles hold it."""
    import tomli_w

    data = msgspec.to_builtins(workload)
    data["case"] = [_bare(case, Case(name="", turns=["x"])) for case in workload.case]
    return tomli_w.dumps({key: value for key, value in data.items() if value not in ("", [], {}, None)})


def _bare(case: Case, plain: Case) -> dict[str, Any]:
    """Return a case without what it leaves at its default."""
    keys = [key for key in case.__struct_fields__ if key == "turns" or getattr(case, key) != getattr(plain, key)]
    return {key: msgspec.to_builtins(getattr(case, key)) for key in keys}
