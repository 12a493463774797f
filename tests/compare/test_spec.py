"""What columns and sweeps mean, and how what cannot be meant is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fader.compare import make, spec
from fader.switchboard import Switchboard
from fader_backends.errors import UsageError

from tests.compare.desk import MAKERS

Boards = Callable[..., Switchboard]


def test_changes_are_words(board: Boards) -> None:
    changes = spec.parse('temperature=1.2 kv_cache.type_k=q8_0 grammar="root ::= x" temperature=1')
    assert changes == {"kv_cache.type_k": "q8_0", "grammar": "root ::= x", "temperature": "1"}
    assert spec.title(changes) == "kv_cache.type_k=q8_0 grammar='root ::= x' temperature=1"
    assert spec.title({"sampler.min_p": "0.1"}) == "min_p=0.1"
    assert spec.title({}) == "as it is"


def test_a_windows_path_stays_one(board: Boards) -> None:
    assert spec.parse(r"model=C:\models\a.gguf") == {"model": r"C:\models\a.gguf"}


def test_a_column_is_the_base_and_its_changes(board: Boards) -> None:
    base = board(plugins={"sampler": {"temperature": 0.7, "top_k": 20}})
    made = spec.board_of(base, {"temperature": "1.2", "prompt_lookup": "on", "max_tokens": "9"}, MAKERS)
    assert made.states["sampler"].settings["temperature"] == 1.2
    assert made.states["sampler"].settings["top_k"] == 20
    assert (made.states["prompt_lookup"].on, made.profile.max_tokens) == (True, 9)
    assert base.states["sampler"].settings["temperature"] == 0.7
    assert (base.states["prompt_lookup"].on, base.profile.max_tokens) == (False, None)


def test_a_profile_comes_first_whatever_the_order(board: Boards) -> None:
    made = spec.board_of(board(), {"temperature": "1.2", "profile": "other"}, MAKERS)
    assert (made.profile.name, made.states["sampler"].settings["temperature"]) == ("other", 1.2)


def test_a_preset_replaces_the_sampler(board: Boards, tmp_path: Path) -> None:
    """text-generation-webui's file: what it does not name is off, whatever the base has."""
    preset = tmp_path / "Calm.yaml"
    preset.write_text("temperature: 0.4\nmin_p: 0.2\n", encoding="utf-8")
    base = board(plugins={"sampler": {"on": False, "temperature": 1.5, "top_k": 20, "seed": 3}})
    made = spec.board_of(base, {"preset": str(preset)}, MAKERS)
    settings = made.settings("sampler").effective()
    assert made.states["sampler"].on
    assert [settings[key] for key in ("temperature", "min_p", "top_k", "seed")] == [0.4, 0.2, 0, 3]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("temperature 0.2..1.4 x4", ["0.2", "0.6", "1", "1.4"]),
        ("temperature 1..0 ×3", ["1", "0.5", "0"]),
        ("top_k 20..80 x4", ["20", "40", "60", "80"]),
        ("top_k 1..2 x3", ["1", "2", "2"]),
        ("max_tokens 10..20 x2", ["10", "20"]),
        ("prompt_lookup.max_ngram 2..4 x3", ["2", "3", "4"]),
        ("min_p 0, 0.05,0.1", ["0", "0.05", "0.1"]),
        ("kv_cache.type_k f16,q8_0", ["f16", "q8_0"]),
    ],
)
def test_sweeps(board: Boards, text: str, want: list[str]) -> None:
    columns = spec.sweep(text, board(), 7)
    assert [list(one.values()) for one in columns] == [[value] for value in want]


def test_a_sweep_of_seeds(board: Boards) -> None:
    assert spec.sweep("seed x3", board(), 7) == [{"seed": "7"}, {"seed": "8"}, {"seed": "9"}]
    assert spec.sweep("seeds x2", board(), 2**64 - 1) == [{"seed": str(2**64 - 1)}, {"seed": "0"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("temperature", "cannot be read"),
        ("temperature 0.2..1.4", "cannot be read"),
        ("temperature 0.2..1.4 x9", "2 to 8 columns, not 9"),
        ("temperature 0.2..1.4 x1", "2 to 8 columns, not 1"),
        ("temperature x4", "names no range"),
        ("temperature a..b x4", "not a range of numbers"),
        ("prompt_lookup 0..1 x2", "a switch"),
        ("temprature 0..1 x2", "Did you mean 'temperature'"),
        ("top_k 1,2,3,4,5,6,7,8,9", "at most 8"),
    ],
)
def test_sweeps_that_cannot_be_meant(board: Boards, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        spec.sweep(text, board(), 0)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("temperature", "'temperature' is not name=value"),
        ('a="b', "cannot be read"),
        ("temprature=1", "Did you mean 'temperature'"),
        ("samplr.temperature=1", "unknown plugin 'samplr'"),
        ("kv_cache.nothing=1", "unknown setting of plugin 'kv_cache'"),
        ("temperature=hot", "cannot be used"),
        ("kv_cache=maybe", "on or off"),
        ("max_tokens=0", "whole number above 0"),
        ("profile=nowhere", "unknown profile"),
        ("backend=nothing", "unknown backend"),
        ("preset=/nowhere.json", "Cannot read"),
    ],
)
def test_columns_that_cannot_be_meant(board: Boards, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        make.columns(board(), [{}, spec.parse(text)], MAKERS)
    assert said in str(caught.value)


def test_one_column_is_no_comparison(board: Boards) -> None:
    with pytest.raises(UsageError, match="2 to 8 columns, not 1"):
        make.columns(board(), [{}], MAKERS)


def test_the_grid_shows_what_differs(board: Boards) -> None:
    base = board(plugins={"sampler": {"temperature": 0.7}})
    columns = make.columns(base, [{}, {"sampler.temperature": "1.2"}, {"prompt_lookup": "on"}], MAKERS)
    assert make.grid(columns, base) == [("temperature", ["0.7", "1.2", "0.7"]), ("prompt_lookup", ["off", "off", "on"])]


def test_a_change_that_is_refused_changes_nothing(board: Boards) -> None:
    base = board()
    column = make.column("A", base, {"temperature": "1"}, MAKERS)
    with pytest.raises(UsageError):
        make.change(column, base, {"temperature": "hot"}, MAKERS)
    assert column.changes == {"temperature": "1"}
    make.change(column, base, {"temperature": "0.5"}, MAKERS)
    assert column.title == "temperature=0.5"
