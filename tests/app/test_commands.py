from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from click.testing import Result
from fader.commands.chat import last_start
from fader.paths import Paths
from fader.profiles import load
from fader.store import Store

Fader = Callable[..., Result]


def test_profiles(fader: Fader, user: Paths) -> None:
    listed = fader("profiles", "list").stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["NAME", "default", "echo", "exact", "plain", "torch"]
    made = fader("profiles", "new", "mine", "--from", "exact")
    assert made.stdout == f"{user.profiles / 'mine.toml'}\n"
    assert fader("profiles", "path", "mine").stdout == made.stdout
    shown = fader("profiles", "show", "mine").stdout
    assert 'flash_attention = "on"' in shown
    assert f"# from {user.profiles / 'mine.toml'}" in shown
    again = fader("profiles", "new", "mine")
    assert again.exit_code == 1
    assert "is there already. Edit it, or choose another name." in again.stderr
    (user.profiles / "bad.toml").write_text("x = ")
    result = fader("profiles", "list")
    assert result.exit_code == 0
    assert "bad      yours     cannot be used: " in result.stdout
    (user.profiles / "bad.toml").write_text("[plugins.sampler]\ntemperatur = 1\n")
    assert "Did you mean 'temperature'?" in fader("profiles", "list").stdout


@pytest.mark.parametrize("profile", ["default", "plain", "exact", "echo", "torch"])
def test_a_shipped_profile_says_where_every_built_in_switch_stands(fader: Fader, user: Paths, profile: str) -> None:
    result = fader("plugins", "list", "--json", "-p", profile)
    switches = {row["name"] for row in json.loads(result.stdout) if row["state"] != "always"}
    assert set(load(profile, user).plugins) == switches


def test_plugins(fader: Fader, user: Paths) -> None:
    user.plugins.mkdir(parents=True)
    (user.plugins / "broken.py").write_text("raise SystemExit(3)\n")
    rows = {row["name"]: row for row in json.loads(fader("plugins", "list", "--json", "-p", "plain").stdout)}
    assert {"sampler", "kv_cache", "prefix_cache", "timing", "broken"} <= set(rows)
    assert set(rows["sampler"]) == {"name", "summary", "origin", "hooks", "import_ms", "state", "problem"}
    assert (rows["sampler"]["state"], rows["sampler"]["hooks"]) == ("off", ["plan_request"])
    assert rows["known_backends"]["state"] == "always"
    assert rows["broken"]["state"] == "broken"
    table = fader("plugins", "list").stdout.splitlines()
    assert table[0].split("  ")[0] == "NAME"
    assert any(line.startswith("sampler") and " on " in line for line in table)


def test_log(fader: Fader, user: Paths) -> None:
    result = fader("log")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "fader: no conversations yet.\n"
    assert fader("log", "--json").stdout == "[]\n"
    assert not user.data.exists(), "looking makes nothing"

    store = Store.open(user.database, datetime.now)
    chat = store.create("default")
    leaf: int | None = None
    for number in range(4):
        question = store.add(chat.id, leaf, "user", f"question {number}")
        leaf = store.add(chat.id, question.id, "assistant", f"answer {number}", state="cancelled").id
    store.update(leaf or 0, content="answer 3", ids=None, state="complete", record=b'{"numbers": {"ttft_ms": 12.4}}')
    store.close()

    shown = fader("log", "-n", "2").stdout
    assert "question 1" not in shown
    assert shown.index("(cancelled)") < shown.index("> question 3")
    assert "TTFT 12 ms" in shown
    rows = json.loads(fader("log", "--json").stdout)
    assert [row["question"] for row in rows] == [f"question {number}" for number in range(4)]
    assert rows[-1]["numbers"] == {"ttft_ms": 12.4}
    hits = json.loads(fader("log", "answer 2", "--json").stdout)
    assert [(hit["role"], hit["snippet"]) for hit in hits] == [("assistant", "answer 2")]
    assert fader("log", "zebra").stderr == "fader: nothing found.\n"


def test_log_of_a_damaged_database(fader: Fader, user: Paths) -> None:
    user.data.mkdir(parents=True)
    user.database.write_text("not a database " * 100)
    result = fader("log")
    assert result.exit_code == 0
    assert "was damaged" in result.stderr
    assert len(list(user.data.glob("fader.db.damaged-*"))) == 1


def test_paths(fader: Fader, user: Paths) -> None:
    assert fader("paths", "database").stdout == f"{user.database}\n"
    assert str(user.log) in fader("paths").stdout


def test_help(fader: Fader) -> None:
    for flag in ("-h", "--help"):
        for command in ([], ["run"], ["profiles"], ["profiles", "new"], ["plugins", "list"], ["log"], ["paths"]):
            result = fader(*command, flag)
            assert result.exit_code == 0
            assert result.stdout.startswith(f"Usage: {' '.join(['fader', *command])}")
    assert fader("--version").stdout.startswith("fader 0.")


def test_going_on_takes_the_profile_of_the_last_chat(user: Paths) -> None:
    """`fader -c` goes on with the profile a chat was held with, unless it is gone; without a store with the default."""
    assert last_start(user) == ("", "")
    store = Store.open(user.database, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for profile, want in (("plain", "plain"), ("gone", "")):
        chat = store.create(profile)
        store.add(chat.id, None, "user", "hello")
        assert last_start(user) == (want, "")
        store.delete(chat.id)
    store.close()


def test_going_on_takes_the_model_of_the_last_chat(user: Paths, tmp_path: Path) -> None:
    """The last turn's, as long as the file is there; a record nobody can read names none."""
    file = tmp_path / "other.gguf"
    file.touch()
    store = Store.open(user.database, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    chat = store.create("plain")
    asked = store.add(chat.id, None, "user", "hello")
    said = store.add(chat.id, asked.id, "assistant", "hi")
    for record, want in (
        (msgspec.json.encode({"request": {"model": {"model": str(file)}}}), str(file)),
        (msgspec.json.encode({"request": {"model": {"model": str(tmp_path / "gone.gguf")}}}), ""),
        (b"damaged", ""),
    ):
        store.update(said.id, content="hi", ids=None, state="done", record=record)
        assert last_start(user) == ("plain", want)
    store.close()


def test_asking_for_the_last_profile_leaves_a_damaged_store_to_the_screen(user: Paths) -> None:
    """The file stays where it is, so that whoever opens it next keeps it aside and says so."""
    user.database.parent.mkdir(parents=True)
    user.database.write_bytes(b"this is not a database\n" * 50)
    assert last_start(user) == ("", "")
    assert [path.name for path in user.database.parent.iterdir()] == [user.database.name]
    store = Store.open(user.database, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    assert store.notice is not None
    store.close()
