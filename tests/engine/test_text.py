"""Law 6: what is streamed equals the final decode, however the bytes are split, with stop strings or without."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from fader.engine.text import TextStream
from hypothesis import example, given, settings
from hypothesis import strategies as st

FEW = settings(max_examples=200, deadline=None)
texts = st.text(alphabet=st.sampled_from("ab \n0é日本語👩‍🚀🇩🇪\u200d\ufeff"), max_size=30)
stop_lists = st.lists(st.text(alphabet="ab日", min_size=1, max_size=4), max_size=4)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The data cut at the given places."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]


def stream(parts: Sequence[bytes], stop: Sequence[str] = ()) -> tuple[str, TextStream]:
    made = TextStream(stop)
    text = "".join(made.feed(part) for part in parts)
    return text + made.flush(), made


def up_to_stop(data: bytes, stop: Sequence[str]) -> bytes:
    """The bytes before the stop string that is complete first; of those that end together, before the longest."""
    ends = [
        (data.find(s.encode()) + len(s.encode()), data.find(s.encode())) for s in stop if data.find(s.encode()) >= 0
    ]
    return data[: min(ends)[1]] if ends else data


@FEW
@given(texts, st.lists(st.integers(0, 200), max_size=12))
def test_any_split_gives_the_text(text: str, cuts: list[int]) -> None:
    """Characters of one to four bytes and joined emoji arrive whole, wherever the tokens end."""
    data = text.encode()
    got, made = stream(pieces(data, cuts))
    assert text == got
    assert len(data) == made.kept
    assert text == stream([data[at : at + 1] for at in range(len(data))])[0], "byte by byte"


@FEW
@given(st.binary(max_size=24), st.lists(st.integers(0, 60), max_size=8))
def test_invalid_bytes_become_replacement_characters(data: bytes, cuts: list[int]) -> None:
    """Bytes that are no UTF-8 are replaced as a whole decode would, for every split, and nothing raises."""
    assert data.decode(errors="replace") == stream(pieces(data, cuts))[0]


@FEW
@given(texts, stop_lists, st.lists(st.integers(0, 200), max_size=12))
@example("abcd", ["abcd", "bc"], [])
@example("aab", ["ab"], [1, 2])
@example("xabay", ["aba", "ab"], [2])
def test_stop_strings_for_every_split(text: str, stop: list[str], cuts: list[int]) -> None:
    """The text ends before the first complete stop string, whichever way tokens cut it; `kept` counts its bytes."""
    data = text.encode()
    want = up_to_stop(data, stop)
    got, made = stream(pieces(data, cuts), stop)
    assert want.decode() == got
    assert len(want) == made.kept
    assert (want != data or any(data.endswith(s.encode()) for s in stop if s)) or not made.stopped


@FEW
@given(texts, stop_lists, st.lists(st.integers(0, 200), max_size=12))
def test_nothing_shown_is_taken_back(text: str, stop: list[str], cuts: list[int]) -> None:
    """At every moment what was shown is a beginning of the final text: no part of a stop string slips out."""
    data = text.encode()
    want = up_to_stop(data, stop).decode()
    made, shown = TextStream(stop), ""
    for part in pieces(data, cuts):
        shown += made.feed(part)
        assert want.startswith(shown)


@pytest.mark.parametrize("stop", [["!"], ["!", "?"]])
def test_a_stop_of_one_byte_holds_nothing_back(stop: list[str]) -> None:
    """A one-byte stop string needs no doubt: text before it is shown at once."""
    made = TextStream(stop)
    assert made.feed(b"ab") == "ab"
    assert made.feed(b"c!d") == ""
    assert made.flush() == "c"
    assert made.stopped
    assert made.kept == 3


def test_only_the_doubtful_tail_is_held_back() -> None:
    """Of text that may go on to a stop string only the possible beginning waits."""
    made = TextStream(["</end>"])
    assert made.feed(b"so <") == "so "
    assert made.feed(b"/e") == ""
    assert made.feed(b"x") == "</ex"


def test_a_stop_string_can_begin_inside_itself() -> None:
    """A failed beginning that holds a new beginning is not thrown away: 'aab' in 'aaab'."""
    assert stream([b"a", b"a", b"a", b"b", b"z"], ["aab"])[0] == "a"


def test_after_a_stop_nothing_counts() -> None:
    """Tokens after the stop string give no text and are not counted."""
    got, made = stream([b"one", b"STOP", b"two"], ["STOP"])
    assert (got, made.kept) == ("one", 3)


def test_an_empty_stop_string_is_none() -> None:
    """An empty stop string would end every reply at once; it is passed over."""
    assert stream([b"text"], [""])[0] == "text"


def test_half_a_character_at_the_end() -> None:
    """A reply cut inside a character ends with U+FFFD instead of losing the rest or raising."""
    assert stream(["日".encode()[:2]])[0] == "�"
