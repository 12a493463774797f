"""Note for each token what it was chosen from: the likeliest candidates, and which sampler removed which. Off: nothing.

The notes lie with the message in the store and are what the probabilities view shows. They change no word.
"""

from __future__ import annotations

from typing import Annotated

from .hookspecs import hookimpl
from .turn import Numbers, PluginInfo, Reading, RequestDraft, Settings, setting


class Logprobs(Settings, frozen=True, kw_only=True):
    """Settings of the notes."""

    top: Annotated[int, setting("How many of the likeliest to note for each token", ge=1, le=50, step=1)] = 10
    store_mib: Annotated[
        int, setting("Disk for the notes of all chats, in MiB; the oldest go first", ge=0, le=65536, step=16)
    ] = 64


info = PluginInfo(
    name="logprobs",
    summary="Note what each token was chosen from (key p shows it; off: nothing is noted)",
    settings=Logprobs,
    on=False,
)


@hookimpl
def plan_request(draft: RequestDraft) -> None:
    """Ask for the notes."""
    draft.logprobs = draft.settings(info.name, Logprobs).top


@hookimpl
def readings(numbers: Numbers) -> list[Reading]:
    """Return how surprising the reply is to the model itself."""
    surprise = numbers.surprise_bits
    return [
        Reading(
            key="surprise",
            label="surprise",
            value=surprise,
            unit="bit",
            digits=2,
            help="Mean of -log2 of each token's probability before the sampler chain.",
        ),
        Reading(
            key="perplexity",
            label="perplexity",
            value=2**surprise if surprise is not None and surprise < 1000 else None,
            digits=2,
            help="2 to the mean surprise: among how many equal choices each token was one, as the model sees it.",
        ),
    ]
