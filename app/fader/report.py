"""`RunReport`: what `fader run --json` prints. An interface: fields are added, never renamed or given another meaning.

Knows a finished turn's numbers, not how they came about (`fader.metrics` defines each).
"""

from __future__ import annotations

import platform
from pathlib import Path

import msgspec
from fader_backends.graphs import GraphState
from fader_plugins.turn import PluginState

from . import __version__
from .metrics import Stats
from .models import sha256
from .odds import Chosen
from .why import Reason, why


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """Gaps between token ids, in milliseconds; percentiles by linear interpolation between closest ranks."""

    p50: float | None
    p95: float | None
    n: int
    """How many gaps there were. Below 20 the p95 is a guess."""


class CandidateReport(msgspec.Struct, frozen=True, kw_only=True):
    """A token that could have been chosen. Log-probabilities are natural ones."""

    token: int
    text: str
    logprob: float
    """Before the sampler chain."""
    chain_logprob: float | None
    """Among what the chain left; null when it was removed."""
    removed_by: str | None
    """The sampler that removed it."""


class TokenReport(msgspec.Struct, frozen=True, kw_only=True):
    """One token of the answer."""

    token: int
    text: str
    logprob: float
    """Before the sampler chain."""
    entropy: float
    """Of all tokens before the chain, in nats."""
    left: int
    """How many candidates the chain left."""
    candidates: list[CandidateReport]
    """The likeliest before the chain and the likeliest left by it, likeliest (before) first; always the token itself."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """One turn. Times are in milliseconds, rates in tokens per second; null is "not known" or "not defined"."""

    text: str
    """The reply."""
    finish_reason: str | None
    """end (the model ended it), stop (a stop text), length (most tokens reached), context (no room left), cancelled."""
    backend: str
    model: str
    """The model's name for people."""
    device: str | None
    """Where it runs; with number type and reason where there was a choice."""
    model_sha256: str | None
    """Of the model's file; null for backends without one."""
    profile: str
    seed: int
    plugins: dict[str, PluginState]
    """Per plugin: on, and every setting, as they were when the turn was sent."""
    prompt_tokens: int | None
    reused_tokens: int | None
    """Prompt tokens taken from a cache. reused + processed = prompt."""
    processed_tokens: int
    """Prompt tokens evaluated."""
    output_tokens: int
    ids: tuple[int, ...]
    """Token ids of the reply, without its end token."""
    ttft_ms: float | None
    """Submit to first token id, without loading the model."""
    ttft_parts: dict[str, float]
    """queue, encode, restore, prefill, first_sample; they add up to ttft_ms."""
    tpot_ms: float | None
    """(last token - first token) / (tokens - 1)."""
    itl_ms: Gaps
    e2e_ms: float | None
    """Submit to last token id, loading included."""
    prefill_tps: float | None
    """Processed prompt tokens / time for them."""
    decode_tps: float | None
    """1000 / tpot_ms."""
    kv_bytes: int | None
    """Size of the live KV buffers."""
    rss_peak_bytes: int | None
    """Highest resident memory of the process."""
    load_ms: float | None
    """Time to load the model."""
    graph: GraphState | None
    """What became of compiled steps; null where there are none."""
    dropped_messages: int
    """Oldest messages left out so that the rest fits the context."""
    versions: dict[str, str]
    """fader, python, and the libraries the backend names."""
    why: list[Reason]
    """Per mechanism that was on: what it saved and what that cost."""
    surprise_bits: float | None = None
    """Mean of -log2 of the tokens' probabilities before the chain; perplexity is 2 to it."""
    logprobs: list[TokenReport] | None = None
    """Per token what it was chosen from; null unless asked for."""


def report(stats: Stats, hashes: Path) -> RunReport:
    """Return the report of a turn that has ended; `hashes` is the file of known model hashes."""
    numbers, request, facts = stats.numbers(), stats.request, stats.facts
    file = Path(facts.path) if facts and facts.path else None
    return RunReport(
        text=stats.text,
        finish_reason=numbers.finish_reason,
        backend=request.model.backend,
        model=facts.model if facts else request.model.model,
        device=facts.device if facts else None,
        model_sha256=sha256(file, hashes) if file and file.is_file() else None,
        profile=request.profile,
        seed=request.sampler.seed,
        plugins=request.plugins,
        prompt_tokens=numbers.prompt_tokens,
        reused_tokens=numbers.reused_tokens,
        processed_tokens=numbers.processed_tokens,
        output_tokens=numbers.output_tokens,
        ids=stats.finished.ids if stats.finished else tuple(stats.ids),
        ttft_ms=numbers.ttft_ms,
        ttft_parts=numbers.ttft_parts,
        tpot_ms=numbers.tpot_ms,
        itl_ms=Gaps(p50=numbers.itl_p50_ms, p95=numbers.itl_p95_ms, n=numbers.itl_n),
        e2e_ms=numbers.e2e_ms,
        prefill_tps=numbers.prefill_tps,
        decode_tps=numbers.decode_tps,
        kv_bytes=numbers.kv_bytes,
        rss_peak_bytes=numbers.rss_peak_bytes,
        load_ms=numbers.load_ms,
        dropped_messages=numbers.dropped_messages,
        graph=numbers.graph,
        versions={"fader": __version__, "python": platform.python_version(), **(facts.versions if facts else {})},
        why=why(stats.record()),
        surprise_bits=numbers.surprise_bits,
        logprobs=token_reports(Chosen(ids=tuple(stats.ids[stats.begun :]), odds=tuple(stats.odds), pieces=stats.pieces))
        if request.logprobs
        else None,
    )


def token_reports(chosen: Chosen) -> list[TokenReport]:
    """Return what is known of each token."""
    return [
        TokenReport(
            token=token,
            text=chosen.label(token),
            logprob=odds.logprob,
            entropy=odds.entropy,
            left=odds.left,
            candidates=[
                CandidateReport(
                    token=one.token,
                    text=chosen.label(one.token),
                    logprob=one.logprob,
                    chain_logprob=one.chain_logprob,
                    removed_by=one.removed_by or None,
                )
                for one in odds.candidates()
            ],
        )
        for token, odds in zip(chosen.ids, chosen.odds, strict=True)
        if odds is not None
    ]
