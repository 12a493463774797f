"""Grammar and JSON schema as settings: read from files, checked when the turn is planned, refused by name on echo."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from fader.headless import Headless
from fader.switchboard import Switchboard
from fader_backends.base import Message, SamplerSettings
from fader_backends.errors import BadValue
from fader_plugins.registry import Registry
from fader_plugins.turn import Failed, Finished

Board = Callable[..., Switchboard]
NOW = datetime(2026, 1, 1)


def planned(board: Board, **settings: str) -> SamplerSettings:
    return board(plugins={"sampler": settings}).plan("me", [], NOW).sampler


def test_texts_arrive(board: Board) -> None:
    assert planned(board, grammar='root ::= "a"').grammar == 'root ::= "a"'
    assert planned(board, json_schema="{}").json_schema == "{}"
    assert planned(board, grammar=" \n").grammar == ""


def test_a_file_is_read_into_the_request(board: Board, tmp_path: Path) -> None:
    """The request holds the text, so that its record needs no file."""
    path = tmp_path / "x.gbnf"
    path.write_text('root ::= "a"\n', encoding="utf-8")
    assert planned(board, grammar=f"@{path}").grammar == 'root ::= "a"\n'
    with pytest.raises(BadValue, match=r"nope\.gbnf cannot be read"):
        planned(board, grammar=f"@{tmp_path / 'nope.gbnf'}")
    path.write_bytes(b"\xff")
    with pytest.raises(BadValue, match="not UTF-8"):
        planned(board, grammar=f"@{path}")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"grammar": "root ::= (", "json_schema": ""}, "line 1, column 11"),
        ({"json_schema": "{"}, "json_schema is not JSON"),
        ({"json_schema": "[1]"}, "not a JSON object"),
        ({"json_schema": "{}", "grammar": 'root ::= "a"'}, "A grammar and a JSON schema"),
    ],
)
def test_what_cannot_be_meant(board: Board, settings: dict[str, str], why: str) -> None:
    with pytest.raises(BadValue, match=why):
        planned(board, **settings)


@pytest.mark.parametrize(
    ("setting", "named"), [({"grammar": 'root ::= "a"'}, "grammar"), ({"json_schema": "{}"}, "JSON schema")]
)
def test_a_backend_that_cannot(registry: Registry, board: Board, setting: dict[str, str], named: str) -> None:
    """On echo the turn fails with what to clear, and the next one works."""
    with Headless(registry) as engine:
        draft = board(plugins={"sampler": setting}).plan("me", [Message("user", "hi")], NOW)
        failed = engine.run(draft.freeze("turn", 0))[-1]
        assert isinstance(failed, Failed)
        assert failed.failure.kind == "NotSupported"
        assert failed.failure.title == f"The echo backend cannot follow a {named}."
        assert next(iter(setting)) in failed.failure.next_step
        again = board().plan("me", [Message("user", "hi")], NOW)
        assert isinstance(engine.run(again.freeze("again", 0))[-1], Finished)
