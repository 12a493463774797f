"""Owns the grammar language GBNF: refuses a text that does not parse, with line and column, before any C code sees it.

Knows no vocabulary and constrains nothing. Syntax: github.com/ggml-org/llama.cpp/blob/master/grammars/README.md; the
parser is that of llama.cpp's `llama-grammar.cpp`, rule for rule, because the library prints its reasons to stderr only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, NoReturn

from fader_backends.errors import BadValue

MOST = 2000
"""Most repetitions, counted over rules, that llama.cpp accepts."""
ROOT = "root"
_NAME = re.compile(r"[A-Za-z0-9-]+")
_NUMBER = re.compile(r"[0-9]+")
_BLANK = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_BLANKS = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_CHAR = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\\"\[\]-])|[^\\]", re.DOTALL)


class Token(NamedTuple):
    """A token that a grammar names outright."""

    text: str
    """As written between and with its brackets: `<[123]>` or `<think>`."""
    place: str
    """Line and column, for errors."""


class Grammar(NamedTuple):
    """A grammar that parses."""

    text: str
    tokens: tuple[Token, ...]


class _Item(NamedTuple):
    """One element of a sequence, as far as recursion is concerned."""

    rule: str
    """The rule it refers to; empty for characters and tokens."""
    at: int


class _Group:
    """A rule or a bracket in work."""

    def __init__(self, name: str, symbols: int) -> None:
        self.name = name
        self.alternatives: list[list[_Item]] = [[]]
        self.symbols = symbols
        """How many rules there were when it began."""
        self.last = 0
        """Items of the present alternative before the one that a repetition would repeat."""
        self.rules = 1
        """Rules that the last item stands for."""

    @property
    def sequence(self) -> list[_Item]:
        return self.alternatives[-1]


class _Parser:
    """Reads forward through the text; brackets are kept on a list, so that depth costs no stack."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.rules: dict[str, list[list[_Item]]] = {}
        self.tokens: list[Token] = []
        self.symbols: set[str] = set()
        self.groups: list[_Group] = []

    def fail(self, reason: str, at: int | None = None) -> NoReturn:
        line, column = place_of(self.text, self.at if at is None else at)
        raise BadValue(
            f"The grammar does not parse at line {line}, column {column}: {reason}.",
            self.text.split("\n")[line - 1].strip()[:120],
            "Correct it, or clear sampler.grammar.",
        )

    def blank(self, lines: bool = False) -> None:
        pattern = _BLANKS if lines or len(self.groups) != 1 else _BLANK  # inside brackets a line may end anywhere
        self.at = pattern.match(self.text, self.at).end()  # type: ignore[union-attr]  # matches nothing, too

    def skip(self, count: int = 1, *, lines: bool = False) -> None:
        self.at += count
        self.blank(lines)

    def grammar(self) -> None:
        self.blank()
        while self.at < len(self.text):
            self.rule()

    def rule(self) -> None:
        found = _NAME.match(self.text, self.at)
        if not found:
            self.fail("a rule's name is expected (letters, digits and -)")
        self.groups = [_Group(self.symbol(found[0]), 0)]
        self.skip(len(found[0]))
        if not self.text.startswith("::=", self.at):
            self.fail("::= is expected after a rule's name")
        self.skip(3, lines=True)
        self.sequences()
        if self.at < len(self.text):
            if self.text[self.at] not in "\r\n":
                self.fail(f"{self.text[self.at]!r} is not expected here")
            self.at += 2 if self.text.startswith("\r\n", self.at) else 1
        done = self.groups.pop()
        self.rules[done.name] = done.alternatives
        self.blank()

    def symbol(self, name: str) -> str:
        self.symbols.add(name)
        return name

    def fresh(self) -> str:
        return self.symbol(f"{self.groups[0].name}_{len(self.symbols)}")  # no name of a person's holds "_"

    def sequences(self) -> None:
        """Read alternatives up to what ends the rule."""
        while self.at < len(self.text):
            sign, group = self.text[self.at], self.groups[-1]
            if sign == "|":
                group.alternatives.append([])
                group.last, group.rules = 0, 1
                self.skip(lines=True)
            elif sign == "(":
                before = len(self.symbols)
                self.groups.append(_Group(self.fresh(), before))
                self.skip(lines=True)
            elif sign == ")" and len(self.groups) > 1:
                self.close()
            elif sign in "*+?{":
                self.repeat(sign)
            elif not self.item(sign):
                break
        if len(self.groups) > 1:
            self.fail("a bracket is not closed: ) is expected")

    def close(self) -> None:
        done = self.groups.pop()
        self.rules[done.name] = done.alternatives
        self.add(_Item(done.name, self.at), max(1, len(self.symbols) - done.symbols))
        self.skip()

    def add(self, item: _Item | None, rules: int = 1) -> None:
        group = self.groups[-1]
        group.last, group.rules = len(group.sequence), rules
        if item is not None:
            group.sequence.append(item)

    def item(self, sign: str) -> bool:
        """Read one element; False when there is none here."""
        begin = self.at
        if sign == '"':
            self.characters('"', 1)
            self.add(_Item("", begin) if self.at - begin > 2 else None)
        elif sign == "[":
            start = 2 if self.text.startswith("^", self.at + 1) else 1
            self.characters("]", start)
            self.add(_Item("", begin) if self.at - begin > start + 1 else None)
        elif sign in "<!":
            self.token()
            self.add(_Item("", begin))
        elif sign == ".":
            self.at += 1
            self.add(_Item("", begin))
        elif found := _NAME.match(self.text, self.at):
            self.at = found.end()
            self.add(_Item(self.symbol(found[0]), begin))
        else:
            return False
        self.blank()
        return True

    def characters(self, end: str, start: int) -> None:
        begin = self.at
        self.at += start
        while not self.text.startswith(end, self.at):
            self.character(begin)
            if end == "]" and self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
                self.at += 1
                self.character(begin)
        self.at += 1

    def character(self, begin: int) -> None:
        if self.at >= len(self.text):
            self.fail("a text or a set of characters is not closed", begin)
        found = _CHAR.match(self.text, self.at)
        if not found:
            self.fail('unknown escape; known are \\n \\r \\t \\\\ \\" \\[ \\] \\- \\xHH \\uHHHH \\UHHHHHHHH')
        self.at = found.end()

    def token(self) -> None:
        begin = self.at
        self.at += self.text[self.at] == "!"
        if not self.text.startswith("<", self.at):
            self.fail("< is expected after !")
        found = re.compile(r"<\[[0-9]{1,9}\]>|<[^\[>][^>]*>").match(self.text, self.at)
        if not found:
            self.fail("a token is written <[123]> or <its text>")
        self.tokens.append(Token(found[0], "line {}, column {}".format(*place_of(self.text, begin))))
        self.at = found.end()

    def repeat(self, sign: str) -> None:
        begin, group = self.at, self.groups[-1]
        self.skip()
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self.range()
        if group.last == len(group.sequence):
            self.fail(f"{sign} has nothing before it that could be repeated", begin)
        if high is not None and high < low:
            self.fail("the upper bound is below the lower one", begin)
        times = max(high or low, 1)
        if low > MOST or group.rules * times > MOST:
            self.fail(f"more than {MOST:,} repetitions, counted over the rules in them", begin)
        repeated = group.sequence[group.last :]
        del group.sequence[group.last :]
        name = self.fresh()
        self.symbols.update(f"{name}.{number}" for number in range(1, 1 if high is None else high - low))
        self.rules[name] = [repeated, []] if low == 0 else [repeated]
        group.sequence.append(_Item(name, begin))
        group.rules *= times

    def range(self) -> tuple[int, int | None]:
        low = self.number()
        high: int | None = low
        if self.text.startswith(",", self.at):
            self.skip()
            high = self.number() if _NUMBER.match(self.text, self.at) else None
        if not self.text.startswith("}", self.at):
            self.fail("} is expected")
        self.skip()
        return low, high if high is None or high <= MOST else None

    def number(self) -> int:
        found = _NUMBER.match(self.text, self.at)
        if not found:
            self.fail("a whole number is expected")
        self.skip(len(found[0]))
        return int(found[0][:9])


def parse(text: str) -> Grammar:
    """Return a grammar that llama.cpp will accept. Raises BadValue naming line and column, or the rule at fault.

    Refused beyond its syntax: rules that are used and not defined, no rule called `root`, and left recursion, also where
    it hides behind something that may be empty: the library would not come back from it.
    """
    parser = _Parser(text)
    if "\0" in text:
        parser.fail("a NUL character", text.index("\0"))
    parser.grammar()
    if ROOT not in parser.rules:
        raise BadValue(
            f"The grammar has no rule called {ROOT}.", "It is where every answer begins.", f"Add {ROOT} ::= …"
        )
    for alternatives in parser.rules.values():
        for item in (item for sequence in alternatives for item in sequence):
            if item.rule and item.rule not in parser.rules:
                parser.fail(f"the rule {item.rule} is not defined", item.at)
    found = _left_recursion(parser.rules)
    if found is not None:
        name = found.rule.partition("_")[0]
        parser.fail(f"{name} comes back to itself without having matched anything (left recursion)", found.at)
    return Grammar(text, tuple(parser.tokens))


def _left_recursion(rules: Mapping[str, list[list[_Item]]]) -> _Item | None:
    """Return an item through which a rule reaches itself before any character."""
    empty: set[str] = set()
    changed = True
    while changed:
        new = {name for name, ways in rules.items() if any(all(i.rule in empty for i in way) for way in ways)}
        changed, empty = new != empty, new
    first: dict[str, list[_Item]] = {}
    for name, ways in rules.items():
        first[name] = []
        for way in ways:
            for item in way:
                first[name] += [item] if item.rule else []
                if item.rule not in empty:
                    break
    try:
        TopologicalSorter({name: {item.rule for item in items} for name, items in first.items()}).prepare()
    except CycleError as error:
        after, before = error.args[1][:2]  # each is reached from the one that follows
        return next(item for item in first[before] if item.rule == after)
    return None


def place_of(text: str, at: int) -> tuple[int, int]:
    """Return line and column of a character, both from 1."""
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
