"""Keep what the model computed for earlier tokens. Off: every step evaluates the whole text again.

Knows names of types and what they cost in the abstract; whether a type fits a model is the backend's to say.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from fader_backends.base import ContextSpec, Scalar
from fader_backends.errors import BadValue
from fader_backends.ggml_types import BLOCKS, CACHE_TYPES

from .hookspecs import hookimpl
from .turn import Numbers, PluginInfo, Reading, RequestDraft, Settings, WhenFull, setting

Kind: TypeAlias = Literal["f16", "bf16", "f32", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
PLAIN: Kind = "f16"
LENGTHS = (1024, 8192, 32768)


class KvCache(Settings, frozen=True, kw_only=True):
    """Settings of the model's working memory."""

    length: Annotated[
        int,
        setting("Context in tokens; 0 is the model's own maximum, as memory allows", cost="context", ge=0, step=1024),
    ] = 0
    type_k: Annotated[
        Kind, setting("Number type of keys; smaller is less exact (`fader kv check`)", cost="context")
    ] = PLAIN
    type_v: Annotated[
        Kind, setting("Number type of values; below 16 bits it needs flash attention", cost="context")
    ] = PLAIN
    when_full: Annotated[WhenFull, setting("Conversation too long: end the reply, drop the oldest turns, or ask")] = (
        "stop"
    )


info = PluginInfo(
    name="kv_cache",
    summary="Keep earlier tokens' keys and values (off: recompute everything each step)",
    settings=KvCache,
    needs=frozenset({"rewind"}),
)


@hookimpl
def plan_request(draft: RequestDraft) -> None:
    """Keep state between steps; use the context length that is set here, else the profile's."""
    draft.keep_state = True
    settings = draft.settings(info.name, KvCache)
    draft.when_full = settings.when_full
    if settings.length:
        draft.context = msgspec.structs.replace(draft.context, length=settings.length)
    if "kv_types" in draft.provides:
        draft.context = msgspec.structs.replace(draft.context, options=options(draft.context, settings))


def options(context: ContextSpec, settings: KvCache) -> dict[str, Scalar]:
    """Return the context's options with the types set, and flash attention on where the type of V needs it.

    Raises BadValue where flash attention is off on purpose. What is f16 anyway is not written, so that the switch alone
    asks for no new context.
    """
    chosen = dict(context.options)
    for name, kind in (("type_k", settings.type_k), ("type_v", settings.type_v)):
        if kind != chosen.get(name, PLAIN):
            chosen[name] = kind
    if BLOCKS[CACHE_TYPES[settings.type_v]][0] > 1:
        if chosen.get("flash_attention") == "off":
            raise BadValue(
                f"kv_cache.type_v = {settings.type_v} needs flash attention, and the profile has it off.",
                "",
                "Set type_v to f16, or context.options.flash_attention to on or auto.",
            )
        chosen["flash_attention"] = "on"
    return chosen


@hookimpl
def readings(numbers: Numbers) -> list[Reading]:
    """Return what a token takes in the live buffers, what longer contexts would, and what was left out."""
    token = numbers.kv_token_bytes
    rows = [
        Reading(
            key="kv_token",
            label="KV / token",
            value=token / 1024 if token is not None else None,
            unit="KiB",
            digits=1,
            better="lower",
            help="Live KV bytes / tokens they have room for. By the model's header: `fader kv table`.",
        )
    ]
    if token is not None and numbers.free_bytes is not None:
        sizes = " · ".join(f"{token * length / 2**20:.0f}" for length in LENGTHS)
        rows += [
            Reading(
                key="kv_lengths",
                label="  " + " · ".join(f"{length // 1024}k" for length in LENGTHS),
                value=f"{sizes} MiB",
                help="What contexts of these lengths would take at that rate, for one row.",
            ),
            Reading(
                key="kv_free",
                label="  memory free",
                value=numbers.free_bytes / 2**30,
                unit="GiB",
                digits=1,
                help="What other programs leave free after the turn.",
            ),
        ]
    if numbers.dropped_messages:
        said = f"{numbers.dropped_messages:,} messages, {numbers.dropped_tokens:,} tok"
        rows.append(Reading(key="dropped", label="left out", value=said, help="Oldest messages that did not fit."))
    return rows
