"""The draft model: which models may draft for which, how its session follows, and what happens when it cannot."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fader_backends.base import ContextSpec, Message, ModelSpec
from fader_backends.echo import EchoBackend
from fader_backends.errors import BadValue, NotSupported, OutOfMemory
from fader_backends.kinship import Words
from fader_plugins.draft_model import CLASSES, DraftModel, Plugin, info, kind
from fader_plugins.draft_session import DraftSessions, loader, place, refuse_strangers
from fader_plugins.turn import Drafted, GenerationRequest, PluginState, RequestDraft

NOW = datetime(2026, 1, 1)
ECHO = ModelSpec(backend="echo", options={"noise": 1.0})
WORDS = Words(name="one", kind="gpt2", bos=None, eos=2, texts=tuple(f"t{n}" for n in range(300)))


def echo(**context: Any) -> EchoBackend:
    return EchoBackend(ECHO, ContextSpec(**context), wait=lambda _: None)


def request(
    name: str = "turn", owner: str = "me", change: dict[str, Any] | None = None, **settings: Any
) -> GenerationRequest:
    draft = RequestDraft(
        owner=owner,
        messages=[],
        model=ECHO,
        context=ContextSpec(),
        now=NOW,
        plugins={"draft_model": PluginState(True, {"adaptive": False, **settings})},
    )
    for key, value in (change or {}).items():
        setattr(draft, key, value)
    return draft.freeze(name, 0)


class Talk:
    """A target on echo, greedy, and the plugin beside it; `go` takes a step as the engine does."""

    def __init__(self, said: str, target: EchoBackend | None = None) -> None:
        self.target = target or echo()
        self.plugin = Plugin(info)
        self.plugin.engine_ready(self.target)
        self.history = self.target.chat([Message("user", said)], NOW)
        self.session = self.target.open()
        self.session.extend(self.history, 0)

    def go(self, asked: GenerationRequest, limit: int = 8) -> tuple[list[int], str]:
        answer = self.plugin.propose_tokens(asked, self.history, limit)
        assert answer is not None
        return list(answer.tokens), answer.note

    def say(self, count: int) -> None:
        """Let the target say so many tokens."""
        for _ in range(count):
            self.session.rewind(0)
            self.history.append(int(self.session.extend(self.history, 1)[0].argmax()))

    @property
    def sessions(self) -> DraftSessions:
        assert self.plugin.sessions is not None
        return self.plugin.sessions

    @property
    def evaluated(self) -> int:
        backend = self.sessions.backend
        assert isinstance(backend, EchoBackend)
        return backend.evaluated


def test_it_drafts_what_the_target_will_say() -> None:
    """The first step rests; then it says ahead what the same model says, ends before the end, and reads each token once."""
    talk, asked = Talk("hello you"), request()
    talk.say(1)
    assert talk.go(asked) == ([], "active: one step without a draft, to time it")
    talk.say(1)
    tokens, note = talk.go(asked, limit=4)
    assert bytes(tokens) == b"llo "
    assert note.startswith("active: 4 tokens")
    talk.say(5)
    assert bytes(talk.go(asked)[0]) == b"ou"
    assert talk.evaluated == len(talk.history) + 2
    assert talk.plugin.chances.of(-1) > 0.93


def test_its_session_is_rewound_with_the_target() -> None:
    """Wrong guesses are forgotten; guesses that nobody asked for steps are caught up."""
    talk, asked = Talk("hello you and you"), request()
    talk.go(asked)
    talk.say(2)
    talk.go(asked, limit=6)
    talk.history += [ord("X")]  # the target, sampled, went elsewhere
    talk.say(4)
    tokens, _ = talk.go(asked, limit=3)
    want = list(talk.history)
    talk.say(3)
    assert tokens == talk.history[len(want) :]
    writer = talk.plugin.writers.of(asked, talk.history)
    assert writer.session.tokens == [*want, *tokens][: len(writer.session.tokens)]


def test_the_prompt_is_read_in_chunks() -> None:
    """Each step reads one chunk, so that a cancel never waits for more; meanwhile the turn goes on without drafts."""
    talk, asked = Talk("x" * 100), request(change={"chunk": 30})
    talk.go(asked)
    notes = []
    for _ in range(4):
        talk.say(1)
        tokens, note = talk.go(asked)
        notes.append((len(tokens), note))
    assert [count for count, _ in notes[:3]] == [0, 0, 0]
    assert notes[0][1] == f"reading what was said: {30 / (len(talk.history) - 4):.0%}"
    assert notes[3][0] == 8


def test_the_next_turn_reads_only_what_is_new() -> None:
    """A conversation's session is kept from turn to turn; another conversation never sees it."""
    talk, asked = Talk("hello there"), request("one")
    talk.go(asked)
    talk.say(2)
    talk.go(asked)
    talk.plugin.keep_prefix(asked, talk.session)
    assert list(talk.sessions.idle) == ["me"]
    before = talk.evaluated
    talk.history = [*talk.history, *b"lo"]
    talk.go(request("two"))
    talk.go(request("two"), limit=1)
    assert talk.evaluated - before <= 3
    talk.plugin.keep_prefix(request("two"), talk.session)
    before = talk.evaluated
    talk.history = list(talk.history)
    talk.go(request("three", owner="other"))
    talk.go(request("three", owner="other"), limit=1)
    assert talk.evaluated - before == len(talk.history)


def test_sessions_do_not_run_out() -> None:
    """Idle sessions of other conversations make room; turns that ended unseen lose theirs."""
    talk = Talk("hello", echo(rows=2))
    for number in range(6):
        asked = request(f"turn {number}", owner=f"owner {number}", change={"context": ContextSpec(rows=2)})
        talk.history = list(talk.history)
        talk.go(asked)
        if number % 2:
            talk.plugin.keep_prefix(asked, talk.session)
    assert isinstance(talk.sessions.backend, EchoBackend)
    assert len(talk.sessions.backend.sessions) <= 2


def test_it_stops_below_p_min_at_the_context_end_and_when_idle() -> None:
    """No guess of a draft that is unsure, none beyond the context, none where it cannot pay, each with its reason."""
    talk = Talk("hello you", echo(length=24))
    unsure = request(p_min=1.0)
    talk.go(unsure)
    assert talk.go(unsure)[0] == []
    asked = request("next")
    talk.go(asked)
    assert len(talk.go(asked)[0]) == 8
    talk.say(9)
    full = request("full")
    talk.history += [0] * (24 - len(talk.history))
    assert talk.go(full) == ([], "idle: no room")
    paying = Talk("hello you")
    paying.plugin.measured_ms = None
    assert paying.go(request(adaptive=True))[1].startswith("active")
    paying.plugin.measured_ms = 23.0  # as dear as the target's own tokens
    tokens, note = paying.go(request("idle", adaptive=True))
    assert not tokens
    assert note.startswith("idle: drafts would take 1.")


def test_freed_with_its_target_and_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another target or another draft frees the one that is loaded."""
    closed = []
    monkeypatch.setattr(EchoBackend, "close", lambda self: closed.append(self))
    talk, asked = Talk("hello"), request()
    talk.go(asked)
    first = talk.sessions.backend
    talk.go(request(model="other"))
    assert closed == [first]
    second = talk.sessions.backend
    talk.plugin.engine_ready(echo())
    assert closed == [first, second]
    assert talk.plugin.sessions is None


def test_a_stranger_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary of another size is refused by name, and nothing stays loaded."""
    target, closed = echo(), []
    target.facts = msgspec.structs.replace(target.facts, vocabulary=600, model="big")
    monkeypatch.setattr(EchoBackend, "close", lambda self: closed.append(self))
    with pytest.raises(
        BadValue,
        match=r"echo cannot draft for big\. Their vocabularies differ: they have 600 and 260 tokens, more than 128",
    ):
        DraftSessions(target, ECHO, "", {})
    assert len(closed) == 1
    with pytest.raises(NotSupported, match="cannot load a draft"):
        loader("openai")


def test_a_larger_draft_warns() -> None:
    """It drafts, and says with every note that it is the larger one."""
    target = echo()
    target.facts = msgspec.structs.replace(target.facts, size_bytes=-1, model="small")
    talk = Talk("hello", target)
    _, note = talk.go(request())
    assert note.startswith("echo (0 MiB) is larger than small (-0 MiB), for which it drafts; active")


def test_names_beside_the_target(tmp_path: Path) -> None:
    """A name is a path, or a file beside the chat's model, with or without its ending."""
    target = echo()
    target.facts = msgspec.structs.replace(target.facts, path=str(tmp_path / "big.gguf"))
    (tmp_path / "small.gguf").write_bytes(b"")
    for name in ("small", "small.gguf", str(tmp_path / "small.gguf")):
        assert place(name, target) == str(tmp_path / "small.gguf")
    assert place("", target) == ""
    assert place("nowhere", target) == "nowhere"


def test_certainty_classes() -> None:
    """From 0 to 1 in eight."""
    assert [kind(p) for p in (0.0, 0.1249, 0.125, 0.99, 1.0)] == [0, 0, 1, CLASSES - 1, CLASSES - 1]
    assert DraftModel().adaptive


def test_refusals_name_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files with other vocabularies are named by their models."""
    monkeypatch.setattr("fader_backends.kinship.read", lambda path: msgspec.structs.replace(WORDS, kind=path[:-5]))
    target, draft = echo(), echo()
    target.facts = msgspec.structs.replace(target.facts, path="llama.gguf", model="Big 7B")
    draft.facts = msgspec.structs.replace(draft.facts, path="gpt2.gguf", model="Small 1B")
    with pytest.raises(BadValue, match=r"Small 1B cannot draft for Big 7B.*different kinds \(llama and gpt2\)"):
        refuse_strangers(target, draft)


def test_no_rows_left_is_an_error() -> None:
    """With every row of the draft in use by running turns there is nothing to give up."""
    sessions = DraftSessions(echo(rows=1), ECHO, "", {})
    sessions.writer(request())
    with pytest.raises(OutOfMemory):
        sessions.writer(request("other", owner="other"))


def test_events_teach_the_costs() -> None:
    """Drafted events reach the cost curve; others are ignored."""
    made = Plugin(info)
    event = Drafted(request_id="t", at_ns=0, step=1, proposed=0, kept=0, draft_ns=0, verify_ns=5_000_000, batch=1)
    made.observe(event)
    assert made.pace.costs.ms(1) == pytest.approx(5)
