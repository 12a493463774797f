"""Owns how messages become token ids: replies keep their own ids, and no message's text ever becomes a control token.

Knows no library: a vocabulary comes in as a function that parses text *with* control tokens, and the table of those.

How: the template is rendered twice, once over the contents and once over marks in their place, so that every character
of the rendering is known to be either the template's or a message's. In a message's text each control token's text is
cut between its first and second character; the rendering is parsed whole where nothing was cut, which is why benign
text gets exactly the ids that parsing the template's rendering gives. The control tokens found are then compared with
those of the same conversation over harmless contents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from fader_backends.base import Message
from fader_backends.errors import TemplateError
from fader_backends.template import Renderer

TEMPLATE = -1

_Known: TypeAlias = dict[tuple[str, bool], list[int]]
"""Ids of stretches of text by whether they follow other text."""


class Part(NamedTuple):
    """A stretch of a rendering."""

    text: str
    owner: int
    """Index of the message it comes from, or TEMPLATE."""


class Encoder:
    """A vocabulary's way from text to ids."""

    def __init__(
        self,
        parse: Callable[[str], list[int]],
        control: Mapping[str, int],
        bos: int | None = None,
        add_bos: bool = False,
    ) -> None:
        """Take `parse`: text to ids with control tokens recognised and nothing added; `control`: their texts."""
        self._parse = parse
        self._controls = frozenset(control.values())
        self._cut = _cutter(control)
        self._bos = bos
        self._add_bos = add_bos and bos is not None
        self._line = parse("\n")
        continued = parse("\nx")
        self._spaced = continued[: len(self._line)] == self._line and continued[len(self._line) :] != parse("x")
        """Whether this vocabulary puts a space before text that starts plain (SentencePiece does)."""
        self._known: _Known = {}
        """Of the last prompt: a turn repeats most of the turn before."""

    def plain(self, text: str) -> list[int]:
        """Return the ids of text that is nothing but text."""
        guard, _ = _unused([text])
        found = self._encode([self._guarded(text, guard)], guard, {}, {})
        return [token for token in found.ids if token not in self._controls]

    def prompt(self, messages: Sequence[Message], render: Renderer) -> list[int]:
        """Return the ids of the conversation as `render` lays it out.

        Raises TemplateError when the template does, or when a message cannot be kept from acting as control tokens.
        """
        before, self._known = self._known, {}
        contents = [message.content for message in messages]
        rendering = _render(render, messages, contents)
        guard, mark = _unused([*contents, rendering])
        marked = _render(render, messages, [f"{mark}{index}{mark}" for index in range(len(messages))])
        frame = re.split(f"{mark}([0-9]+){mark}", marked)
        parts = None if mark in "".join(frame) else align(frame, contents, rendering)
        if parts is None:  # the template looks into its messages; text keeps its place, but ids lose theirs
            harmless = _render(render, messages, ["x"] * len(messages))
        else:
            harmless = "".join(part.text if part.owner == TEMPLATE else "x" for part in parts)
        wanted = [token for token in self._ids(harmless, False, before, self._known) if token in self._controls]
        for edge in ("", guard):
            if parts is None:
                guarded = [edge + self._guarded(content, guard) + edge for content in contents]
                pieces: list[str | tuple[int, ...]] = [_render(render, messages, guarded)]
            else:
                pieces = list(self._pieces(parts, messages, guard, edge))
            found = self._encode(pieces, guard, before, self._known)
            if found.controls == wanted:
                return self._one_bos(found.ids)
        raise TemplateError(
            "A message holds text that this model reads as control tokens.",
            "It could not be kept apart from the chat template's own.",
            "Reword the message.",
        )

    def _guarded(self, text: str, guard: str) -> str:
        return self._cut.sub(lambda found: found[0] + guard, text)

    def _pieces(
        self, parts: Iterable[Part], messages: Sequence[Message], guard: str, edge: str
    ) -> Iterator[str | tuple[int, ...]]:
        text = ""
        for part in parts:
            if part.owner == TEMPLATE:
                text += part.text
                continue
            message = messages[part.owner]
            if message.ids is not None and part.text.strip() == message.content.strip():
                yield text
                yield message.ids
                text = ""
            else:
                text += edge + self._guarded(part.text, guard) + edge
        yield text

    def _encode(self, pieces: Iterable[str | tuple[int, ...]], guard: str, before: _Known, known: _Known) -> _Found:
        ids: list[int] = []
        controls: list[int] = []
        for piece in pieces:
            if not isinstance(piece, str):
                ids.extend(piece)
                continue
            for text in filter(None, piece.split(guard)):
                new = self._ids(text, bool(ids) and ids[-1] not in self._controls, before, known)
                ids.extend(new)
                controls.extend(token for token in new if token in self._controls)
        return _Found(ids, controls)

    def _ids(self, text: str, continues: bool, before: _Known, known: _Known) -> list[int]:
        """Parse text that follows other text, or does not, unless its ids are known."""
        key = (text, continues)
        if key not in known:
            found = before.get(key)
            known[key] = (self._continue(text) if continues else self._parse(text)) if found is None else found
        return known[key]

    def _continue(self, text: str) -> list[int]:
        """Parse text that follows other text: after a line break no space is put before it."""
        if self._spaced:
            ids = self._parse("\n" + text)
            if ids[: len(self._line)] == self._line:
                return ids[len(self._line) :]
        return self._parse(text)

    def _one_bos(self, ids: list[int]) -> list[int]:
        start = 0
        while ids[start : start + 2] == [self._bos, self._bos]:
            start += 1
        if self._add_bos and self._bos is not None and ids[:1] != [self._bos]:
            return [self._bos, *ids]
        return ids[start:]


class _Found(NamedTuple):
    ids: list[int]
    controls: list[int]
    """Control tokens that were parsed out of text, in order; those of a reply's own ids are not among them."""


def align(frame: Sequence[str], contents: Sequence[str], rendering: str) -> list[Part] | None:
    """Find out which stretch of `rendering` is whose.

    `frame` alternates template text and message index, as `re.split` gives it. A template may have trimmed a content,
    or kept only a part of it (without its thinking, say). None when no reading of that kind fits.
    """
    parts = [Part(frame[0], TEMPLATE)]
    at = len(frame[0])
    if not rendering.startswith(frame[0]):
        return None
    for place in range(1, len(frame), 2):
        owner, after = int(frame[place]), frame[place + 1]
        last = place + 2 == len(frame)
        text = _stretch(rendering, at, contents[owner], after, last)
        if text is None:
            return None
        parts += [Part(text, owner), Part(after, TEMPLATE)]
        at += len(text) + len(after)
    return parts if at == len(rendering) else None


def _stretch(rendering: str, at: int, content: str, after: str, last: bool) -> str | None:
    """Return the part of `content` that stands at `at` and is followed by `after` (and the end, if `last`)."""
    if last:
        end = len(rendering) - len(after)
        text = rendering[at:end]
        return text if end >= at and rendering.endswith(after) and text in content else None
    for text in (content, content.strip(), content.lstrip(), content.rstrip()):
        if rendering.startswith(text, at) and rendering.startswith(after, at + len(text)):
            return text
    end = rendering.find(after, at) if after else -1
    while at <= end <= at + len(content):
        if rendering[at:end] in content:
            return rendering[at:end]
        end = rendering.find(after, end + 1)
    return None


def _render(render: Renderer, messages: Sequence[Message], contents: Sequence[str]) -> str:
    return render([{"role": m.role, "content": content} for m, content in zip(messages, contents, strict=True)])


def _unused(texts: Sequence[str]) -> tuple[str, str]:
    """Return two characters that are in none of the texts, from those Unicode keeps for such uses."""
    codes = [*range(0xFDD0, 0xFDF0), *(plane << 16 | low for plane in range(1, 17) for low in (0xFFFE, 0xFFFF))]
    free = (chr(code) for code in codes if not any(chr(code) in text for text in texts))
    guard, mark = next(free, ""), next(free, "")
    if not mark:
        raise TemplateError("The messages hold every noncharacter of Unicode.", "", "Take some of them out.")
    return guard, mark


def _cutter(control: Iterable[str]) -> re.Pattern[str]:
    """Match the first character of every occurrence of a control token's text, overlapping ones too."""
    endings: dict[str, list[str]] = {}
    for text in control:
        if len(text) > 1:  # a single character cannot be cut; the comparison afterwards refuses it
            endings.setdefault(text[0], []).append(text[1:])
    starts = (f"{re.escape(first)}(?={'|'.join(map(re.escape, rest))})" for first, rest in endings.items())
    return re.compile("|".join(starts) or r"(?!)")
