"""How `fader bench` and `fader lab` are called.

Knows words on a command line; what they do is in `fader.commands.bench` and `fader.commands.lab`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .cli_frame import Frame, Grouped, option
from .cli_options import CONTEXT, MODEL, OUTPUT, json_option, model_option, places

RUNS, COMPARED = "Runs", "Comparison"
FORMS = {"as_json": "json", "as_csv": "csv", "as_md": "md"}


def form_options(command: Any) -> Any:
    """Declare --json, --csv and --md."""
    for name, target, what in (
        ("--md", "as_md", "Print Markdown."),
        ("--csv", "as_csv", "Print the figures as CSV."),
        ("--json", "as_json", "Print the whole report as one JSON object."),
    ):
        command = option(name, target, is_flag=True, group=OUTPUT, help=what)(command)
    return command


def form_of(given: dict[str, Any]) -> str:
    """Take the form options out of `given`; return which is meant. Raises UsageError for two."""
    chosen = [form for name, form in FORMS.items() if given.pop(name)]
    if len(chosen) > 1:
        raise click.UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other.")
    return chosen[0] if chosen else "text"


@click.command("bench", cls=Grouped, context_settings=CONTEXT)
@click.argument("workload", required=False)
@option(
    "-p",
    "--baseline",
    "--profile",
    "baseline",
    default="",
    group=MODEL,
    metavar="NAME|FILE",
    help="Profile of both sides.  [default: default]",
)
@model_option()
@option("-o", "both", multiple=True, group=MODEL, metavar="KEY=VALUE", help="Change a setting on both sides.")
@option(
    "--change",
    "changes",
    multiple=True,
    group=COMPARED,
    metavar="CHANGE",
    help="What side b has otherwise: prefix_cache=off, kv_cache.type_k=q8_0, context.threads=1, or another profile.",
)
@option("--allow-many", is_flag=True, group=COMPARED, help="Let more than one setting differ; the report says so.")
@option(
    "--aa",
    "aa_rounds",
    type=click.IntRange(0),
    group=COMPARED,
    metavar="N",
    help="Rounds of the baseline against itself.  [default: as --rounds]",
)
@option(
    "--no-kl",
    "quality",
    is_flag=True,
    flag_value=False,
    default=True,
    group=COMPARED,
    help="Leave out how far next-token distributions move.",
)
@option(
    "--rounds",
    type=click.IntRange(1),
    group=RUNS,
    metavar="N",
    help="Repetitions on each side.  [default: the workload's]",
)
@option(
    "--output", type=click.IntRange(1), group=RUNS, metavar="N", help="Tokens of each reply.  [default: the workload's]"
)
@option(
    "--seed",
    type=click.IntRange(0, 2**63),
    default=1,
    show_default=True,
    group=RUNS,
    help="Of the first round; later ones count up.",
)
@option(
    "--limit",
    "limits",
    multiple=True,
    group=COMPARED,
    metavar="GATE",
    help='A limit, such as "ttft_p95 <= 300 ms" or "tpot <= 1.02 x baseline".',
)
@option(
    "--gate", is_flag=True, group=COMPARED, help="Exit with 1 when a limit of workload, profile or --limit is not kept."
)
@option(
    "--against",
    multiple=True,
    type=click.Path(path_type=Path),
    group=OUTPUT,
    metavar="FILE",
    help="Show results of llama-bench -o json beside, marked as foreign.",
)
@option("--why", default="", group=OUTPUT, metavar="TEXT", help="Why this is measured; goes into the bundle.")
@option("--share", default="private", show_default=True, group=OUTPUT, metavar="TEXT", help="Who may have the bundle.")
@form_options
@option("--list", "listed", is_flag=True, group=OUTPUT, help="List the workloads.")
def bench(**given: Any) -> int:
    """Measure a workload on one profile, or what one changed setting does to it.

    \b
    fader bench chat
    fader bench shared-system --change prefix_cache=off
    fader bench copy --change prompt_lookup=on --limit "tpot <= 0.9 x baseline" --gate
    fader bench prose -o context.threads=2 --change context.threads=1 --rounds 8

    The baseline runs against itself first, then in turn with the change (ABAB). Everything is kept as a bundle, from which
    another person can run it again: `fader lab`. What is measured how: app/LAB.md.
    """
    from .commands.bench import Benched, list_workloads
    from .commands.bench import bench as run

    form = form_of(given)
    if given.pop("listed"):
        list_workloads(places())
        return 0
    if given["workload"] is None:
        raise click.UsageError("Name a workload; `fader bench --list` shows them.")
    return run(Benched(**given, form=form), places())  # type: ignore[arg-type]


@click.group("lab", cls=Frame, context_settings=CONTEXT)
def lab() -> None:
    """Look after evidence: bundles that `fader bench` made, or that someone sent you.

    \b
    fader lab list
    fader lab show last
    fader lab export last
    fader lab verify bundle.zip

    A bundle is named by its id, the beginning of it, `last`, a folder, or a .zip.
    """


@lab.command("list", cls=Grouped)
@json_option
def lab_list(as_json: bool) -> None:
    """List the bundles, the oldest first."""
    from .commands.lab import list_bundles

    list_bundles(places(), as_json)


@lab.command("show", cls=Grouped)
@click.argument("bundle")
@form_options
def lab_show(bundle: str, **given: Any) -> None:
    """Print a bundle's report, computed anew from what was recorded."""
    from .commands.lab import show_bundle

    show_bundle(bundle, form_of(given), places())  # type: ignore[arg-type]


@lab.command("verify", cls=Grouped)
@click.argument("bundle")
def lab_verify(bundle: str) -> int:
    """Check hashes, and that every printed number follows from the raw events. Runs nothing."""
    from .commands.lab import verify_bundle

    return verify_bundle(bundle, places())


@lab.command("open", cls=Grouped)
@click.argument("bundle")
def lab_open(bundle: str) -> None:
    """Open a bundle's page in the browser; print its path."""
    from .commands.lab import open_bundle

    open_bundle(bundle, places())


@lab.command("export", cls=Grouped)
@click.argument("bundle")
@click.argument("target", required=False, type=click.Path(path_type=Path))
@option(
    "--as", "form", type=click.Choice(["llama-bench", "hyperfine"]), group=OUTPUT, help="As JSON of another program."
)
def lab_export(bundle: str, target: Path | None, form: str | None) -> None:
    """Write a bundle to TARGET: .zip (all of it), .html, .md, .csv or .json (its report).  [default: ID.zip here]"""
    from .commands.lab import export_bundle

    export_bundle(bundle, target, form or "", places())


@lab.command("rm", cls=Grouped)
@click.argument("bundles", nargs=-1, required=True)
def lab_rm(bundles: tuple[str, ...]) -> None:
    """Delete bundles."""
    from .commands.lab import remove_bundles

    remove_bundles(bundles, places())
