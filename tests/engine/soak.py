"""A conversation that a restless person might have: turns, edits, branches, regenerations, stops, by chance.

Knows how to choose and to run the next turn, not what must hold of it. `python -m tests.engine.soak` runs it in fast mode and
prints where replies part, with the gap between the two best logits there.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from fader.headless import Headless
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Backend, Message
from fader_plugins import prefix_cache
from fader_plugins.registry import Registry, build
from fader_plugins.turn import AnyEvent, Finished, PluginFault, Restored, Token

NOW = datetime(2026, 1, 2, 3, 4, 5)
OWNERS = ("ann", "bob")
TEXTS = (
    "Name three colours of the evening sky.",
    "Tell me a story about a lighthouse keeper and her dog, in a few words.",
    "Why?",
    "Repeat the last sentence.",
    "Now say it as a child would, and keep every number in it: 17, 23, 42.",
)
SYSTEMS = (None, "You are a patient teacher who answers in short sentences and never in lists.")
BUDGETS = (
    {"live_rows": 1, "memory_mib": 512, "disk_mib": 64},
    {"live_rows": 2, "memory_mib": 0, "disk_mib": 0},
    {"live_rows": 0, "memory_mib": 4, "disk_mib": 0},
    {"live_rows": 0, "memory_mib": 0, "disk_mib": 3},
    {"live_rows": 1, "memory_mib": 3, "disk_mib": 3},
)
LONGEST = 9
"""Messages after which a conversation starts anew."""


class Turn(NamedTuple):
    """One turn as it ended."""

    number: int
    kind: str
    owner: str
    messages: list[Message]
    ids: tuple[int, ...]
    reason: str
    restored: Restored


class Soak:
    """Random turns of several owners on one engine, all switches on."""

    def __init__(self, registry: Registry, board: Switchboard, seed: int, stop_chance: float = 0.15) -> None:
        self.registry = registry
        self.board = board
        self.chance = random.Random(seed)
        self.stop_chance = stop_chance
        self.engine = Headless(registry, self._watch)
        self.branches: dict[str, list[list[Message]]] = {owner: [] for owner in OWNERS}
        self._cancel_after = 0
        self._request = ""

    def turns(self, count: int) -> Iterator[Turn]:
        """Run so many turns."""
        for number in range(count):
            if self.chance.random() < 0.1:
                self._restart()
            for key, value in self.chance.choice(BUDGETS).items():
                self.board.set("prefix_cache", key, value)
            yield self._turn(number)
        self.engine.close()

    def _turn(self, number: int) -> Turn:
        owner = self.chance.choice(OWNERS)
        kind, messages = self._next(owner)
        self._request = f"turn-{number}"
        self._cancel_after = self.chance.randint(1, 6) if self.chance.random() < self.stop_chance else 0
        events = self.engine.run(self.board.plan(owner, messages, NOW).freeze(self._request, 0))
        self._cancel_after = 0
        end = events[-1]
        assert isinstance(end, Finished), end
        assert not [event for event in events if isinstance(event, PluginFault)]
        (restored,) = [event for event in events if isinstance(event, Restored)]
        text = "".join(event.text for event in events if isinstance(event, Token)) + end.text
        self.branches[owner].append([*messages, Message("assistant", text, end.ids)])
        del self.branches[owner][:-6]
        return Turn(number, kind, owner, messages, end.ids, end.reason, restored)

    def _next(self, owner: str) -> tuple[str, list[Message]]:
        """Choose what to do, and return the messages it leads to."""
        branches = self.branches[owner]
        said = Message("user", self.chance.choice(TEXTS))
        if not branches or len(branches[-1]) > LONGEST:
            system = self.chance.choice(SYSTEMS)
            branches.clear()
            return "new", [*([Message("system", system)] if system else []), said]
        last = branches[-1]
        match self.chance.choice(("go on", "go on", "regenerate", "edit", "branch")):
            case "regenerate":
                return "regenerate", last[:-1]
            case "edit":
                place = self.chance.choice([at for at, message in enumerate(last) if message.role == "user"])
                return "edit", [*last[:place], Message("user", last[place].content + " " + said.content)]
            case "branch":
                return "branch", [*self.chance.choice(branches), said]
        return "go on", [*last, said]

    def _restart(self) -> None:
        for backend, tiers in prefix_cache.plugin.kept:
            if backend is self.engine.engine.model.backend:
                assert tiers.disk.flush(30)
        prefix_cache.plugin.memory.clear()
        self.engine.close()
        self.engine = Headless(self.registry, self._watch)

    def _watch(self, event: AnyEvent) -> None:
        if isinstance(event, Token) and self._cancel_after and event.index + 1 >= self._cancel_after:
            self.engine.engine.cancel(self._request)


class Reference:
    """The same turns with no reuse between them; `kv` keeps the state within a turn."""

    def __init__(self, registry: Registry, profile: Profile, kv: bool) -> None:
        self.board = Switchboard(registry, profile)
        self.board.switch("prefix_cache", False)
        self.board.switch("kv_cache", kv)
        self.engine = Headless(registry)

    def ids(self, turn: Turn) -> tuple[int, ...]:
        """Return the ids of a turn; of one that was stopped, as many as it had."""
        draft = self.board.plan(f"fresh {turn.owner}", turn.messages, NOW)
        if turn.reason == "cancelled":
            draft.max_tokens = len(turn.ids) or 1
        events = self.engine.run(draft.freeze(f"reference {turn.number}", 0))
        end = events[-1]
        assert isinstance(end, Finished), end
        assert all(event.reused == 0 for event in events if isinstance(event, Restored))
        return end.ids[: len(turn.ids)] if turn.reason == "cancelled" else end.ids

    def backend(self) -> Backend:
        """Return the backend of the last turn."""
        backend = self.engine.engine.model.backend
        assert backend is not None
        return backend


def first_gap(backend: Backend, prompt: Sequence[int], one: Sequence[int], other: Sequence[int]) -> tuple[int, float]:
    """Return where two replies part, and the gap between the two best logits there."""
    place = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    session = backend.open()
    tokens = [*prompt, *one[:place]]
    for start in range(0, len(tokens), backend.context.batch):
        scores = session.extend(tokens[start : start + backend.context.batch], 1)
    session.close()
    best = sorted(scores[-1].tolist())[-2:]
    return place, best[1] - best[0]


def profile(**keys: Any) -> Profile:
    """Return a greedy profile on the embedded model in fast mode, changed by `keys`."""
    return Profile(
        **{"name": "soak", "backend": "llama.cpp", "max_tokens": 24, "plugins": {"sampler": {"on": False}}, **keys}
    )


def main(say: Callable[[str], None] = print) -> None:
    """Print the divergences of a soak in fast mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    registry, fast = build(None), profile(context=ContextTable(length=2048))
    with tempfile.TemporaryDirectory() as folder:
        import os

        os.environ["FADER_HOME"] = str(Path(folder))
        soak = Soak(registry, Switchboard(registry, fast), arguments.seed)
        reference = Reference(registry, fast, kv=True)
        gaps = []
        for turn in soak.turns(arguments.turns):
            want = reference.ids(turn)
            if want != turn.ids:
                backend = reference.backend()
                place, gap = first_gap(backend, backend.chat(turn.messages, NOW), want, turn.ids)
                gaps.append(gap)
                say(
                    f"turn {turn.number:3} {turn.kind:10} {turn.restored.reused:4} reused from {turn.restored.tier:8} "
                    f"parts at token {place:2}, logit gap {gap:.3f}"
                )
        reference.engine.close()
        worst = f", largest logit gap {max(gaps):.3f}" if gaps else ""
        say(f"{len(gaps)} of {arguments.turns} replies part from the fresh ones in fast mode{worst}")


if __name__ == "__main__":
    main()
