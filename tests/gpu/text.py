"""Drafts on a real text: the embedded model is asked to repeat a list, with and without drafts and graphs."""

from __future__ import annotations

from datetime import datetime

from fader.headless import Headless
from fader.metrics import Stats
from fader.profiles import ContextTable, Profile
from fader.switchboard import Switchboard
from fader_backends.base import Message
from fader_plugins.registry import build
from fader_plugins.testing import reply

from tests.gpu.measure import Figures

LIST = ", ".join(
    f"{colour} {thing}" for thing in ("boat", "lamp", "stone") for colour in ("red", "green", "blue", "grey")
)
ASKED = f"Repeat this list word by word, three times: {LIST}."
TOKENS = 96


def copied(device: str, tokens: int = TOKENS, **graph: str) -> Figures:
    """Return TPOT and kept drafts for each way; greedy, of fixed length, in float32."""
    registry = build(None)
    found: Figures = {}
    for way, switches in {
        "plain": {},
        "drafts": {"prompt_lookup": True},
        "graph": {"graph": True},
        "graph and drafts": {"graph": True, "prompt_lookup": True},
    }.items():
        board = Switchboard(
            registry,
            Profile(
                name="device",
                backend="torch",
                load={"device": device, "dtype": "float32"},
                context=ContextTable(length=1024, rows=1, batch=512),
                plugins={"sampler": {"on": False}, "prefix_cache": {"on": False}, "graph": dict(graph)},
            ),
        )
        for name in ("graph", "prompt_lookup"):
            board.switch(name, switches.get(name, False))
        with Headless(registry) as engine:
            for owner in ("warm", "measured"):
                draft = board.plan(owner, [Message("user", ASKED)], datetime(2026, 1, 2))
                draft.max_tokens, draft.ignore_end = tokens, True
                request = draft.freeze(owner, 0)
                stats = Stats(request=request)
                events = engine.run(request)
                for event in events:
                    stats.fold(event)
        numbers = stats.numbers()
        found[way] = {
            "tpot_ms": numbers.tpot_ms,
            "proposed": numbers.proposed_tokens,
            "kept": numbers.drafted_tokens,
            "ids": list(reply(events)[1]),
        }
    same = [found[way].pop("ids") for way in found]
    found["same_ids"] = all(ids == same[0] for ids in same)
    return found
