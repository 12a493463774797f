"""Keep what the model computed for earlier tokens. Off: every step evaluates the whole text again."""

from __future__ import annotations

from typing import Annotated

import msgspec

from .hookspecs import hookimpl
from .turn import PluginInfo, RequestDraft, Settings, setting


class KvCache(Settings, frozen=True, kw_only=True):
    """Settings of the model's working memory."""

    length: Annotated[
        int,
        setting("Context in tokens; 0 is the model's own maximum, as memory allows", cost="context", ge=0, step=1024),
    ] = 0


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
    length = draft.settings(info.name, KvCache).length
    if length:
        draft.context = msgspec.structs.replace(draft.context, length=length)
