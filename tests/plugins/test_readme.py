"""The guide's plugins work: each is loaded from a folder and takes part in a turn on echo."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fader.headless import Headless
from fader.metrics import Stats
from fader.profiles import Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_backends.echo import EchoBackend
from fader_plugins.calls import Hooks
from fader_plugins.registry import build
from fader_plugins.testing import check_toggles, reply
from fader_plugins.turn import AnyEvent, PluginFault, RequestDraft, Restored

README = Path(__file__).parents[2] / "plugins" / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
PLUGINS = {
    re.search(r'PluginInfo\(name="(\w+)"', block)[1]: block  # type: ignore[index]
    for block in BLOCKS
    if "PluginInfo(name=" in block
}
NOW = datetime(2026, 1, 1)
MAX_LINES = 40


class Bench:
    """One of the guide's plugins in a folder, with an engine and a switchboard."""

    def __init__(self, folder: Path, name: str, backend: str = "echo") -> None:
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(PLUGINS[name], encoding="utf-8")
        self.registry = build(folder)
        assert not self.registry.problems
        profile = Profile(name="test", backend=backend, load={"noise": 0.0})
        self.board = Switchboard(self.registry, profile)
        self.engine = Headless(self.registry)
        self.stats: Stats | None = None
        self.owner = "me"

    def say(self, said: str | Sequence[Message]) -> list[AnyEvent]:
        messages = [Message("user", said)] if isinstance(said, str) else said
        request = self.board.plan(self.owner, messages, NOW).freeze("turn", 0)
        events = self.engine.run(request)
        assert not [event for event in events if isinstance(event, PluginFault)]
        self.stats = Stats(request=request)
        for event in events:
            self.stats.fold(event)
        return events


def brief(bench: Bench) -> None:
    """Off it does nothing; on it cuts the reply at its setting."""
    assert reply(bench.say("x" * 90))[0] == "x" * 90
    bench.board.switch("brief", True)
    assert reply(bench.say("x" * 90))[0] == "x" * 60
    bench.board.set("brief", "tokens", "7")
    assert reply(bench.say("x" * 90))[0] == "x" * 7


def shout(bench: Bench) -> None:
    """Its backend answers in capitals, and caches work on it."""
    text, ids = reply(bench.say("hello"))
    assert text == "HELLO"
    assert (
        reply(bench.say([Message("user", "hello"), Message("assistant", text, ids), Message("user", "you")]))[0]
        == "YOU"
    )


def bookmarks(bench: Bench) -> None:
    """Going back to an edited-away beginning reuses all of it, and replies stay right."""
    for said, least in (("one" * 9, 0), ("two" * 9, 1), ("one" * 9, 28)):
        events = bench.say(said)
        assert reply(events)[0] == said
        (restored,) = [event for event in events if isinstance(event, Restored)]
        assert restored.by == "bookmarks"
        assert restored.reused >= least


def words(bench: Bench) -> None:
    """Its row stands in the overlay with the turn's number in it."""
    bench.say("hello")
    assert bench.stats is not None
    numbers = bench.stats.numbers()
    rows = {
        row.key: row
        for row in Hooks(bench.registry, ["words"], lambda *fault: pytest.fail(str(fault))).readings(numbers)
    }
    assert numbers.decode_tps is not None
    assert numbers.decode_tps * 45 == pytest.approx(rows["words"].value)


def again(bench: Bench) -> None:
    """A text of few words takes far fewer steps, says the same, and carries the note."""
    said = "lighthouse keepers keep lighthouses; lighthouse keepers sleep in lighthouses " * 2
    bench.board.switch("again", False)
    assert reply(bench.say(said))[0] == said
    bench.board.switch("again", True)
    assert reply(bench.say(said))[0] == said
    assert bench.stats is not None
    numbers = bench.stats.numbers()
    assert numbers.steps < 0.6 * numbers.output_tokens
    assert numbers.drafts["again"].note.endswith(" words known")


def luck(bench: Bench) -> None:
    """It counts what another plugin's drafts came to, step by step."""
    bench.board.switch("prompt_lookup", True)
    bench.board.set("prompt_lookup", "adaptive", False)
    said = "row your boat, " * 5
    assert reply(bench.say(said))[0] == said
    counted: Any = bench.registry.implementation("luck")
    assert bench.stats is not None
    mine = bench.stats.numbers().drafts["prompt_lookup"]
    assert counted.proposed == {"prompt_lookup": mine.proposed}
    assert counted.kept == {"prompt_lookup": mine.kept}
    assert mine.kept > 0


def patient(bench: Bench) -> None:
    """In the first turn typeahead is asked in its place; from the second on it answers first."""
    bench.board.switch("typeahead", False)
    first = bench.board.plan("me", [Message("user", "a b c")], NOW)
    later = bench.board.plan("me", [Message("user", "x"), Message("assistant", "y"), Message("user", "a b c")], NOW)
    assert bench.board.look_ahead(first, "a b c") is None
    assert bench.board.look_ahead(later, "a b c") == "a b"


def warm_up(bench: Bench) -> None:
    """Switched on, it evaluates a token when the model is loaded, and gives its row back."""
    counts = []
    for on in (False, True):
        bench.board.switch("warm_up", on)
        with Headless(bench.registry) as bench.engine:
            bench.say("hello")
            backend = bench.engine.engine.model.backend
            assert isinstance(backend, EchoBackend)
            counts.append(backend.evaluated)
            assert len(backend.sessions) == 1
    assert counts[0] + 1 == counts[1]


def opening(bench: Bench) -> None:
    """Starting over after other turns finds the first one again."""
    text, ids = reply(bench.say("one" * 9))
    begun = [Message("user", "one" * 9), Message("assistant", text, ids)]
    bench.board.switch("prefix_cache", False)
    for _ in range(2):
        bench.say([Message("user", "two"), Message("assistant", "two"), Message("user", "other")])
        events = bench.say([*begun, Message("user", "three")])
        assert reply(events)[0] == "three"
        (restored,) = [event for event in events if isinstance(event, Restored)]
        assert (restored.by, restored.tier, restored.reused) == ("opening", "opening", 57)


def spare(bench: Bench) -> None:
    """It holds a row between turns, and conversations that need it get it."""
    bench.board.set("prefix_cache", "live_rows", 0)
    for number in range(6):
        assert reply(bench.say(f"hello {number}"))[0] == f"hello {number}"
        bench.owner = f"{number}"
    backend = bench.engine.engine.model.backend
    assert isinstance(backend, EchoBackend)
    assert len(backend.sessions) == backend.context.rows


EXERCISES: dict[str, Callable[[Bench], None]] = {
    "brief": brief,
    "shout": shout,
    "bookmarks": bookmarks,
    "patient": patient,
    "again": again,
    "luck": luck,
    "words": words,
    "warm_up": warm_up,
    "opening": opening,
    "spare": spare,
}


@pytest.mark.parametrize("name", EXERCISES)
def test_plugin_of_the_guide(tmp_path: Path, name: str) -> None:
    """A plugin of the guide loads without a problem, is short, and does what it says in real turns."""
    bench = Bench(tmp_path / "plugins", name, "shout" if name == "shout" else "echo")
    with bench.engine:
        EXERCISES[name](bench)
    assert PLUGINS[name].count("\n") <= MAX_LINES


def test_all_plugins_of_the_guide_are_exercised() -> None:
    """A plugin added to the guide must be added here."""
    assert set(EXERCISES) == set(PLUGINS)


def test_test_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test that the guide shows passes, in a folder as it describes."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "brief.py").write_text(PLUGINS["brief"])
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in BLOCKS if "def test_" in block]
    namespace: dict[str, Any] = {}
    exec(compile(block, str(README), "exec"), namespace)
    namespace["test_brief"]()


def test_bookmarks_change_no_reply(tmp_path: Path) -> None:
    """Law 3 for the guide's cache: with it, without it, and with the built-in one off, the ids are the same."""
    bench = Bench(tmp_path / "plugins", "bookmarks")

    def plan(switches: Any) -> RequestDraft:
        for name, on in switches.items():
            bench.board.switch(name, on)
        return bench.board.plan("me", [], NOW)

    names = ("bookmarks", "kv_cache")
    check_toggles(lambda: Headless(bench.registry).run, plan, names, ("one", "two", "three"))
