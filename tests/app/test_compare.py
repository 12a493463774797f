"""`fader compare` as a person calls it: columns on stdout, the rest on stderr, stored, exported, refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from fader.paths import Paths
from fader.store import Store

from tests.app.ticking import ticking

Fader = Callable[..., Result]


def compare(fader: Fader, *arguments: str, stdin: str | None = None) -> Result:
    return fader("compare", *arguments, "-p", "echo", stdin=stdin)


def test_columns_and_numbers(fader: Fader) -> None:
    result = compare(fader, "hello world", "-c", "", "-c", "max_tokens=5")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[:5] == ["--- A: as it is", "hello world", "", "--- B: max_tokens=5", "hello"]
    assert ["finish", "end", "length"] in [line.split() for line in lines]
    assert lines[-1].startswith("run together, in one batch where nothing must be loaded; echo, profile echo, seed ")
    assert result.stderr == "fader: kept as comparison 1: fader compare show 1, or /compare #1 in the chat\n"


def test_the_json_object_is_an_interface(fader: Fader) -> None:
    result = compare(fader, "hello", "--sweep", "seed x3", "--seed", "5", "--on", "sampler", "--json", "--no-store")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert list(found) == [
        "prompt", "created", "profile", "model", "mode", "seed", "kept", "columns", "versions"
    ]  # fmt: skip
    assert [(one["letter"], one["title"], one["seed"], one["text"]) for one in found["columns"]] == [
        ("A", "seed=5", 5, "hello"),
        ("B", "seed=6", 6, "hello"),
        ("C", "seed=7", 7, "hello"),
    ]
    documented = (Path(__file__).parents[2] / "app" / "COMPARE_JSON.md").read_text(encoding="utf-8")
    fields = {*found, *found["columns"][0], *found["columns"][0]["figures"], "at", "before", "first", "own", "cause"}
    assert not [field for field in sorted(fields) if f"`{field}`" not in documented]


def test_a_question_from_a_pipe(fader: Fader) -> None:
    result = compare(fader, "-c", "", "-c", "max_tokens=3", stdin="piped")
    assert "piped" in result.stdout


def test_stored_listed_shown_and_exported(fader: Fader, tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    compare(fader, "say this", "-c", "", "-c", "max_tokens=3", "--export", str(page))
    assert "say this" in page.read_text(encoding="utf-8")
    listed = fader("compare", "list").stdout.splitlines()
    assert listed[1].split()[0] == "1"
    assert listed[1].endswith("2        say this")
    shown = fader("compare", "show", "1")
    assert shown.stdout.startswith("--- A: as it is\nsay this\n")
    again = fader("compare", "show", "1", "--export", str(tmp_path / "y.md"))
    assert again.stdout == f"{tmp_path / 'y.md'}\n"
    assert json.loads(fader("compare", "show", "1", "--json").stdout)["prompt"] == "say this"


def test_results(fader: Fader, user: Paths) -> None:
    empty = fader("compare", "results")
    assert (empty.stdout, empty.exit_code) == ("", 0)
    assert "no blind choices yet" in empty.stderr
    store = Store.open(user.database, ticking())
    store.choose("temperature=0.2", ["temperature=0.2", "temperature=1"])
    store.close()
    lines = fader("compare", "results").stdout.splitlines()
    assert lines[0].split() == ["setting", "shown", "won", "share", "95", "%", "interval", "by", "chance"]
    assert lines[1].split() == ["temperature=0.2", "1", "1", "100%", "21%", "to", "100%", "50%"]
    assert json.loads(fader("compare", "results", "--json").stdout)[0]["won"] == 1


def test_columns_that_differ_in_nothing_are_named(fader: Fader) -> None:
    result = compare(fader, "x", "-c", "", "-c", "seed=3", "-c", "temperature=0", "--no-store")
    assert result.exit_code == 0
    assert result.stderr == "fader: A and B differ in nothing: 'as it is' and 'seed=3'.\n"


def test_a_column_whose_model_is_missing(fader: Fader) -> None:
    """The others answer; the exit code says that one did not."""
    result = compare(fader, "hello", "-c", "", "-c", "backend=llama.cpp model=/nowhere/x.gguf", "--no-store")
    assert result.exit_code == 1
    assert "--- A: as it is\nhello" in result.stdout
    assert "fader: column B (backend=llama.cpp model=/nowhere/x.gguf): There is no model file" in result.stderr


def test_a_setting_that_a_backend_does_not_know(fader: Fader) -> None:
    result = compare(fader, "hello", "-c", "", "-c", "tensor_split=on", "--no-store")
    assert result.exit_code == 0
    assert "fader: column B (tensor_split=on): tensor_split does nothing here: " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x"], "A comparison has 2 to 8 columns, not 0."),
        (["x", "-c", "temprature=1", "-c", ""], "unknown setting 'temprature'. Did you mean 'temperature'?"),
        (["x", "--sweep", "temperature"], "The sweep 'temperature' cannot be read."),
        (["x", "--sweep", "seed x9"], "A sweep has 2 to 8 columns, not 9."),
        (["x", "--sweep", "seed x8", "-c", ""], "A comparison has 2 to 8 columns, not 9."),
        (["x", "-c", "", "-c", "seed=1", "--export", "x.pdf"], "x.pdf does not say what to write."),
        (["x", "-c", "", "-c", "profile=nope"], "unknown profile 'nope'."),
        (["", "-c", "", "-c", "seed=1"], "There is nothing to ask."),
        (["x", "--fare"], "No such option"),
    ],
)
def test_what_cannot_be_meant(fader: Fader, arguments: list[str], said: str) -> None:
    result = compare(fader, *arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.count("\n") == 1
    assert said in result.stderr


def test_numbers_that_are_not_there(fader: Fader) -> None:
    result = fader("compare", "show", "7")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "fader: unknown comparison '7'. Known: none.\n"


def test_fair_timing(fader: Fader) -> None:
    found = json.loads(compare(fader, "hello", "-c", "", "-c", "seed=1", "--fair", "--json", "--no-store").stdout)
    assert found["mode"] == "one at a time, ABAB"
    assert [column["figures"]["runs"] for column in found["columns"]] == [2, 2]
