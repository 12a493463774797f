"""Runs made up from the times they are to have, as events of the clock: for tests that need no engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from fader.lab.evidence import Manifest, Run
from fader.lab.experiment import CLOCK
from fader.lab.raw import Measured
from fader.metrics import Stats
from fader.switchboard import Switchboard
from fader_backends.base import Memory, Message
from fader_plugins.turn import AnyEvent, Finished, GenerationRequest, Prefilled, Rendered, Restored, Started, Token

MS = 1_000_000
KEYS: dict[str, Any] = {
    "phase": "ab",
    "side": "a",
    "round": 0,
    "case": "one",
    "turn": 0,
    "condition": "cold",
    "seed": 1,
}


def manifest(**keys: Any) -> Manifest:
    plain = Manifest(id="20260101-0000-made", created="2026-01-01T00:00:00+00:00", what="made up", workload="made")
    return msgspec.structs.replace(plain, **keys)


def asked(board: Switchboard, text: str = "hello", request_id: str = "run-0") -> GenerationRequest:
    draft = board.plan("made", [Message("user", text)], CLOCK)
    return draft.freeze(request_id, 1000 * MS)


def events(
    request: GenerationRequest, prompt: int, reused: int, prefill: float, gaps: Sequence[float]
) -> Iterator[AnyEvent]:
    """One turn: 1 ms until the prompt is read, `prefill` ms for it, then a token at once and one after each gap."""
    name, at = request.id, request.submitted_ns
    yield Started(request_id=name, at_ns=at)
    yield Rendered(request_id=name, at_ns=at + MS, prompt_tokens=prompt)
    yield Restored(request_id=name, at_ns=at + MS, reused=reused, new=prompt - reused)
    at += MS + round(prefill * MS)
    yield Prefilled(request_id=name, at_ns=at, done=prompt - reused, total=prompt - reused)
    for place, gap in enumerate([0.0, *gaps]):
        at += round(gap * MS)
        yield Token(request_id=name, at_ns=at, index=place, step=place, token=65 + place % 26, text="x", logprob=0.0)
    ids = tuple(65 + place % 26 for place in range(len(gaps) + 1))
    yield Finished(
        request_id=name, at_ns=at, reason="length", text="", ids=ids, context_used=prompt + len(ids),
        memory=Memory(kv_bytes=4096), rss_peak_bytes=100_000_000,
    )  # fmt: skip


def measured(
    board: Switchboard,
    index: int,
    *,
    prompt: int = 100,
    reused: int = 0,
    prefill: float = 50,
    gaps: Sequence[float] = (20.0,) * 8,
    **keys: Any,
) -> Measured:
    request = asked(board, request_id=f"run-{index}")
    stats = Stats(request=request)
    for event in events(request, prompt, reused, prefill, gaps):
        stats.fold(event)
    run = Run(
        index=index, request_id=request.id, state="ok", wall_start=0.0, rss_peak_bytes=100_000_000, **{**KEYS, **keys}
    )
    return Measured(run, stats)
