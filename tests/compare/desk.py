"""A comparison on an engine in the test's own process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Any

from fader.compare import make, spec
from fader.compare.asked import Asked
from fader.compare.column import Column
from fader.compare.sides import SideBySide
from fader.headless import Headless
from fader.profiles import Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_backends.errors import ModelMissing, UnknownName
from fader_plugins.registry import Registry
from fader_plugins.turn import AnyEvent, GenerationRequest

NOW = datetime(2026, 1, 2, 3, 4, 5)
SAMPLED: dict[str, Any] = {
    "load": {"noise": 1.5},
    "max_tokens": 24,
    "plugins": {"sampler": {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "base": "neutral"}},
}
"""A profile on echo whose replies are far from the echo: each token is drawn."""


def profile_named(name: str) -> Profile:
    if name != "other":
        raise UnknownName("profile", name, ["other"])
    return Profile(name="other", backend="echo", load={"noise": 2.0}, max_tokens=12)


def located(profile: Profile) -> Profile:
    if profile.model == "gone.gguf":
        raise ModelMissing("There is no model file gone.gguf.")
    return profile


MAKERS = spec.Makers(profile_named, located)


class Desk:
    """An engine and the comparison it runs; `watch` sees each event after the comparison has."""

    def __init__(self, registry: Registry, board: Switchboard) -> None:
        self.board = board
        self.side: SideBySide | None = None
        self.watch: Callable[[AnyEvent], None] = lambda _: None
        self.requests: list[GenerationRequest] = []
        self.most = 0
        self.head = Headless(registry, self._emit)
        self.names = count(1)

    def _emit(self, event: AnyEvent) -> None:
        assert self.side is not None
        self.most = max(self.most, len(self.side._running))
        self.side.on_event(event)
        self.watch(event)

    def submit(self, request: GenerationRequest) -> None:
        self.requests.append(request)
        self.head.engine.submit(request)

    def cancel(self, request_id: str) -> None:
        self.head.engine.cancel(request_id)

    def columns(self, *texts: str) -> list[Column]:
        return make.columns(self.board, [spec.parse(text) for text in texts], MAKERS, least=1)

    def lay(
        self, *texts: str, prompt: str = "tell me more", owner: str = "me", fair: bool = False, **asked: Any
    ) -> SideBySide:
        question = Asked(owner=owner, messages=(Message("user", prompt),), now=NOW, seed=7, **asked)
        self.side = SideBySide(
            self.columns(*texts),
            question,
            self,
            nanoseconds=lambda: 0,
            new_id=lambda: f"run-{next(self.names)}",
            fair=fair,
        )
        return self.side

    def run(self, *texts: str, **asked: Any) -> list[Column]:
        side = self.lay(*texts, **asked)
        side.start()
        self.work()
        return side.columns

    def work(self) -> None:
        self.head.engine.run_until_idle()
        assert self.side is not None
        assert not self.side.busy

    def close(self) -> None:
        self.head.close()
