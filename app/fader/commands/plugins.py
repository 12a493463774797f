"""`fader plugins list`: every plugin that was found, what it cost to import, and what is wrong with it.

Knows the registry and a profile's switches; imports no model library.
"""

from __future__ import annotations

import contextlib
import sys

import click
import msgspec
from fader_plugins.registry import Plugin

from .. import profiles
from ..paths import Paths
from ..switchboard import Switchboard
from .setup import plugins_for
from .table import show_table


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin in `fader plugins list --json`."""

    name: str
    summary: str
    origin: str
    hooks: tuple[str, ...]
    import_ms: float
    state: str
    """on, off, always (it has no switch), or broken."""
    problem: str | None


def list_plugins(profile_name: str, paths: Paths, as_json: bool) -> None:
    """Print the plugins with their switches as the profile has them."""
    with contextlib.redirect_stdout(sys.stderr):  # what plugins print while they are imported is not the list
        registry, profile = plugins_for(profiles.load(profile_name, paths), paths)
    board = Switchboard(registry, profile)
    rows = [
        Listed(
            name=name,
            summary=plugin.info.summary,
            origin=plugin.origin,
            hooks=plugin.hooks,
            import_ms=round(plugin.import_ms, 2),
            state=state_of(plugin, board),
            problem=plugin.problem,
        )
        for name, plugin in registry.plugins.items()
    ]
    if as_json:
        click.echo(msgspec.json.encode(rows).decode())
        return
    show_table(
        ("NAME", "STATE", "IMPORT MS", "HOOKS", "SUMMARY"),
        [
            (row.name, row.state, f"{row.import_ms:.1f}", ", ".join(row.hooks) or "-", row.problem or row.summary)
            for row in rows
        ],
    )


def state_of(plugin: Plugin, board: Switchboard) -> str:
    """Return a word for where a plugin stands."""
    if plugin.problem is not None:
        return "broken"
    if not plugin.info.toggle:
        return "always"
    return "on" if board.states[plugin.info.name].on else "off"
