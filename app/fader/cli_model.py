"""How the commands about a model's memory and its cost in words are called: `fader kv`, `fader weights`, `fader devices`.

Knows words on a command line; what they do is in `fader.commands`.
"""

from __future__ import annotations

import click

from .cli_frame import Frame, Grouped, option
from .cli_options import MODEL, json_option, model_option, places, profile_option


@click.group("kv", cls=Frame)
def kv() -> None:
    """See what the KV cache takes, and what smaller number types do to the words.

    \b
    fader kv table -m qwen2.5-0.5b-instruct-q8_0
    fader kv check --type-k q8_0 --type-v q4_0

    Set the types with -o kv_cache.type_k=q8_0 -o kv_cache.type_v=q8_0, in a profile, or in the rack.
    """


@kv.command("table", cls=Grouped)
@profile_option()
@model_option()
@json_option
def kv_table(profile: str, model: str | None, as_json: bool) -> None:
    """Print bytes per token and per context length for each type, from the model's header."""
    from .commands.kv import show_kv_table

    show_kv_table(profile, model, places(), as_json)


@kv.command("check", cls=Grouped)
@profile_option()
@model_option()
@option("--type-k", group=MODEL, metavar="TYPE", help="Type of keys.  [default: q8_0 and q4_0, one after the other]")
@option("--type-v", group=MODEL, metavar="TYPE", help="Type of values.  [default: as for keys; f16 beside --type-k]")
@json_option
def kv_check(profile: str, model: str | None, type_k: str | None, type_v: str | None, as_json: bool) -> None:
    """Compare quantised types with f16 on a fixed text: KL of what comes next, and where greedy words part.

    \b
    fader kv check
    fader kv check -m mine.gguf --type-k q8_0 --type-v q5_1 --json

    The first line is f16 against itself in larger batches: differences of that size are rounding.
    """
    from .commands.kv import check_kv

    check_kv(profile, model, type_k, type_v, places(), as_json)


@click.group("weights", cls=Frame)
def weights() -> None:
    """See what weights of fewer bits save, and what they do to the words.

    Set them with --on weights -o weights.matrices=int8, in a profile, or in the rack.
    """


@weights.command("check", cls=Grouped)
@profile_option()
@model_option()
@option("--matrices", group=MODEL, metavar="KIND", help="float16, int8 or int4.  [default: each in turn]")
@json_option
def weights_check(profile: str, model: str | None, matrices: str | None, as_json: bool) -> None:
    """Compare a model with itself in fewer bits on a fixed text: KL of what comes next, and where greedy words part.

    \b
    fader weights check -p torch
    fader weights check -p torch -m ./my-model --matrices int4 --json

    The first line is the model against itself in larger batches: differences of that size are rounding.
    """
    from .commands.weights import check_weights

    check_weights(profile, model, matrices, places(), as_json)


@click.command("devices", cls=Grouped)
@json_option
def devices(as_json: bool) -> None:
    """List what llama.cpp can compute on, with its memory; tensor_split spreads a model over it."""
    from .commands.kv import list_devices

    list_devices(as_json)
