"""What a reply was chosen from, packed and for people."""

from __future__ import annotations

import math
import zlib

import msgspec
import pytest
from fader.odds import END, NOTHING, Chosen, packed, unpacked
from fader_backends.base import SamplerSettings
from fader_backends.odds import Odds
from fader_backends.sampling import chain


def made(*scores: float) -> tuple[int, Odds]:
    import numpy as np

    row = np.array(scores, dtype=np.float32)
    pick = chain(SamplerSettings(temperature=1.0, top_k=3, seed=1), size=len(row), watch=4)(row, [])
    assert pick.odds is not None
    return pick.token, pick.odds


TOKEN, ODDS = made(3.0, 2.0, 1.0, 0.0, -1.0)
PIECES = {0: b"a", 1: "é".encode()[:1], 2: b"", 9: b"unused"}


def test_packing_is_undone_by_unpacking_and_drops_what_nothing_names() -> None:
    chosen = Chosen(ids=(7, TOKEN), odds=(None, ODDS), pieces={**PIECES, 7: b"x"}, forced=(0,))
    back = unpacked(packed(chosen))
    assert back is not None
    assert (back.ids, back.odds, back.forced) == (chosen.ids, chosen.odds, chosen.forced)
    assert back.pieces == {0: b"a", 1: b"\xc3", 2: b"", 7: b"x"}


def test_a_record_is_small() -> None:
    """Ten candidates a token: under 200 bytes each, pieces included."""
    import numpy as np

    numbers = np.random.default_rng(1)
    sample = chain(SamplerSettings(temperature=0.7, top_k=40, top_p=0.95, seed=1), size=49_152, watch=10)
    picks = [sample(numbers.normal(0, 4.4, 49_152).astype(np.float32), [n]) for n in range(50)]
    odds = tuple(pick.odds for pick in picks)
    pieces = {token: f" word{token}".encode() for one in odds if one is not None for token in one.ids()}
    chosen = Chosen(ids=tuple(pick.token for pick in picks), odds=odds, pieces=pieces)
    assert len(packed(chosen)) < 50 * 300


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"not compressed",
        zlib.compress(b"not msgpack"),
        zlib.compress(msgspec.msgpack.encode({"ids": [1], "odds": [], "pieces": {}})),
        zlib.compress(
            msgspec.msgpack.encode(Chosen(ids=(1,), odds=(msgspec.structs.replace(ODDS, before=b"abc"),), pieces={}))
        ),
    ],
    ids=["nothing", "empty", "noise", "other", "lengths", "columns"],
)
def test_what_cannot_be_read_is_nothing(data: bytes | None) -> None:
    assert unpacked(data) is None


def test_labels_are_for_people() -> None:
    chosen = Chosen(ids=(), odds=(), pieces=PIECES)
    assert [chosen.label(token) for token in (0, 1, 2, 3)] == ["a", "⟨c3⟩", END, "⟨3⟩"]


def test_texts_join_to_the_reply() -> None:
    chosen = Chosen(ids=(5, 6, 0), odds=(None,) * 3, pieces={5: b"\xc3", 6: b"\xa9", 0: b"!"})
    assert chosen.texts() == ["", "é", "!"]


def test_branching_keeps_what_comes_before_and_tells_what_was_forced() -> None:
    chosen = Chosen(ids=(TOKEN, TOKEN, TOKEN), odds=(ODDS, ODDS, ODDS), pieces=PIECES)
    other = next(one for one in ODDS.candidates() if one.token != TOKEN)
    branch = chosen.until(1).then(other.token, ODDS, forced=True)
    assert (branch.ids, branch.forced) == ((TOKEN, other.token), (1,))
    assert branch.odds[1] is not None
    assert branch.odds[1].logprob == other.logprob
    assert branch.until(1).forced == ()


def test_the_summary_counts_tokens_with_notes_only() -> None:
    half = msgspec.structs.replace(ODDS, logprob=math.log(0.5))
    eighth = msgspec.structs.replace(ODDS, logprob=math.log(0.125))
    summary = Chosen(ids=(1, 2, 3), odds=(half, None, eighth), pieces={}).summary()
    assert summary.tokens == 2
    assert summary.bits == pytest.approx(2.0)
    assert summary.perplexity == pytest.approx(4.0)
    assert NOTHING.summary().bits is None
