"""How the commands of `fader` are called; each imports what it needs when it runs.

Knows words on a command line and exit codes; what commands do is in `fader.commands`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import __version__
from .cli_compare import compare
from .cli_evidence import adopt, challenge, replay, review, rollback
from .cli_frame import Frame, Grouped, option
from .cli_lab import bench, lab
from .cli_look import ops
from .cli_model import devices, kv, weights
from .cli_options import (
    CONTEXT,
    MODEL,
    OUTPUT,
    PLUGINS,
    SAMPLING,
    SESSION,
    json_option,
    model_option,
    places,
    profile_option,
)


@click.group("fader", cls=Frame, invoke_without_command=True, context_settings=CONTEXT)
@profile_option(envvar="FADER_PROFILE")
@model_option(envvar="FADER_MODEL")
@option("-c", "--continue", "resume", is_flag=True, group=SESSION, help="Go on with the last conversation.")
@click.version_option(__version__, "--version", message="fader %(version)s", help="Show the version.")
@click.pass_context
def main(context: click.Context, profile: str, model: str | None, resume: bool) -> int:
    """Chat with a local language model, every mechanism on a switch, its effect on the screen.

    \b
    fader                                  chat with the embedded model
    fader -c                               go on where you stopped
    fader -p exact -m ~/models/qwen.gguf   another profile, another model
    fader run "What is a KV cache?"        one question, no screen
    git diff | fader run "Review this"     text from a pipe
    fader compare "A joke" --sweep "temperature 0..1.2 x4"
    fader bench chat --change prefix_cache=off   what a setting does, with evidence

    Where files are: `fader paths`. Keys and the meaning of every number: F1 in the chat.
    """
    if context.invoked_subcommand is None:
        from .commands.chat import chat

        return chat(profile, model, resume, places())
    if resume:
        raise click.UsageError(f"-c opens the chat; it cannot go with {context.invoked_subcommand!r}.", context)
    # Commands know no variables of their own: what stands before the command is more than what the environment says.
    context.default_map = {
        "run": {"profile": profile, "model": model},
        "compare": {"run": {"profile": profile, "model": model}},
        "ops": {"profile": profile, "model": model},
        "plugins": {"list": {"profile": profile}},
        "bench": {"baseline": profile, "model": model},
        "kv": {name: {"profile": profile, "model": model} for name in ("table", "check")},
        "weights": {"check": {"profile": profile, "model": model}},
    }
    return 0


for command in (compare, bench, lab, adopt, rollback, replay, challenge, review, kv, weights, devices, ops):
    main.add_command(command)


@main.command(cls=Grouped)
@click.argument("prompt", required=False)
@option("-s", "--system", group=MODEL, metavar="TEXT", help="System prompt.  [default: the profile's]")
@profile_option()
@model_option()
@option("--seed", type=click.IntRange(0, 2**64 - 1), group=SAMPLING, help="Same seed, same words (sampler.seed).")
@option(
    "--temp",
    "temperature",
    type=float,
    group=SAMPLING,
    help="0 is greedy (sampler.temperature, and switches the sampler on).",
)
@option(
    "--max-tokens", type=click.IntRange(1), group=OUTPUT, help="Most tokens of the answer.  [default: the profile's]"
)
@option("--ignore-eos", "ignore_end", is_flag=True, group=OUTPUT, help="Go on after the model's end token.")
@option("--json", is_flag=True, group=OUTPUT, help="Print one object with the answer and all numbers.")
@option("--logprobs", type=click.IntRange(1, 50), group=OUTPUT, metavar="N", help="In it, N candidates for each token.")
@option("-o", "options", multiple=True, group=PLUGINS, metavar="PLUGIN.KEY=VALUE", help="Change a plugin's setting.")
@option("--on", multiple=True, group=PLUGINS, metavar="PLUGIN", help="Switch a plugin on.")
@option("--off", multiple=True, group=PLUGINS, metavar="PLUGIN", help="Switch a plugin off.")
def run(**given: Any) -> int:
    """Answer one question: the answer on stdout, everything else on stderr.

    \b
    fader run "What is the capital of France?"
    cat notes.txt | fader run "Sum this up" --temp 0
    fader run -m qwen2.5-0.5b-instruct-q8_0 -s "Answer in French." "Good morning"
    fader run "Count to ten" --off kv_cache --seed 1 --json
    fader run "Tell a joke" -o sampler.top_k=20 -o sampler.min_p=0.1

    PROMPT comes after what is piped in; `-` reads stdin alone. Ctrl+C ends the answer where it is (exit code 130).
    The object of --json: app/RUN_JSON.md. Plugins and what they can be set to: `fader plugins list`.
    """
    from .commands.run import Asked
    from .commands.run import run as answer

    return answer(Asked(**given), places())


@main.group(cls=Frame)
def profiles() -> None:
    """List, show and make profiles.

    \b
    fader profiles list
    fader profiles show exact
    fader profiles new mine --from plain
    fader profiles import Creative.yaml
    """


@profiles.command("list", cls=Grouped)
def profiles_list() -> None:
    """List the profiles: those that ship and your own."""
    from .commands.profiles import list_profiles

    list_profiles(places())


@profiles.command("show", cls=Grouped)
@click.argument("name")
def profiles_show(name: str) -> None:
    """Print a profile as TOML, after `extends`."""
    from .commands.profiles import show_profile

    show_profile(name, places())


@profiles.command("path", cls=Grouped)
@click.argument("name")
def profiles_path(name: str) -> None:
    """Print where a profile's file is."""
    from .profiles import path_of

    click.echo(str(path_of(name, places())))


@profiles.command("new", cls=Grouped)
@click.argument("name")
@option("--from", "base", default="default", show_default=True, group=MODEL, metavar="NAME", help="What it extends.")
def profiles_new(name: str, base: str) -> None:
    """Write a profile of your own and print its path."""
    from .commands.profiles import new_profile

    new_profile(name, base, places())


@profiles.command("import", cls=Grouped)
@click.argument("file", type=click.Path(path_type=Path))
@option("--name", group=OUTPUT, metavar="NAME", help="The profile's name.  [default: the preset's]")
@option("--from", "kind", type=click.Choice(["lmstudio", "textgen", "sillytavern"]), group=OUTPUT, help="Its format.")
@option("--force", is_flag=True, group=OUTPUT, help="Replace a profile of that name; the old file is kept as .bak.")
def profiles_import(file: Path, name: str | None, kind: str | None, force: bool) -> None:
    """Make a profile of a sampler preset of LM Studio, text-generation-webui or SillyTavern.

    \b
    fader profiles import ~/.lmstudio/config-presets/mine.preset.json
    fader profiles import Creative.yaml --name creative

    Prints the profile's path; what could not be carried over is named on stderr.
    """
    from .commands.presets import import_preset

    import_preset(file, name, kind, force, places())


@main.group(cls=Frame)
def plugins() -> None:
    """See which plugins there are.

    \b
    fader plugins list
    fader plugins list --json
    """


@plugins.command("list", cls=Grouped)
@profile_option()
@json_option
def plugins_list(profile: str, as_json: bool) -> None:
    """List the plugins: switch, hooks, cost of importing, and what is wrong with one that is broken."""
    from .commands.plugins import list_plugins

    list_plugins(profile, places(), as_json)


@main.command("log", cls=Grouped)
@click.argument("search", required=False)
@option(
    "-n", "count", type=click.IntRange(1), default=10, show_default=True, group=OUTPUT, help="How many at the most."
)
@json_option
def log(search: str | None, count: int, as_json: bool) -> None:
    """Show the last turns of your chats, or the messages that hold all words of SEARCH.

    \b
    fader log -n 3
    fader log "kv cache"
    fader log --json | jq '.[].numbers.ttft_ms'
    """
    from .commands.log import show_log

    show_log(search, count, places(), as_json)


@main.command("paths", cls=Grouped)
@click.argument("name", required=False)
def paths(name: str | None) -> None:
    """Print where Fader's files are: all of them, or the one called NAME.

    \b
    fader paths
    sqlite3 "$(fader paths database)"

    The variable FADER_HOME moves all of them below one folder.
    """
    from .commands.paths import show_paths

    show_paths(name, places())
