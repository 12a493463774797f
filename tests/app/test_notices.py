"""What people are told beside the reply."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from fader.metrics import Stats
from fader.notices import compiled
from fader.switchboard import Switchboard
from fader.tui.bars import waiting_for
from fader_backends.base import ContextSpec, Memory, ModelFacts
from fader_plugins.turn import Finished, FinishReason, Loaded, Loading

SECOND = 1_000_000_000


@pytest.fixture
def stats(board: Callable[..., Switchboard]) -> Stats:
    """A turn that waits for a compiler from second 2 on."""
    stats = Stats(request=board().plan("me", [], datetime(2026, 1, 1)).freeze("r", 0))
    assert waiting_for(stats.fold(Loading(request_id="r", at_ns=SECOND, fraction=0.5)), False).endswith("50%")
    return stats.fold(Loading(request_id="r", at_ns=2 * SECOND, fraction=1.0, compiling=True))


def end(stats: Stats, reason: FinishReason) -> Stats:
    return stats.fold(
        Finished(
            request_id="r",
            at_ns=95 * SECOND,
            reason=reason,
            text="",
            ids=(),
            context_used=0,
            memory=Memory(),
            rss_peak_bytes=0,
        )
    )


def test_a_stop_that_a_compiler_kept_waiting(stats: Stats) -> None:
    """While it lasts the line says so, stopping or not; afterwards a notice says how long it took."""
    assert waiting_for(stats, False) == "compiling the model's steps …"
    assert waiting_for(stats, True) == "compiling the model's steps, then stopping …"
    assert compiled(stats) is None
    notice = compiled(end(stats, "cancelled"))
    assert notice is not None
    assert "took 93.0 s" in notice.title
    assert "graph.mode" in notice.next_step


@pytest.mark.parametrize("reason", ["end", "cancelled"])
def test_none_where_it_was_ready(stats: Stats, reason: FinishReason) -> None:
    stats.fold(
        Loaded(
            request_id="r",
            at_ns=9 * SECOND,
            facts=ModelFacts(backend="b", model="m"),
            context=ContextSpec(),
            load_ms=1.0,
        )
    )
    assert waiting_for(stats, True) == "stopping …"
    assert compiled(end(stats, reason)) is None
