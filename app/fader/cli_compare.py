"""How `fader compare` and its parts are called.

Knows words on a command line; what they do is in `fader.commands.compare`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from .cli_frame import F, Frame, Grouped, option
from .cli_options import (
    CONTEXT,
    MODEL,
    OUTPUT,
    PLUGINS,
    SAMPLING,
    json_option,
    model_option,
    places,
    profile_option,
)


def export_option(help: str) -> Callable[[F], F]:  # noqa: A002 - click's name for it
    """Declare --export."""
    kind = click.Path(path_type=Path)
    return option("--export", "exports", multiple=True, type=kind, group=OUTPUT, metavar="FILE", help=help)


class Direct(Frame):
    """A group whose first command is meant where none is named."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Put the command in front of what does not begin with one."""
        named = args and (args[0] in self.commands or args[0] in context.help_option_names)
        return super().parse_args(context, args if named else ["run", *args])


@click.group("compare", cls=Direct, context_settings=CONTEXT)
def compare() -> None:
    """Answer one question under several settings, side by side.

    \b
    fader compare "Tell a joke" -c temperature=0.2 -c "temperature=1.2 min_p=0.1"
    fader compare "Tell a joke" --sweep "temperature 0.2..1.4 x4"
    fader compare "Tell a joke" --sweep "seed x5" --json
    fader compare "Sum this up" -c "" -c prompt_lookup=on --fair < notes.txt
    fader compare show 3 --export jokes.html
    fader compare results

    What is not the name of a command below is a question; its options: fader compare run --help.
    """


@compare.command("run", cls=Grouped)
@click.argument("prompt", required=False)
@option(
    "-c", "--column", "columns", multiple=True, group=SAMPLING, metavar="CHANGES",
    help='A column: name=value words, such as "temperature=1.2 min_p=0.1", profile=exact, prompt_lookup=on; "" changes nothing.',
)  # fmt: skip
@option(
    "--sweep",
    "sweeps",
    multiple=True,
    group=SAMPLING,
    metavar="RANGE",
    help='Columns: "temperature 0.2..1.4 x4", "top_k 20,40", "seed x4".',
)
@option("-s", "--system", group=MODEL, metavar="TEXT", help="System prompt.  [default: the profile's]")
@profile_option()
@model_option()
@option(
    "--seed", type=click.IntRange(0, 2**64 - 1), group=SAMPLING, help="Of columns that name none.  [default: drawn]"
)
@option("--fair", is_flag=True, group=OUTPUT, help="Run one at a time, ABAB, prompts read anew: for timing.")
@option(
    "--max-tokens", type=click.IntRange(1), group=OUTPUT, help="Most tokens of an answer.  [default: the profile's]"
)
@option("--ignore-eos", is_flag=True, group=OUTPUT, help="Go on after the model's end token, for measurements.")
@option("--json", "as_json", is_flag=True, group=OUTPUT, help="Print one object with all columns and numbers.")
@export_option("Write .md, .json or .html as well.")
@option("--no-store", is_flag=True, group=OUTPUT, help="Do not keep the comparison.")
@option(
    "-o", "options", multiple=True, group=PLUGINS, metavar="PLUGIN.KEY=VALUE", help="Change a setting of every column."
)
@option("--on", multiple=True, group=PLUGINS, metavar="PLUGIN", help="Switch a plugin on in every column.")
@option("--off", multiple=True, group=PLUGINS, metavar="PLUGIN", help="Switch a plugin off in every column.")
def compare_run(
    prompt: str | None,
    columns: tuple[str, ...],
    sweeps: tuple[str, ...],
    system: str | None,
    profile: str,
    model: str | None,
    seed: int | None,
    fair: bool,
    max_tokens: int | None,
    ignore_eos: bool,
    as_json: bool,
    exports: tuple[Path, ...],
    no_store: bool,
    options: tuple[str, ...],
    on: tuple[str, ...],
    off: tuple[str, ...],
) -> int:
    """Answer PROMPT in 2 to 8 columns, of which each is the settings as they stand and what it changes.

    \b
    fader compare "Name a river" -c temperature=0 -c temperature=1 -c "temperature=1 seed=5"
    fader compare "Name a river" --sweep "min_p 0..0.2 x3" -o sampler.temperature=1 --export rivers.html

    Columns that need no reload share one reading of the prompt and run in one batch; --fair runs them one after the
    other instead. PROMPT comes after what is piped in. The object of --json: app/COMPARE_JSON.md.
    """
    from .commands.compare import Compared, run
    from .commands.run import Asked

    base = Asked(
        prompt=prompt, system=system, profile=profile, model=model, json=as_json, seed=seed, options=options, on=on,
        off=off, max_tokens=max_tokens, ignore_end=ignore_eos,
    )  # fmt: skip
    return run(
        Compared(base=base, columns=columns, sweeps=sweeps, fair=fair, exports=exports, store=not no_store), places()
    )


@compare.command("list", cls=Grouped)
@option(
    "-n", "count", type=click.IntRange(1), default=20, show_default=True, group=OUTPUT, help="How many at the most."
)
@json_option
def compare_list(count: int, as_json: bool) -> None:
    """List stored comparisons, the newest first."""
    from .commands.compare_stored import list_comparisons

    list_comparisons(count, places(), as_json)


@compare.command("show", cls=Grouped)
@click.argument("number", type=click.IntRange(1))
@export_option("Write .md, .json or .html instead.")
@json_option
def compare_show(number: int, exports: tuple[Path, ...], as_json: bool) -> None:
    """Print stored comparison NUMBER, or write it to files."""
    from .commands.compare_stored import show_comparison

    show_comparison(number, exports, places(), as_json)


@compare.command("results", cls=Grouped)
@json_option
def compare_results(as_json: bool) -> None:
    """Show which settings won blind choices, and how sure that is."""
    from .commands.compare_stored import show_results

    show_results(places(), as_json)
