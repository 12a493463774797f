"""Title, tabs, keys and commands of the screen with columns, in words.

Knows what the screen can do, not how.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fader_backends.errors import UsageError

from ...compare import spec
from ..bars import Part

if TYPE_CHECKING:
    from ...compare.column import Column
    from ...compare.comparer import Comparer
    from .screen import BesideScreen


def head(place: int, column: Column, blind: bool) -> str:
    """Return a column's title."""
    return f"column {place + 1}" if blind else f"{column.letter} {column.title}"


def title(comparer: Comparer, blind: bool, locked: bool) -> tuple[list[Part], list[Part]]:
    """Return the parts of the title: how the columns run, and what else holds."""
    mode = "one at a time, ABAB: for timing" if comparer.fair else "together: one prompt, one batch"
    left: list[Part] = [(" Side by side ", "accent"), (f" {mode}", "muted")]
    flags = [word for word, on in (("BLIND", blind), ("scrolling together", locked)) if on]
    number = f"comparison {comparer.number}" if comparer.number is not None else "not asked yet"
    return left, [(" ".join(f"{flag} · " for flag in flags), "warning"), (f"{number} · seed {comparer.seed} ", "muted")]


def tabs(heads: Sequence[str], current: int) -> list[Part]:
    """Return the columns as tabs: the one in view by its title, the others by their letter."""
    parts: list[Part] = []
    for place, text in enumerate(heads):
        short = text.split(" ")[-1] if text.startswith("column") else text.split(" ")[0]
        parts.append((f" [{text[:40]}] ", "strong") if place == current else (f" {short} ", "muted"))
    return [(" ‹›", "accent"), *parts]


def keys(place: str, busy: bool, blind: bool, width: int) -> list[Part]:
    """Return the keys that count where the cursor is."""
    pairs = {
        "prompt": [("Enter", "ask all"), ("Tab", "columns"), ("F2", "settings")],
        "grid": [("Enter", "change, then set"), ("Del", "take back"), ("F2", "prompt")],
        "column": [("←→", "column"), ("p", "pick") if blind else ("k", "keep"), ("s", "stop"), ("r", "again")],
    }[place]
    if place == "column":
        pairs += [("d", "diff"), ("z", "zoom"), ("l", "lock"), ("a", "alone"), ("c", "copy"), ("x", "drop")]
    pairs += [("Esc", "stop" if busy else "back"), ("F1", "help"), ("F8", "fair"), ("F9", "blind"), ("^R", "earlier")]
    parts: list[Part] = [(" ", "")]
    for key, what in pairs:
        if sum(len(text) for text, _ in parts) + len(key) + len(what) + 3 <= width:
            parts += [(key, "accent"), (f" {what}  ", "muted")]
    return parts


def _sweep(screen: BesideScreen, text: str) -> None:
    screen.comparer.sweep(text)


def _columns(screen: BesideScreen, text: str) -> None:
    screen.comparer.set_columns([spec.parse(part) for part in text.split("|")])


COMMANDS: dict[str, tuple[str, str, Callable[[BesideScreen, str], None]]] = {
    "sweep": ("NAME A..B xN", "Fill the columns from a range, or from seeds: /sweep seed x4", _sweep),
    "columns": ("CHANGES | CHANGES", "Set the columns: /columns | temperature=1.2 | profile=exact", _columns),
    "add": (
        "CHANGES",
        "Add a column: /add temperature=1.2 min_p=0.1",
        lambda s, text: s.comparer.add(spec.parse(text)),
    ),
    "export": ("FILE", "Write .md, .json or .html", lambda s, text: s.export(text)),
    "open": ("NUMBER", "Open an earlier comparison", lambda s, text: s.open(number(text))),
    "bundle": (
        "",
        "Evidence of columns A and B, timed fairly; /bundle with text: words too",
        lambda s, text: s.bundle(text),
    ),
    "fair": ("", "Run one at a time, for timing", lambda s, _: s.action_fair()),
    "blind": ("", "Shuffle and hide which is which", lambda s, _: s.action_blind()),
    "help": ("", "Keys and commands", lambda s, _: s.app.action_help()),  # type: ignore[attr-defined]
}


def run(screen: BesideScreen, text: str) -> None:
    """Run a command. Raises FaderError."""
    name, _, argument = text[1:].partition(" ")
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
        hint = f"Did you mean /{near[0]}?" if near else f"Here there are /{', /'.join(COMMANDS)}."
        raise UsageError(f"There is no command /{name} here.", "", hint)
    wanted, _, action = COMMANDS[name]
    if wanted and not argument.strip():
        raise UsageError(f"/{name} needs {wanted}.", "", f"Type /{name} {wanted}.")
    action(screen, argument.strip())


def number(text: str) -> int:
    """Return a comparison's number. Raises UsageError."""
    digits = text.strip().removeprefix("#")
    if not digits.isdecimal():
        raise UsageError(f"{text!r} is not a comparison's number.", "", "Ctrl+R lists them.")
    return int(digits)


def help_rows() -> list[tuple[str, str]]:
    """Return keys and commands for the help sheet."""
    rows = [
        ("/compare QUESTION, F4", "open it; /compare alone takes the last question, /compare #3 an earlier comparison"),
        ("Enter in its prompt", "ask all columns; in an empty prompt, once more"),
        ("F2", "the settings that differ: type over a cell, Enter sets it; ＋ adds name=value"),
        ("Tab, Left, Right", "to the columns, from one to the next"),
        ("k", "keep that reply: the conversation goes on with it, the others stay beside it"),
        ("s r x", "stop, run again, drop a column"),
        ("d", "words against the first column's: new ones underlined, missing ones struck through"),
        ("a", "run a column once more by itself: whether rounding in the batch changed its words"),
        ("z l c", "zoom; scroll all together; copy"),
        ("F8", "fair timing: one column at a time, ABAB, prompts read anew"),
        ("F9, p", "blind: shuffled and unnamed; p picks the better one, and the tally keeps it"),
        ("F3, Ctrl+R", "all numbers or few; earlier comparisons"),
    ]
    return [
        *rows,
        *((f"/{name} {wanted}".rstrip(), told) for name, (wanted, told, _) in COMMANDS.items() if name != "help"),
    ]
