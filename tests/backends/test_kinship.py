"""Which vocabularies go together, and reading one from a file."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fader_backends.kinship import SIZE_DIFFERENCE, Words, mismatch, read
from fader_backends.llamacpp.weights import find

TEXTS = tuple(f"t{n}" for n in range(300))
WORDS = Words(name="one", kind="gpt2", bos=None, eos=2, texts=TEXTS)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, None),
        ({"name": "other"}, None),
        ({"texts": ("x",) * 5 + TEXTS[5:]}, None),
        ({"texts": TEXTS + ("pad",) * SIZE_DIFFERENCE}, None),
        (
            {"texts": TEXTS + ("pad",) * (SIZE_DIFFERENCE + 1)},
            "they have 300 and 429 tokens, more than 128 apart",
        ),
        ({"texts": (*TEXTS[:7], "x", *TEXTS[8:])}, "token 7 is 't7' in the one and 'x' in the other"),
        ({"kind": "llama"}, "they are of different kinds (gpt2 and llama)"),
        ({"bos": 1}, "BOS is not added in the one and token 1 in the other"),
        ({"eos": 3}, "EOS is token 2 in the one and token 3 in the other"),
        ({"eos": None}, "EOS is token 2 in the one and not added in the other"),
    ],
)
def test_kinship(change: dict[str, Any], why: str | None) -> None:
    """As llama.cpp decides: kind, BOS and EOS where added, sizes within 128, same text from token 5 on."""
    assert mismatch(WORDS, msgspec.structs.replace(WORDS, **change)) == why


def test_vocabulary_of_a_file() -> None:
    """Read from the header alone, with the text of every token."""
    words = read(find(""))
    assert (words.kind, words.bos, words.eos, len(words.texts)) == ("gpt2", None, None, 49152)
    assert words.texts[:3] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert mismatch(words, words) is None
