"""Keep a model's weights in fewer bits. Off: as the profile's `[load]` says, else as the model has them.

Knows names of types and what they stand for; which one a device can compute is the backend's to say.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from .hookspecs import hookimpl
from .turn import PluginInfo, RequestDraft, Settings, setting

Matrices: TypeAlias = Literal["auto", "plain", "float16", "int8", "int4"]


class Weights(Settings, frozen=True, kw_only=True):
    """Settings of the weights."""

    dtype: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        setting("Number type the model computes in; auto: by device", cost="load"),
    ] = "auto"
    matrices: Annotated[
        Matrices,
        setting(
            "How linear layers are kept; fewer bits are less exact (`fader weights check`). "
            "auto: float16 on a CPU that computes in float32",
            cost="load",
        ),
    ] = "auto"


info = PluginInfo(
    name="weights",
    summary="Keep weights in fewer bits: less memory, and on a CPU faster words (off: as loaded)",
    settings=Weights,
    on=False,
    needs=frozenset({"weights"}),
)


@hookimpl
def plan_request(draft: RequestDraft) -> None:
    """Set the model's options; a type set to `auto` leaves the profile's."""
    settings = draft.settings(info.name, Weights)
    options = {**draft.model.options, "matrices": settings.matrices}
    if settings.dtype != "auto":
        options["dtype"] = settings.dtype
    draft.model = msgspec.structs.replace(draft.model, options=options)
