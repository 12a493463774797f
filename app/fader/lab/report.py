"""A report out of a bundle and of nothing else: law 12.

Knows bundles, figures and sentences; runs nothing and draws nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from fader_backends.errors import StoreError

from . import breakdown, chat_words, counter, judging, raw, words
from .bundle import REPORTS, WORKLOAD, Bundle, seal
from .bundle import write as store
from .evidence import SCHEMA, Manifest, ModelNote
from .experiment import valued, worded
from .figures import alone, figures
from .raw import Measured
from .values import Figure, Report
from .workload import Workload, read

FEWEST = 5
"""Runs of each side below which no difference can be told at the level asked for."""
REPORT = "report.json"


def build(bundle: Bundle) -> Report:
    """Return the report of a bundle. Raises StoreError, BadValue where the bundle is damaged."""
    manifest = bundle.manifest
    runs = raw.read(bundle.folder, bundle.whole)
    said = raw.outputs(bundle.folder, bundle.whole)
    workload = read((bundle.folder / WORKLOAD).read_text("utf-8"), bundle.folder / WORKLOAD)
    kl = raw.read_kl(bundle.folder)
    found = figures(runs) if manifest.origin == "bench" else alone(figures(runs))
    parts = breakdown.parts(runs)
    same = breakdown.same(runs, said)
    costs = breakdown.costs(runs, kl, same)
    trials = breakdown.trials(runs)
    about = _about(manifest, workload, runs)
    reportable, marks = _marks(manifest, runs)
    marks += counter.marks(bundle.folder)
    return Report(
        schema=SCHEMA,
        id=manifest.id,
        created=manifest.created,
        what=manifest.what,
        why=manifest.why,
        reportable=reportable,
        marks=tuple(marks),
        conclusion=words.conclusion(manifest, found, about, costs) if reportable else _no_claim(manifest),
        findings=tuple(words.findings(found)) if reportable else (),
        phase_answer=tuple(words.phase(found, parts)) if reportable else (),
        cost_answer=tuple(words.cost(costs, manifest)),
        stop_answer=tuple(_stop(manifest, workload)),
        tails=tuple(words.tails(found)),
        odd=(*words.odd(trials), *words.words_same(same)),
        limits=tuple(_limits(manifest, workload, found, kl is not None)),
        method=tuple(_method(manifest)),
        about=about,
        figures=tuple(found),
        parts=tuple(parts),
        costs=tuple(costs),
        trials=tuple(trials),
        same=same,
        gates=judging.judged(manifest, runs, kl),
    )


def stored(folder: Path) -> Report | None:
    """Return the report that lies in a bundle's folder; None where there is none or it cannot be read."""
    try:
        return msgspec.json.decode((folder / REPORT).read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError):
        return None


def encode(report: Report) -> bytes:
    """Return a report as it is stored."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def _marks(manifest: Manifest, runs: Sequence[Measured]) -> tuple[bool, list[str]]:
    marks = []
    if len(manifest.variables) > 1:
        listed = ", ".join(map(worded, manifest.variables))
        marks.append(f"{len(manifest.variables)} settings differ ({listed}): which of them did it cannot be told.")
    if manifest.variables and not manifest.aa_rounds and manifest.origin == "bench":
        marks.append("The baseline was not run against itself, so noise is judged by the samples' spread alone.")
    unexpected = sum(one.run.phase == "ab" and one.run.state != one.run.expected for one in runs)
    if unexpected:
        marks.append(f"{unexpected} runs did not end as they were to; they are in no figure.")
    marks += chat_words.marks(manifest)
    partial = manifest.state != "complete"
    if partial:
        marks.append(f"Partial: {manifest.stopped or 'it was interrupted'}. No claim may rest on it.")
    return not partial and manifest.origin != "chat", marks


def _no_claim(manifest: Manifest) -> str:
    if manifest.origin == "chat":
        return chat_words.no_claim(manifest)
    return f"No conclusion: the run of {manifest.workload} is partial ({manifest.stopped or 'interrupted'})."


def _about(manifest: Manifest, workload: Workload, runs: Sequence[Measured]) -> dict[str, str]:
    machine, model = manifest.hardware, manifest.model
    cores = f"{machine.cores} cores" if machine.cores else ""
    memory = f"{machine.memory_bytes / 2**30:.0f} GiB" if machine.memory_bytes else ""
    copied = f"copies {machine.copy_gbps:.1f} GB/s" if machine.copy_gbps else ""
    load = f"load {machine.load_average:.1f}" if machine.load_average is not None else ""
    governor = f"governor {machine.governor}" if machine.governor else ""
    hardware = [machine.cpu, cores, memory, copied, *machine.gpus, governor, load]
    tokens = sorted({workload.tokens_of(case) for case in workload.case})
    prompts = [one.stats.prompt_tokens for one in runs if one.run.counted and one.stats.prompt_tokens]
    span = f"prompts of {min(prompts):,} to {max(prompts):,} tokens" if prompts else "no prompts"
    asked = " or ".join(map(str, tokens))
    how = (
        chat_words.how(manifest)
        if manifest.origin == "chat"
        else f"ABAB, {manifest.rounds} rounds a side after {manifest.aa_rounds} of the baseline against itself"
        if manifest.variables
        else f"{manifest.rounds} round{'s' * (manifest.rounds > 1)}"
    )
    return {
        "workload": f"{workload.name}: {workload.summary or 'a workload'}; {span}, replies of {asked} tokens",
        "change": "; ".join(map(worded, manifest.variables)) or "none: one profile",
        "profile": " and ".join(manifest.profiles),
        "model": _model(model),
        "hardware": ", ".join(part for part in hardware if part) or "unknown machine",
        "versions": ", ".join(f"{name} {version}" for name, version in _main(manifest.versions)),
        "how": f"{how}, {asked} tokens each, {_span(manifest.seeds)}",
        "seeds": ", ".join(map(str, manifest.seeds)),
    }


def _model(model: ModelNote) -> str:
    size = f"{model.size_bytes / 2**20:,.0f} MiB" if model.size_bytes else ""
    digest = f"sha256 {model.sha256[:12]}…" if model.sha256 else ""
    parts = [
        part for part in (model.quantisation, size, digest, f"on {model.backend}" if model.backend else "") if part
    ]
    return " ".join([model.name or model.file or "no model", *parts])


def _main(versions: dict[str, str]) -> list[tuple[str, str]]:
    chosen = [name for name in versions if name == "fader" or "llama" in name or name in ("torch", "transformers")]
    return [(name, versions[name]) for name in chosen]


def _span(seeds: Sequence[int]) -> str:
    return f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {', '.join(map(str, seeds))}"


def _stop(manifest: Manifest, workload: Workload) -> list[str]:
    if not manifest.variables:
        return []
    when = {
        "live": "at the next token of a running reply",
        "turn": "at the next turn",
        "context": "at the next turn, in a new context: the prompt is evaluated again",
        "load": "at the next turn, after the model is loaded again",
    }.get(manifest.acts, "at the next turn")
    back = " and ".join(f"{one.key} back to {valued(one.before)}" for one in manifest.variables)
    said = [f"Setting {back} acts {when}."]
    gates = f"its gates ({'; '.join(manifest.gates)})" if manifest.gates else "its gates (this bundle names none)"
    if manifest.origin == "chat":
        return [*said, f"`fader adopt` wants a measured change: {chat_words.bench_hint(manifest)}"]
    said.append(
        f"`fader adopt {manifest.id}` writes the change into a profile only while {gates} hold, and keeps the former version; "
        "`fader rollback` restores that and proves it with one turn."
    )
    if not any(case.fault for case in workload.case):
        said.append("A stop, a killed engine and a memory limit were not part of this workload; `faults` tries them.")
    return said


def _limits(manifest: Manifest, workload: Workload, found: Sequence[Figure], kl: bool) -> list[str]:
    said = [
        f"One machine, one model ({manifest.model.name or manifest.model.backend}), one workload ({workload.name}): other "
        "prompts, lengths, models and machines were not tried."
    ]
    if not any(case.beside for case in workload.case):
        said.append("One turn at a time: nothing ran beside it.")
    if workload.name != "odd":
        said.append("Odd inputs were not part of it; the workload `odd` has them.")
    runs = [one.a.n for one in found if one.metric == "tpot_ms" and not one.case and one.a]
    if runs and runs[0] < FEWEST and manifest.variables:
        said.append(f"With {runs[0]} runs a side no difference can be told from noise.")
    if manifest.variables and not kl and manifest.acts in ("context", "load"):
        said.append("How far next-token distributions moved was not measured.")
    return said


def _method(manifest: Manifest) -> list[str]:
    if manifest.origin == "chat":
        return [*chat_words.method(), *map(_sentence, manifest.notes)]
    said = [
        f"Replies of fixed length, end tokens ignored; seeds {', '.join(map(str, manifest.seeds))}, the same on both sides; "
        "in every round both sides get fresh engine processes and a warm-up with another prompt of the same shape.",
        "Cold: nothing of the prompt was evaluated before by that engine. Warm: later turns, repeated ones, and "
        "conversations below a system prompt that an earlier one of the round had.",
        "Percentiles by linear interpolation between closest ranks. TTFT, TPOT, E2E and rates have one sample a run; ITL has "
        "one a gap, pooled over runs.",
    ]
    if manifest.variables:
        said.append(
            f"Order {manifest.order}, conversation by conversation; the same prompts on both sides. {manifest.aa_rounds} rounds "
            "in which both sides were the baseline give the spread of noise."
        )
        said.append(
            "Ratios are b / a: of medians and means the middle one of the rounds' ratios, where runs are compared with others of "
            "their own case and turn; of tails that over all rounds. 95 % intervals are bootstrapped over rounds. A difference "
            "is called one when its test (Wilcoxon's signed ranks of the rounds' ratios; for tails one that swaps the sides of "
            "rounds) gives p < 0.01, the interval leaves out 1, and it is larger than the baseline's from itself; else it is ~."
        )
    return [*said, *map(_sentence, manifest.notes)]


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def write(bundle: Bundle) -> tuple[Bundle, Report]:
    """Write the report's three files into a bundle and seal it again. Raises StoreError."""
    from .page import page
    from .table import markdown

    report = build(bundle)
    for name, data in zip(REPORTS, (encode(report), page(report).encode(), markdown(report).encode()), strict=True):
        store(bundle.folder / name, data)
    return seal(bundle, bundle.manifest), report


def differences(bundle: Bundle) -> list[str]:
    """Return what of the stored report is not what the raw events give; empty where all of it is.

    Raises StoreError where there is no report, or the bundle is damaged.
    """
    from .page import page
    from .table import markdown

    kept, fresh = stored(bundle.folder), build(bundle)
    if kept is None:
        raise StoreError(f"There is no report in {bundle.folder}.", "", "Make it again: fader lab open.")
    found = [name for name in Report.__struct_fields__ if getattr(kept, name) != getattr(fresh, name)]
    if "figures" in found:
        found += [
            f"figure {one.metric} {one.condition} {one.case}".strip()
            for one, other in zip(kept.figures, fresh.figures, strict=False)
            if one != other
        ]
    texts = zip(REPORTS[1:], (page(fresh).encode(), markdown(fresh).encode()), strict=True)
    return found + [name for name, data in texts if _bytes(bundle.folder / name) not in (None, data)]


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
