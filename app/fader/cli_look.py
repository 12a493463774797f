"""How the commands that look into an engine are called: `fader devices`, `fader ops`.

Knows words on a command line; what the commands do is in `fader.commands`.
"""

from __future__ import annotations

from typing import Any

import click

from .cli_frame import Grouped, option
from .cli_options import PLUGINS, json_option, model_option, places, profile_option


@click.command("devices", cls=Grouped)
@json_option
def devices(as_json: bool) -> None:
    """List what llama.cpp can compute on, with its memory; tensor_split spreads a model over it."""
    from .commands.kv import list_devices

    list_devices(as_json)


@click.command("ops", cls=Grouped)
@profile_option()
@model_option()
@option("-o", "options", multiple=True, group=PLUGINS, metavar="PLUGIN.KEY=VALUE", help="Change a plugin's setting.")
@option("--on", multiple=True, group=PLUGINS, metavar="PLUGIN", help="Switch a plugin on.")
@option("--off", multiple=True, group=PLUGINS, metavar="PLUGIN", help="Switch a plugin off.")
@json_option
def ops(as_json: bool, **given: Any) -> None:
    """Show what one token costs: operators, kernels, time by class, and what the engine tells of its graphs.

    \b
    fader ops
    fader ops -p torch
    fader ops -p torch --on graph          before and after
    """
    from .commands.ops import show_operators
    from .commands.run import Asked

    show_operators(Asked(**given), places(), as_json)
