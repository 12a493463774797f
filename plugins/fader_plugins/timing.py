"""Shows the turn's times, rates and memory as overlay rows. Off: no rows; nothing is measured less."""

from __future__ import annotations

from .hookspecs import hookimpl
from .turn import Numbers, PluginInfo, Reading

info = PluginInfo(name="timing", summary="Show TTFT, TPOT, rates, reuse and memory while the reply streams")

PARTS = {
    "queue": "wait until the engine took the turn up",
    "encode": "template and tokenizer",
    "restore": "finding what need not be evaluated again",
    "prefill": "evaluating the new prompt tokens",
    "first_sample": "choosing the first token",
}
FEW = 20
"""Gaps below which a 95th percentile is only a guess."""


@hookimpl
def readings(numbers: Numbers) -> list[Reading]:
    """Return the standard rows."""
    n = numbers
    rows = [
        Reading(
            key="ttft",
            label="TTFT",
            value=n.ttft_ms,
            unit="ms",
            digits=0,
            better="lower",
            help="Submit to first generated token id, without model load. Its parts below add up to it.",
        )
    ]
    rows += [
        Reading(
            key=f"ttft_{part}",
            label=f"  {part.replace('_', ' ')}",
            value=n.ttft_parts.get(part),
            unit="ms",
            digits=1,
            better="lower",
            help=f"Part of TTFT: {meaning}.",
        )
        for part, meaning in PARTS.items()
    ]
    rows += [
        Reading(
            key="ttfv",
            label="TTFV",
            value=n.ttfv_ms,
            unit="ms",
            digits=0,
            better="lower",
            help="Submit to first visible character, without model load; later than TTFT when text is held back.",
        ),
        Reading(
            key="tpot",
            label="TPOT",
            value=n.tpot_ms,
            unit="ms",
            digits=2,
            better="lower",
            help="(last token - first token) / (tokens - 1); undefined below two tokens.",
        ),
        Reading(
            key="itl_p50",
            label="  ITL p50",
            value=n.itl_p50_ms,
            unit="ms",
            digits=2,
            better="lower",
            help="Median gap between token ids (linear interpolation).",
        ),
        Reading(
            key="itl_p95",
            label=f"  ITL p95 n={n.itl_n}" if n.itl_n else "  ITL p95",
            value=n.itl_p95_ms,
            unit="ms",
            digits=2,
            better="lower",
            doubtful=n.itl_n < FEW,
            help=f"95th percentile of the gaps (linear interpolation); grey below {FEW} gaps.",
        ),
        Reading(
            key="decode",
            label="decode",
            value=n.decode_tps,
            unit="tok/s",
            digits=1,
            better="higher",
            help="1 / TPOT.",
        ),
        Reading(
            key="prefill",
            label="prefill",
            value=n.prefill_tps,
            unit="tok/s",
            digits=0,
            better="higher",
            help="New prompt tokens evaluated / time for them; reused tokens do not count.",
        ),
        Reading(
            key="reuse",
            label="prompt",
            value=reuse(n),
            help="Prompt tokens taken from the session, and evaluated anew.",
        ),
        Reading(
            key="output",
            label="reply",
            value=float(n.output_tokens),
            unit="tok",
            help="Token ids generated in this turn.",
        ),
        Reading(
            key="kv",
            label="KV",
            value=n.kv_bytes / 2**20 if n.kv_bytes is not None else None,
            unit="MiB",
            digits=1,
            better="lower",
            help="Bytes of the live KV buffers, allocated for the whole context.",
        ),
        Reading(
            key="rss",
            label="peak RSS",
            value=n.rss_peak_bytes / 2**20 if n.rss_peak_bytes is not None else None,
            unit="MiB",
            digits=0,
            better="lower",
            help="Highest resident memory of the engine process so far.",
        ),
        Reading(
            key="load",
            label="load",
            value=n.load_ms or None,
            unit="ms",
            digits=0,
            better="lower",
            help="Time to load the model or make its context, when this turn had to.",
        ),
    ]
    where, _, reason = n.device.partition(" (")
    if reason:
        rows.append(
            Reading(
                key="device",
                label="device",
                value=where,
                help=f"Where the model runs, and in which number type. Why: {reason.rstrip(')')}.",
            )
        )
    return rows


def reuse(numbers: Numbers) -> str | None:
    """Return "N reused + M new", and where a held prefix stopped being of use."""
    if numbers.reused_tokens is None or numbers.prompt_tokens is None:
        return None
    text = f"{numbers.reused_tokens:,} reused + {numbers.prompt_tokens - numbers.reused_tokens:,} new"
    if numbers.difference is not None:
        text += f" (differs at {numbers.difference.position:,})"
    return text
