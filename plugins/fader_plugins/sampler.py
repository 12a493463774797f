"""Choose words at random, within bounds you set. Off: always the likeliest token (greedy)."""

from __future__ import annotations

import secrets
from typing import Annotated

import msgspec
from fader_backends.base import SamplerSettings

from .hookspecs import hookimpl
from .turn import PluginInfo, RequestDraft, Settings, setting


class Sampler(Settings, frozen=True, kw_only=True):
    """Settings of the sampler chain; defaults are llama.cpp's."""

    temperature: Annotated[float, setting("Higher is more varied; 0 is greedy", ge=0, le=5, step=0.1)] = 0.8
    top_k: Annotated[int, setting("Keep the k likeliest tokens; 0 is off", ge=0, le=1000, step=10)] = 40
    top_p: Annotated[float, setting("Keep the likeliest tokens up to this mass; 1 is off", ge=0, le=1, step=0.05)] = (
        0.95
    )
    min_p: Annotated[float, setting("Drop tokens below this share of the best; 0 is off", ge=0, le=1, step=0.01)] = 0.05
    repeat_penalty: Annotated[float, setting("Divide scores of recent tokens; 1 is off", ge=0.1, le=5, step=0.05)] = 1.0
    frequency_penalty: Annotated[float, setting("Subtract per recent occurrence; 0 is off", ge=-2, le=2, step=0.1)] = (
        0.0
    )
    presence_penalty: Annotated[float, setting("Subtract once if seen recently; 0 is off", ge=-2, le=2, step=0.1)] = 0.0
    penalty_window: Annotated[int, setting("How many last tokens count as recent; -1 is all", ge=-1, step=16)] = 64
    seed: Annotated[int | None, setting("Same seed, same words; empty draws one per turn")] = None


info = PluginInfo(name="sampler", summary="Choose words at random within bounds (off: greedy)", settings=Sampler)


@hookimpl
def plan_request(draft: RequestDraft) -> None:
    """Set the draft's sampler; an empty seed becomes a drawn one, so that every turn can be repeated."""
    from fader_backends.sampling import check  # needs numpy, which the first frame does without

    settings = msgspec.to_builtins(draft.settings(info.name, Sampler))
    if settings["seed"] is None:
        settings["seed"] = secrets.randbits(32)
    draft.sampler = SamplerSettings(**settings, row=draft.sampler.row)
    check(draft.sampler)
