"""How `fader ops` is called, which looks into an engine.

Knows words on a command line; what the command does is in `fader.commands`.
"""

from __future__ import annotations

from typing import Any

import click

from .cli_frame import Grouped, option
from .cli_options import PLUGINS, json_option, model_option, places, profile_option


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
