"""`Stats`: the only definition of every number, as a fold over a turn's events.

Knows no screen and no clock; all times are those the events carry.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from fader_backends.base import ContextSpec, ModelFacts
from fader_backends.errors import Failure
from fader_backends.odds import Odds, bits
from fader_plugins.turn import (
    Adjusted,
    AnyEvent,
    Begun,
    Difference,
    Drafted,
    DraftNumbers,
    Failed,
    Finished,
    GenerationRequest,
    Loaded,
    Loading,
    Numbers,
    Offered,
    Prefilled,
    Prepared,
    Rendered,
    Restored,
    RunRecord,
    Started,
    Token,
    Trimmed,
)

MS = 1e-6


class Stats(msgspec.Struct, kw_only=True):
    """What is known of one turn. `fold` takes the events in order; `numbers` may be asked at any time.

    TTFT      submit to first token id, without model load; its parts add up to it
    TTFV      submit to first visible character, without model load
    ITL       each gap between token ids; a step that accepts several tokens is one gap
    TPOT      (last token - first token) / (n - 1); undefined for n < 2
    E2E       submit to last token, model load included
    prefill   processed prompt tokens / prefill time
    decode    1 / TPOT
    """

    request: GenerationRequest
    facts: ModelFacts | None = None
    context: ContextSpec | None = None
    started_ns: int | None = None
    loading: Loading | None = None
    load_ns: int = 0
    load_ms: float | None = None
    rendered_ns: int | None = None
    restored_ns: int | None = None
    prefilled_ns: int | None = None
    first_ns: int | None = None
    visible_ns: int | None = None
    last_ns: int | None = None
    step: int = -1
    gaps_ms: list[float] = []
    prompt_tokens: int | None = None
    reused: int | None = None
    processed: int = 0
    output: int = 0
    steps: int = 0
    drafted: int = 0
    proposed: int = 0
    draft_ns: int = 0
    verify_ns: int = 0
    singles_ms: list[float] = []
    drafts: dict[str, DraftNumbers] = {}
    reuse_tier: str = ""
    reuse_note: str = ""
    difference: Difference | None = None
    trimmed: Trimmed | None = None
    finished: Finished | None = None
    failure: Failure | None = None
    prepared: Prepared | None = None
    adjusted: list[Adjusted] = []
    texts: list[str] = []
    ids: list[int] = []
    """Of the reply so far, its given beginning included."""
    begun: int = 0
    odds: list[Odds] = []
    """Of the generated tokens, when they were asked for."""
    pieces: dict[int, bytes] = {}
    offered: Offered | None = None

    def fold(self, event: AnyEvent) -> Stats:
        """Take one event of this turn in; return self."""
        match event:
            case Token():  # first, because nearly all are
                self._token(event)
            case Started():
                self.started_ns = event.at_ns
            case Loading():
                self.loading = event
            case Loaded():
                self.facts, self.context = event.facts, event.context
                self.load_ms = event.load_ms
                self.load_ns += round(event.load_ms / MS)
            case Rendered():
                self.rendered_ns, self.prompt_tokens = event.at_ns, event.prompt_tokens
            case Trimmed():
                self.trimmed = event
            case Begun():
                self.begun = len(event.ids)
                self.ids.extend(event.ids)
                self.pieces.update(event.pieces)
                self._show(event.text, None)
            case Restored():
                self.restored_ns, self.reused, self.difference = event.at_ns, event.reused, event.difference
                self.reuse_tier, self.reuse_note = event.tier, event.note
            case Prefilled():
                self.prefilled_ns, self.processed = event.at_ns, event.done
            case Prepared():
                self.prepared = event
            case Adjusted():
                self.adjusted.append(event)
            case Offered():
                self.offered = event
                self.pieces.update(event.pieces)
            case Drafted():
                self._drafted(event)
            case Finished():
                self.finished = event
                self._show(event.text, event.at_ns)
            case Failed():
                self.failure = event.failure
                self._show(event.text, event.at_ns)
            case _:
                pass
        return self

    def _drafted(self, event: Drafted) -> None:
        self.proposed += event.proposed
        self.draft_ns += event.draft_ns
        if event.proposed:
            self.verify_ns += event.verify_ns
        else:
            self.singles_ms.append(event.verify_ns * MS)
        for name in {*event.notes, event.by} - {None}:
            assert name is not None
            was = self.drafts.get(name) or DraftNumbers()
            mine, guessed = name == event.by, name == event.by and event.proposed > 0
            self.drafts[name] = DraftNumbers(
                steps=was.steps + guessed,
                proposed=was.proposed + mine * event.proposed,
                kept=was.kept + mine * event.kept,
                draft_ms=was.draft_ms + mine * event.draft_ns * MS,
                verify_ms=was.verify_ms + guessed * event.verify_ns * MS,
                note=event.notes.get(name, was.note),
                held_bytes=event.held.get(name, was.held_bytes),
            )

    def _token(self, event: Token) -> None:
        self.output += 1
        self.drafted += event.drafted
        self.ids.append(event.token)
        self.pieces.update(event.pieces)
        if event.odds is not None:
            self.odds.append(event.odds)
        self._show(event.text, event.at_ns)
        if self.first_ns is None:
            self.first_ns = event.at_ns
        elif event.step != self.step and self.last_ns is not None:
            self.gaps_ms.append((event.at_ns - self.last_ns) * MS)
        if event.step != self.step:
            self.steps += 1
            self.step = event.step
        self.last_ns = event.at_ns

    def _show(self, text: str, at_ns: int | None) -> None:
        self.texts.append(text)
        if text and self.visible_ns is None:
            self.visible_ns = at_ns

    @property
    def text(self) -> str:
        """The reply so far."""
        return "".join(self.texts)

    def numbers(self) -> Numbers:
        """Return every number that is known now."""
        submitted = self.request.submitted_ns
        tpot = None
        if self.output > 1 and self.first_ns is not None and self.last_ns is not None:
            tpot = (self.last_ns - self.first_ns) * MS / (self.output - 1)
        prefill_ms = span(self.restored_ns, self.prefilled_ns)
        finished = self.finished
        return Numbers(
            prompt_tokens=self.prompt_tokens,
            begun_tokens=self.begun,
            reused_tokens=self.reused,
            processed_tokens=self.processed,
            output_tokens=self.output,
            steps=self.steps,
            ttft_ms=self._since_submit(self.first_ns),
            ttft_parts=self._parts(),
            ttfv_ms=self._since_submit(self.visible_ns),
            tpot_ms=tpot,
            itl_p50_ms=percentile(self.gaps_ms, 50),
            itl_p95_ms=percentile(self.gaps_ms, 95),
            itl_n=len(self.gaps_ms),
            e2e_ms=span(submitted, self.last_ns),
            prefill_tps=self.processed * 1000 / prefill_ms if prefill_ms else None,
            decode_tps=1000 / tpot if tpot else None,
            drafted_tokens=self.drafted,
            proposed_tokens=self.proposed,
            draft_ms=self.draft_ns * MS,
            verify_ms=self.verify_ns * MS,
            single_ms=percentile(self.singles_ms, 50),
            singles=len(self.singles_ms),
            drafts=dict(self.drafts),
            ready_tokens=self.prepared.ready if self.prepared else None,
            vain_tokens=self.prepared.vain if self.prepared else None,
            reuse_tier=self.reuse_tier,
            reuse_note=self.reuse_note,
            load_ms=self.load_ms,
            kv_bytes=finished.memory.kv_bytes if finished else None,
            kv_token_bytes=self._kv_token_bytes(),
            free_bytes=finished.memory.free_bytes if finished else None,
            dropped_messages=self.trimmed.messages if self.trimmed else 0,
            dropped_tokens=self.trimmed.tokens if self.trimmed else 0,
            rss_peak_bytes=finished.rss_peak_bytes if finished else None,
            context_used=finished.context_used if finished else (self.prompt_tokens or 0) + self.output,
            context_length=self.context.length if self.context else None,
            difference=self.difference,
            device=self.facts.device if self.facts else "",
            graph=finished.graph if finished else None,
            surprise_bits=mean_bits(self.odds),
            finish_reason=finished.reason if finished else "failed" if self.failure else None,
        )

    def record(self) -> RunRecord:
        """Return the turn as it goes into the store and into evidence."""
        return RunRecord(
            request=self.request,
            facts=self.facts,
            context=self.context,
            numbers=self.numbers(),
            text=self.text,
            ids=self.finished.ids if self.finished else tuple(self.ids),
            failure=self.failure,
            adjusted=tuple(self.adjusted),
        )

    def _kv_token_bytes(self) -> float | None:
        if self.finished and self.finished.memory.kv_token_bytes is not None:
            return self.finished.memory.kv_token_bytes
        kv_bytes = self.finished.memory.kv_bytes if self.finished else None
        if kv_bytes is None or self.context is None or not self.context.length:
            return None
        buffers = 1 if self.context.options.get("unified", True) else self.context.rows
        return kv_bytes / (self.context.length * buffers)

    def _since_submit(self, at_ns: int | None) -> float | None:
        return None if at_ns is None else (at_ns - self.request.submitted_ns - self.load_ns) * MS

    def _parts(self) -> dict[str, float]:
        marks = (
            ("queue", self.request.submitted_ns, self.started_ns),
            ("encode", self.started_ns, self.rendered_ns),
            ("restore", self.rendered_ns, self.restored_ns),
            ("prefill", self.restored_ns, self.prefilled_ns),
            ("first_sample", self.prefilled_ns, self.first_ns),
        )
        parts = {}
        for name, begin, end in marks:
            if (took := span(begin, end)) is not None:
                parts[name] = took - (self.load_ns * MS if name == "encode" else 0.0)
        return parts


def span(begin_ns: int | None, end_ns: int | None) -> float | None:
    """Return the milliseconds between two stamps, None where one is missing."""
    return None if begin_ns is None or end_ns is None else (end_ns - begin_ns) * MS


def mean_bits(odds: Sequence[Odds]) -> float | None:
    """Return the mean surprise in bits, None without tokens; perplexity is 2 to it."""
    return sum(bits(one.logprob) for one in odds) / len(odds) if odds else None


def percentile(samples: Sequence[float] | Iterable[float], percent: float) -> float | None:
    """Return the percentile by linear interpolation between closest ranks (numpy's default); None without samples."""
    ordered = sorted(samples)
    if not ordered:
        return None
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
