"""Turns through the engine: what regenerating, editing, branching and restarting find again, and what they never find."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest
from fader.headless import Headless
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_backends.echo import EchoSession
from fader_backends.errors import NotSupported, OutOfMemory
from fader_plugins.prefix.folder import Folder
from fader_plugins.prefix.radix import Found, Ids
from fader_plugins.prefix.shelf import Place
from fader_plugins.registry import Registry

from .conftest import CACHES, LONG, NOW, Talk, user


def cold(talk: Talk, messages: list[Message]) -> list[Message]:
    """The same turn with nothing kept."""
    with Headless(talk.registry) as engine:
        other = Talk(talk.registry, Switchboard(talk.registry, talk.board.profile))
        other.board.switch("prefix_cache", False)
        other.engine.close()
        other.engine = engine
        return other.say(messages, "somebody else")


def first_turns(talk: Talk) -> tuple[list[Message], list[Message]]:
    """Return two branches that share their first exchange; the session holds the second."""
    begun = talk.say([user(LONG)])
    one = talk.say([*begun, user("the first way on " + LONG)])
    two = talk.say([*begun, user("another way on " + LONG)])
    return one, two


def count(talk: Talk, messages: list[Message]) -> int:
    backend = talk.engine.engine.model.backend
    assert backend is not None
    return len(backend.chat(messages, NOW))


@pytest.mark.parametrize("kept", CACHES)
def test_the_next_turn_and_regenerating_reuse_the_session(talk: Talk, kept: str) -> None:
    talk.set(**CACHES[kept])
    begun = talk.say([user(LONG)])
    assert talk.reused == (0, "")
    again = talk.say([user(LONG)])
    assert talk.reused == (count(talk, begun[:1]) - 1, "session")
    assert again == begun
    talk.say([*begun, user("more")])
    assert talk.reused[0] >= count(talk, begun[:1]) + 19
    assert talk.note == ""


def test_where_the_session_has_nearly_all_the_disk_is_not_looked_at(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.set(**CACHES["disk"])
    begun = talk.say([user(LONG)])
    looked: list[Ids] = []
    nearest = Folder.nearest

    def spy(self: Folder, place: Place, tokens: Ids) -> Iterator[Found[str]]:
        looked.append(tokens)
        return nearest(self, place, tokens)

    monkeypatch.setattr(Folder, "nearest", spy)
    monkeypatch.setattr(talk.tiers, "keep", lambda *_: None)
    talk.say([*begun, user("more")])
    assert (talk.reused[1], looked) == ("session", [])
    talk.say([user("something else " + LONG)])
    assert looked


@pytest.mark.parametrize("kept", [name for name in CACHES if name != "session only"])
def test_switching_branches_finds_both_again(talk: Talk, kept: str) -> None:
    talk.set(**CACHES[kept])
    one, two = first_turns(talk)
    ends = []
    for branch in (one, two) * 2:
        assert talk.tiers.disk.flush(10)
        ends.append(talk.say([*branch, user("go on")]))
        assert talk.reused[0] >= count(talk, branch) - 3, talk.note
    for messages in ends:
        assert messages[-1] == cold(talk, messages[:-1])[-1]
    assert talk.reused[1] == kept or kept == "live"


def test_without_tiers_a_branch_shares_its_beginning(talk: Talk) -> None:
    talk.set(**CACHES["session only"])
    begun = talk.say([user(LONG)])
    talk.say([*begun, user("one " + LONG)])
    talk.say([*begun, user("two " + LONG)])
    assert talk.reused == (count(talk, begun[:1]) + 22, "session")
    assert "'one" in talk.note
    assert "'two" in talk.note
    assert "message 3 is another one" in talk.note


def test_a_restart_resumes_from_disk(talk: Talk) -> None:
    begun = talk.say([user(LONG)])
    longer = talk.say([*begun, user(LONG)])
    talk.restart()
    resumed = talk.say([*longer, user("now")])
    tokens, tier = talk.reused
    assert tier == "disk"
    assert tokens >= count(talk, longer) - 3
    assert resumed[-1] == cold(talk, [*longer, user("now")])[-1]
    talk.say([*resumed, user("then")])
    assert talk.reused[1] == "session"


def test_no_owner_gets_anothers(talk: Talk) -> None:
    """Law 11, through every tier."""
    begun = talk.say([user(LONG)])
    talk.say([*begun, user("one " + LONG)])
    talk.say([*begun, user("two " + LONG)])
    for _ in range(2):
        for message in (begun, [*begun, user("one " + LONG)]):
            talk.say(message, owner=f"thief {talk._count}")
            assert talk.reused == (0, "")
        talk.restart()


def test_a_new_system_prompt_is_shared_also_when_all_rows_are_in_use(talk: Talk) -> None:
    """More conversations than rows: each system prompt is found by the next conversation below it."""
    talk.set(share=True, live_rows=0)
    for number in range(6):
        system = Message("system", f"{number} {LONG}")
        talk.say([system, user("one")], f"first {number}")
        held = talk.say([system, user("two")], f"second {number}")
        assert talk.reused[1] == "memory", number
        talk.say([*held, user("more")], f"second {number}")
        assert talk.reused[0] > count(talk, held[:2]), "the conversation kept what it had"


def test_the_system_prompt_is_shared_only_on_purpose(talk: Talk) -> None:
    system = Message("system", "You are " + LONG)
    talk.set(share=True)
    private = talk.say([system, user("secret " + LONG)], owner="one")
    talk.say([system, user("secret " + LONG)], owner="two")
    assert talk.reused == (len(system.content) + 3, "memory"), "the system prompt and the mark after it, no word more"
    talk.restart()
    talk.say([system, user("secret")], owner="three")
    assert talk.reused == (len(system.content) + 3, "disk")
    talk.set(share=False)
    talk.say([system, user("secret")], owner="four")
    assert talk.reused == (0, "")
    talk.set(share=True, live_rows=3)
    talk.say(private[:2], owner="five")
    assert talk.reused[0] == len(system.content) + 3


def test_another_context_or_model_is_another_place(talk: Talk, board: Callable[..., Switchboard]) -> None:
    begun = talk.say([user(LONG)])
    talk.board.profile = msgspec.structs.replace(talk.board.profile, load={"noise": 2.0})
    talk.say([*begun, user("more")])
    assert talk.reused == (0, "")
    assert "another model or context" in talk.note


def test_nothing_kept_while_state_is_not(talk: Talk) -> None:
    talk.board.switch("kv_cache", False)
    talk.say([user(LONG)])
    assert (len(talk.tiers.live), len(talk.tiers.memory), talk.tiers.disk.size()[0]) == (0, 0, 0)


def test_short_prefixes_are_not_kept(talk: Talk) -> None:
    talk.set(min_tokens=100)
    talk.say([user("hi")])
    assert len(talk.tiers.memory) == 0
    assert talk.tiers.disk.flush(10)
    assert talk.tiers.disk.size()[0] == 0


def test_little_that_is_new_is_not_saved_again(talk: Talk) -> None:
    begun = talk.say([user(LONG * 20)])
    assert talk.tiers.disk.flush(10)
    (before,) = talk.tiers.disk.path.iterdir()
    again = talk.say([*begun, user("x")])
    assert talk.tiers.disk.flush(10)
    assert list(talk.tiers.disk.path.iterdir()) == [before]
    talk.say([*again, user(LONG)])
    assert talk.tiers.disk.flush(10)
    (after,) = talk.tiers.disk.path.iterdir()
    assert after != before


def test_rows_are_given_back(talk: Talk) -> None:
    """Spare rows never keep a conversation out."""
    talk.set(live_rows=3, memory_mib=0, disk_mib=0)
    begun = talk.say([user(LONG)])
    for n in range(4):
        talk.say([*begun, user(f"{n} {LONG}")])
    assert len(talk.tiers.live) == 3
    for n in range(4):
        talk.say([user(LONG)], owner=f"{n}")
    assert talk.reused == (0, "")


def test_budgets_act_at_once(talk: Talk) -> None:
    first_turns(talk)
    assert len(talk.tiers.live) == 1
    assert len(talk.tiers.memory) > 0
    talk.set(live_rows=0, memory_mib=0)
    talk.say([user("x")])
    assert (len(talk.tiers.live), len(talk.tiers.memory)) == (0, 0)


def test_models_that_cannot_take_tokens_back(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recurrent model: whole turns are reused, everything else is evaluated again, and never wrong."""

    def rewind(self: EchoSession, length: int) -> None:
        if 0 < length < len(self.tokens):
            raise NotSupported("This model cannot take tokens back.")
        del self.tokens[length:]

    monkeypatch.setattr(EchoSession, "rewind", rewind)
    begun = talk.say([user(LONG)])
    again = talk.say([user(LONG)])
    assert again == begun
    assert talk.reused == (0, "")
    assert "cannot take tokens back" in talk.note
    longer = talk.say([*begun, user("one " + LONG)])
    assert talk.reused == (count(talk, begun[:1]) + 19, "session")
    other = talk.say([*begun, user("two " + LONG)])
    assert talk.reused[0] == count(talk, begun[:1]) + 19, "the first exchange is a checkpoint"
    assert talk.reused[1] in ("live", "memory")
    resumed = talk.say([*longer, user("go on")])
    assert talk.reused[0] >= count(talk, longer) - 3
    for messages in (longer, other, resumed):
        monkeypatch.undo()
        assert messages[-1] == cold(talk, messages[:-1])[-1]
        monkeypatch.setattr(EchoSession, "rewind", rewind)


@pytest.mark.parametrize("error", [NotSupported("no"), OutOfMemory("no")])
@pytest.mark.parametrize("verb", ["save", "load", "fork", "copy"])
def test_a_verb_that_fails_costs_time_only(
    talk: Talk, monkeypatch: pytest.MonkeyPatch, verb: str, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(EchoSession, verb, fails)
    one, two = first_turns(talk)
    back = talk.say([*one, user("go on")])
    assert talk.reused[0] > 0
    monkeypatch.undo()
    assert back[-1] == cold(talk, [*one, user("go on")])[-1]
    assert two[-1] == cold(talk, two[:-1])[-1]


def test_two_engines_in_one_process(talk: Talk, registry: Registry) -> None:
    """Rows of one are of no use to the other, and of no harm."""
    one, two = first_turns(talk)
    other = Talk(registry, talk.board)
    other.say([*one, user("go on")])
    back = talk.say([*one, user("go on")])
    assert back[-1] == cold(talk, [*one, user("go on")])[-1]
    other.engine.close()
    assert two


def test_the_folder_is_the_apps_cache(talk: Talk) -> None:
    import os

    from fader.paths import Paths

    talk.say([user(LONG)])
    assert talk.tiers.disk.path == Paths.from_environment(os.environ).cache / "prefixes"
    assert isinstance(talk.tiers.disk, Folder)
