"""Grammars on the embedded model: replies that parse at any temperature, and failures that say why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from fader_backends.base import Message, SamplerSettings
from fader_backends.constraint import Constraining
from fader_backends.errors import BadScores, BadValue
from fader_backends.llamacpp.backend import LlamaCpp
from fader_backends.llamacpp.grammar import LlamaConstraint, grammar_of
from fader_backends.sampling import chain

pytestmark = pytest.mark.slow

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "age": {"type": "integer"},
            "kind": {"enum": ["cät", 'do\\g\n"x']},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 2},
        },
        "required": ["name", "age", "kind", "tags"],
    }
)


def reply(llama: LlamaCpp, settings: SamplerSettings, most: int = 120) -> tuple[bytes, list[int], bool]:
    """Bytes, ids and whether it ended by itself."""
    constraint = llama.constrain(settings.grammar, settings.json_schema)
    sample = chain(settings, llama, llama.facts.vocabulary, constraint)
    history = llama.chat([Message("user", "Describe a person.")], datetime(2026, 1, 1))
    start, session = len(history), llama.open()
    try:
        row = session.extend(history)[0]
        while len(history) - start < most:
            pick = sample(row, history)
            if pick.token in llama.end_tokens:
                return b"".join(map(llama.piece, history[start:])), history[start:], True
            history.append(pick.token)
            row = session.extend([pick.token])[0]
        return b"".join(map(llama.piece, history[start:])), history[start:], False
    finally:
        session.close()
        constraint.close()
        constraint.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_schema_gives_json(llama: LlamaCpp, seed: int) -> None:
    """At temperature 1 the reply parses and has what the schema requires; texts with backslashes come out as meant."""
    text, ids, ended = reply(llama, SamplerSettings(temperature=1.0, seed=seed, json_schema=SCHEMA))
    assert ended, text
    value = json.loads(text)
    assert list(value) == ["name", "age", "kind", "tags"]
    assert value["kind"] in ("cät", 'do\\g\n"x')
    assert reply(llama, SamplerSettings(temperature=1.0, seed=seed, json_schema=SCHEMA))[1] == ids, "the same seed"


@pytest.mark.parametrize("target", [{"mirostat": 2}, {"adaptive_target": 0.3}, {"temperature": 0.0}, {"top_k": 1}])
def test_with_other_samplers(llama: LlamaCpp, target: dict[str, float]) -> None:
    fields: dict[str, Any] = {"temperature": 1.0, "grammar": 'root ::= ("yes" | "no") "."', **target}
    settings = SamplerSettings(**fields)
    assert reply(llama, settings)[0] in (b"yes.", b"no.")


def test_what_is_allowed_is_left_alone(llama: LlamaCpp) -> None:
    """A grammar that allows everything changes no id: the draw counts positions, and no number is used twice."""
    free = reply(llama, SamplerSettings(temperature=1.0, seed=2, grammar="root ::= .*"), 24)
    settings = SamplerSettings(temperature=1.0, seed=2)
    history = llama.chat([Message("user", "Describe a person.")], datetime(2026, 1, 1))
    start, session, sample = len(history), llama.open(), chain(settings, llama, llama.facts.vocabulary)
    row = session.extend(history)[0]
    for _ in range(24):
        history.append(sample(row, history).token)
        row = session.extend([history[-1]])[0]
    session.close()
    assert free[1] == history[start:]


def only(llama: LlamaCpp, constraint: LlamaConstraint) -> Sequence[int]:
    return np.flatnonzero(np.isfinite(constraint.mask(np.zeros(llama.facts.vocabulary, np.float32)))).tolist()


def test_mask_and_question_agree(llama: LlamaCpp) -> None:
    """Ends are allowed exactly where the grammar is complete; control tokens never stand for their letters."""
    assert isinstance(llama, Constraining)
    constraint = llama.constrain('root ::= "ab" | "<|im_start|>"', "")
    allowed = only(llama, constraint)
    assert allowed == [token for token in range(llama.facts.vocabulary) if constraint.allows(token)]
    assert not llama.end_tokens & set(allowed)
    assert b"" not in {llama.piece(token) for token in allowed}
    with pytest.raises(ValueError, match="not allowed"):
        constraint.accept(next(iter(llama.end_tokens)))
    (whole,) = llama.encode("ab")
    constraint.accept(whole)
    assert set(only(llama, constraint)) == llama.end_tokens
    constraint.accept(min(llama.end_tokens))
    assert set(only(llama, constraint)) == llama.end_tokens, "going on after the end repeats it"


def test_a_token_that_is_named_may_come(llama: LlamaCpp) -> None:
    start = llama._vocabulary.control["<|im_start|>"]
    assert only(llama, llama.constrain("root ::= <|im_start|>", "")) == [start]
    with pytest.raises(BadValue, match="<nothing> at line 1, column 10"):
        llama.constrain("root ::= <nothing>", "")


def test_a_grammar_that_admits_nothing(llama: LlamaCpp) -> None:
    [letter] = llama.encode("a")
    settings = SamplerSettings(grammar="root ::= <[99999999]>")
    with pytest.raises(BadScores, match="grammar admits no token"):
        reply(llama, settings)
    bias = dict.fromkeys(only(llama, llama.constrain('root ::= "a"', "")), -1e30)
    assert letter in bias
    with pytest.raises(BadScores, match="grammar admits no token"):
        reply(llama, SamplerSettings(grammar='root ::= "a"', logit_bias=bias))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ('{"type": "nope"}', "Unrecognized schema"),
        ('{"$ref": "https://example.org/x"}', "not allowed"),
        ('{"type": "string", "pattern": "a(?=b)"}', "Pattern must start"),
        ("[]", "cannot be used"),
        ("{", "cannot be used"),
    ],
)
def test_a_schema_that_cannot_be_used(schema: str, why: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It is refused with the converter's reason, and nothing is fetched or printed."""
    with pytest.raises(BadValue) as caught:
        grammar_of(schema)
    assert why in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_the_library_has_the_last_word(llama: LlamaCpp) -> None:
    with pytest.raises(BadValue, match="refuses this grammar") as caught:
        llama.constrain('root ::= ("" | "a")* "b"', "")
    assert "left recursion" in caught.value.detail


def test_strings_of_json_hold_no_raw_line_breaks() -> None:
    """The converter's own rule lets them in; if its text changes, this says so."""
    assert "\\x00-\\x1F" in grammar_of('{"type": "string"}')
