"""Choose words at random, within bounds you set. Off: always the likeliest token (greedy).

Settings are differences from a named base: what is left empty is the base's.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from fader_backends.base import SamplerSettings
from fader_backends.errors import FaderError

from .hookspecs import hookimpl
from .sampler_text import bias_of, breakers_of, constraints_of, order_of, texts_of
from .turn import PluginInfo, RequestDraft, Settings, setting

NEUTRAL: Mapping[str, Any] = {
    **{key: value for key, value in msgspec.to_builtins(SamplerSettings()).items() if key not in ("seed", "row")},
    "temperature": 1.0,
}
"""Every sampler at its off value."""
LLAMA_CPP: Mapping[str, Any] = {**NEUTRAL, "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
"""What llama.cpp's programs do unless told otherwise."""

Base = Literal["llama.cpp", "neutral", "model"]


def live(help: str, *, ge: float | None = None, le: float | None = None, step: float | None = None) -> msgspec.Meta:  # noqa: A002
    """Describe a setting that acts on the next token of a running reply."""
    return setting(help, cost="live", ge=ge, le=le, step=step)


class Sampler(Settings, frozen=True, kw_only=True):
    """Settings of the sampler chain. Empty fields take the base's value."""

    temperature: Annotated[float, live("Higher is more varied; 0 is greedy", ge=0, le=5, step=0.1)] | None = None
    top_k: Annotated[int, live("Keep the k likeliest tokens; 0 is off", ge=0, le=1000, step=10)] | None = None
    top_p: Annotated[float, live("Keep the likeliest up to this mass; 1 is off", ge=0, le=1, step=0.05)] | None = None
    min_p: (
        Annotated[float, live("Drop tokens below this share of the best; 0 is off", ge=0, le=1, step=0.01)] | None
    ) = None
    seed: Annotated[int, setting("Same seed, same words; empty draws one per turn", ge=0)] | None = None
    base: Annotated[
        Base, setting("Where empty settings come from; `model`: the model file's own, else llama.cpp's")
    ] = "llama.cpp"
    repeat_penalty: (
        Annotated[float, live("Divide scores of recent tokens; 1 is off", ge=0.1, le=5, step=0.05)] | None
    ) = None
    frequency_penalty: (
        Annotated[float, live("Subtract per recent occurrence; 0 is off", ge=-2, le=2, step=0.1)] | None
    ) = None
    presence_penalty: (
        Annotated[float, live("Subtract once if seen recently; 0 is off", ge=-2, le=2, step=0.1)] | None
    ) = None
    penalty_window: (
        Annotated[int, live("How many last tokens count as recent; 0 is off, -1 is all", ge=-1, step=16)] | None
    ) = None
    dynatemp_range: (
        Annotated[float, live("Move the temperature with entropy; 0 is off", ge=0, le=5, step=0.1)] | None
    ) = None
    typical_p: (
        Annotated[float, live("Keep the most typical up to this mass; 1 is off", ge=0, le=1, step=0.05)] | None
    ) = None
    top_n_sigma: (
        Annotated[float, live("Drop scores this many sigmas below the best; 0 is off", ge=0, le=10, step=0.1)] | None
    ) = None
    xtc_probability: (
        Annotated[float, live("How often top choices are excluded; 0 is off", ge=0, le=1, step=0.05)] | None
    ) = None
    xtc_threshold: (
        Annotated[float, live("What counts as a top choice; above 0.5 is off", ge=0, le=1, step=0.05)] | None
    ) = None
    dry_multiplier: (
        Annotated[float, live("Strength against repeated phrases; 0 is off", ge=0, le=5, step=0.1)] | None
    ) = None
    dynatemp_exponent: Annotated[float, live("Curve of that movement", ge=0, le=10, step=0.1)] | None = None
    dry_base: Annotated[float, live("Growth with the length of the repetition", ge=1, le=4, step=0.05)] | None = None
    dry_allowed_length: Annotated[int, live("Repetitions shorter than this are free", ge=0, le=50, step=1)] | None = (
        None
    )
    dry_window: (
        Annotated[int, live("How many last tokens DRY looks at; 0 is off, -1 is all", ge=-1, step=16)] | None
    ) = None
    dry_breakers: Annotated[str, live('Texts no repetition reaches over, as JSON: ["\\n", ":"]')] | None = None
    mirostat: Annotated[int, live("1 or 2: hold the surprise near tau; 0 is off", ge=0, le=2, step=1)] | None = None
    mirostat_tau: Annotated[float, live("Surprise aimed at, in bits", ge=0, le=20, step=0.5)] | None = None
    mirostat_eta: Annotated[float, live("How fast mirostat learns", ge=0, le=1, step=0.05)] | None = None
    adaptive_target: (
        Annotated[float, live("Probability to aim at on average; below 0 is off", ge=-1, le=1, step=0.05)] | None
    ) = None
    adaptive_decay: Annotated[float, live("How long adaptive-p remembers", ge=0, le=0.99, step=0.01)] | None = None
    min_keep: Annotated[int, live("Cuts leave at least this many tokens", ge=0, le=1000, step=1)] | None = None
    logit_bias: Annotated[str, live("Token=bias pairs: 123=-1.5, 45=-inf")] | None = None
    order: Annotated[str, live("Order of the samplers, names separated by commas")] | None = None
    grammar: Annotated[str, setting("GBNF the reply must follow; @FILE reads it from a file")] | None = None
    json_schema: Annotated[str, setting("JSON schema the reply must follow; @FILE reads it from a file")] | None = None

    def effective(self) -> dict[str, Any]:
        """Return the fields with the base's values in the empty ones; `model` needs the model, so it shows llama.cpp's."""
        base = texts_of(NEUTRAL if self.base == "neutral" else LLAMA_CPP)
        own = msgspec.to_builtins(self)
        return {key: base.get(key) if value is None else value for key, value in own.items()}

    def check(self) -> None:
        """Read what is written as text: order, bias, breakers. Raises BadValue, UnknownName."""
        for text, read in ((self.order, order_of), (self.logit_bias, bias_of), (self.dry_breakers, breakers_of)):
            if text is not None:
                read(text)

    def chosen(self, recommended: Mapping[str, Any]) -> dict[str, Any]:
        """Return `SamplerSettings` fields: the base, over it what is set. Raises BadValue for texts that do not parse."""
        bases = {"neutral": NEUTRAL, "llama.cpp": LLAMA_CPP, "model": {**LLAMA_CPP, **recommended}}
        own = {key: value for key, value in msgspec.to_builtins(self).items() if value is not None and key != "base"}
        if "order" in own:
            own["order"] = order_of(own["order"])
        if "logit_bias" in own:
            own["logit_bias"] = bias_of(own["logit_bias"])
        if "dry_breakers" in own:
            own["dry_breakers"] = breakers_of(own["dry_breakers"])
        own.update(constraints_of(own.pop("grammar", ""), own.pop("json_schema", "")))
        return {**bases[self.base], **own}


info = PluginInfo(name="sampler", summary="Choose words at random within bounds (off: greedy)", settings=Sampler)


@hookimpl
def plan_request(draft: RequestDraft) -> None:
    """Set the draft's sampler; an empty seed becomes a drawn one, so that every turn can be repeated."""
    from fader_backends.sampling import check  # needs numpy, which the first frame does without

    settings = draft.settings(info.name, Sampler)
    recommended: Mapping[str, Any] = {}
    if settings.base == "model":
        recommended = of_model(draft.model.model)
    fields = settings.chosen(recommended)
    fields["seed"] = secrets.randbits(32) if settings.seed is None else settings.seed
    draft.sampler = msgspec.convert({**fields, "row": draft.sampler.row}, SamplerSettings)
    check(draft.sampler)


def of_model(model: str) -> Mapping[str, Any]:
    """Return what a model file recommends, as settings; nothing when it is not there or says nothing."""
    from fader_backends.gguf import inspect
    from fader_backends.gguf_sampling import recommended_sampling
    from fader_backends.llamacpp.weights import find

    try:
        return recommended_sampling(inspect(find(model)))
    except FaderError:
        return {}
