"""Grammars and JSON schemas of other programs' presets: carried over when they parse, else named with the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fader import presets, profiles
from fader.cli import main
from fader.paths import Paths
from fader_plugins.sampler import Sampler

GRAMMAR = 'root ::= "yes" | "no"  # as @file\n'
SCHEMA = {"type": "object", "properties": {"ü": {"type": "string"}}}


def read(tmp_path: Path, data: dict[str, Any], name: str = "preset.json") -> presets.Imported:
    path = tmp_path / name
    path.write_text(json.dumps(data), "utf-8")
    return presets.read(path)


def lm_studio(structured: Any) -> dict[str, Any]:
    return {"name": "held", "operation": {"fields": [{"key": "llm.prediction.structured", "value": structured}]}}


def held(found: presets.Imported) -> dict[str, Any]:
    return {name: found.sampler[name] for name in ("grammar", "json_schema") if name in found.sampler}


@pytest.mark.parametrize(
    "data",
    [
        {"temp": 1, "grammar_string": GRAMMAR},
        {"temp": 1, "grammar": GRAMMAR, "json_schema": {}},
        {"temperature": 1, "grammar_string": GRAMMAR},
        lm_studio({"type": "gbnf", "gbnfGrammar": GRAMMAR}),
    ],
)
def test_a_grammar_is_carried_over(tmp_path: Path, data: dict[str, Any]) -> None:
    """Letter for letter, and without a note."""
    found = read(tmp_path, data)
    assert (held(found), found.notes) == ({"grammar": GRAMMAR}, ())


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        ({"temp": 1, "json_schema": SCHEMA, "grammar_string": ""}, SCHEMA),
        ({"temp": 1, "json_schema": json.dumps(SCHEMA)}, SCHEMA),
        (lm_studio({"type": "json", "jsonSchema": SCHEMA}), SCHEMA),
        (lm_studio({"type": "json", "jsonSchema": json.dumps(SCHEMA)}), SCHEMA),
        (lm_studio({"type": "json"}), {"type": "object"}),
    ],
)
def test_a_schema_is_carried_over(tmp_path: Path, data: dict[str, Any], schema: dict[str, Any]) -> None:
    """As an object or as its text; JSON without a schema is any object."""
    found = read(tmp_path, data)
    assert held(found).keys() == {"json_schema"}
    assert json.loads(found.sampler["json_schema"]) == schema
    assert not found.notes


@pytest.mark.parametrize("value", [{"type": "none"}, {"type": "gbnf", "gbnfGrammar": " "}, None])
def test_none_is_none(tmp_path: Path, value: Any) -> None:
    """Nothing is set, and nothing is said to be lost."""
    found = read(tmp_path, lm_studio(value))
    assert (held(found), found.notes) == ({}, ())


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        (
            {"temp": 1, "grammar_string": 'root ::= "a"\nb ::= ('},
            "grammar_string",
            "line 2, column 8: a bracket is not",
        ),
        ({"temp": 1, "grammar": "@secret.gbnf"}, "grammar", "line 1, column 1: a rule's name is expected"),
        ({"temp": 1, "grammar_string": 7}, "grammar_string", "not a text"),
        ({"temp": 1, "json_schema": "{"}, "json_schema", "not JSON: Expecting property name enclosed in double quotes"),
        ({"temp": 1, "json_schema": "[" * 100_000}, "json_schema", "not JSON"),
        ({"temp": 1, "json_schema": "@secret.json"}, "json_schema", "line 1 column 1"),
        ({"temp": 1, "json_schema": [1]}, "json_schema", "not a JSON object"),
        ({"temperature": 1, "grammar_string": "start: A"}, "grammar_string", "line 1, column 6: ::= is expected"),
        (
            lm_studio({"type": "gbnf", "gbnfGrammar": "root ::= x"}),
            "llm.prediction.structured",
            "line 1, column 10: the rule x is not defined",
        ),
        (lm_studio({"type": "json", "jsonSchema": 3}), "llm.prediction.structured", "not a JSON object"),
        (lm_studio({"type": "regex"}), "llm.prediction.structured", "neither JSON nor a grammar"),
    ],
)
def test_what_does_not_parse_is_refused(tmp_path: Path, data: dict[str, Any], name: str, why: str) -> None:
    """It is named with its place and stays out; the rest of the preset is carried over."""
    found = read(tmp_path, data)
    assert held(found) == {}
    (note,) = found.notes
    assert note.name == name
    assert why in note.why


def test_only_one_can_be_followed(tmp_path: Path) -> None:
    """The schema goes first, as it does there; one that is damaged gives way to the grammar."""
    both = {"temp": 1, "grammar_string": GRAMMAR, "json_schema": SCHEMA}
    found = read(tmp_path, both)
    assert held(found).keys() == {"json_schema"}
    assert [note.name for note in found.notes] == ["grammar_string"]
    assert held(read(tmp_path, {**both, "json_schema": "{"})) == {"grammar": GRAMMAR}


def test_a_written_profile_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line breaks and quotes survive the file, and the sampler takes what was read back."""
    paths = Paths.from_environment({"FADER_HOME": str(tmp_path / "home")})
    monkeypatch.setenv("FADER_HOME", str(tmp_path / "home"))
    file = tmp_path / "preset.json"
    file.write_text(json.dumps({"temp": 1, "grammar_string": GRAMMAR}), "utf-8")
    assert CliRunner().invoke(main, ["profiles", "import", str(file), "--name", "mine"]).exit_code == 0
    table = {key: value for key, value in profiles.load("mine", paths).plugins["sampler"].items() if key != "on"}
    assert Sampler(**table).chosen({})["grammar"] == GRAMMAR
