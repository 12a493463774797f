"""`Chosen`: what every token of a reply was chosen from; packed for the store, unpacked for view and report.

Knows no screen and no model: the bytes of tokens come along.
"""

from __future__ import annotations

import codecs
import zlib
from typing import NamedTuple

import msgspec
from fader_backends.odds import Odds, bits

END = "⟨end⟩"


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A reply's tokens with what each was chosen from."""

    ids: tuple[int, ...]
    odds: tuple[Odds | None, ...]
    """One for each id; None where nothing was noted, as for a beginning in a person's words."""
    pieces: dict[int, bytes]
    """Bytes of tokens and candidates; b"" for end tokens, no entry for other control tokens."""
    forced: tuple[int, ...] = ()
    """Places of the tokens that a person chose."""

    def label(self, token: int) -> str:
        """Return a token for people: its text, or its number where it has none."""
        piece = self.pieces.get(token)
        if piece is None:
            return f"⟨{token}⟩"
        try:
            return piece.decode() if piece else END
        except UnicodeDecodeError:
            return f"⟨{piece.hex(' ')}⟩"

    def texts(self) -> list[str]:
        """Return what each token added to the text: characters across tokens count for the last of these."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return [decoder.decode(self.pieces.get(token, b"")) for token in self.ids]

    def until(self, place: int) -> Chosen:
        """Return the tokens before `place`."""
        forced = tuple(one for one in self.forced if one < place)
        return msgspec.structs.replace(self, ids=self.ids[:place], odds=self.odds[:place], forced=forced)

    def then(self, token: int, odds: Odds | None, forced: bool) -> Chosen:
        """Return the tokens and one more, chosen from `odds`."""
        places = (*self.forced, len(self.ids)) if forced else self.forced
        if odds is not None and forced:
            before = {one.token: one.logprob for one in odds.candidates()}
            odds = msgspec.structs.replace(odds, logprob=before.get(token, float("-inf")))
        return msgspec.structs.replace(self, ids=(*self.ids, token), odds=(*self.odds, odds), forced=places)

    def summary(self) -> Summary:
        """Return mean surprise and perplexity over the tokens that have notes."""
        surprises = [bits(one.logprob) for one in self.odds if one is not None]
        mean = sum(surprises) / len(surprises) if surprises else None
        return Summary(len(surprises), mean, 2**mean if mean is not None and mean < 1000 else None)


class Summary(NamedTuple):
    """A reply as a whole."""

    tokens: int
    bits: float | None
    """Mean of -log2 of the tokens' probabilities before the chain."""
    perplexity: float | None
    """2 to `bits`."""


NOTHING = Chosen(ids=(), odds=(), pieces={})
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Chosen)


def packed(chosen: Chosen) -> bytes:
    """Return it for the store, without pieces that nothing refers to."""
    named = set(chosen.ids)
    for odds in chosen.odds:
        named |= set(odds.ids()) if odds is not None else set()
    pieces = {token: piece for token, piece in chosen.pieces.items() if token in named}
    return zlib.compress(_encoder.encode(msgspec.structs.replace(chosen, pieces=pieces)), 1)


def unpacked(data: bytes | None) -> Chosen | None:
    """Undo `packed`; None when there is nothing, or nothing that can be read."""
    try:
        chosen = _decoder.decode(zlib.decompress(data)) if data else None
        if chosen is not None:
            for odds in chosen.odds:
                _ = odds and odds.candidates()
    except (zlib.error, msgspec.MsgspecError, ValueError):
        return None
    return chosen if chosen and len(chosen.odds) == len(chosen.ids) else None
