"""`fader paths`: where the files are.

Knows names of places, not what is in them.
"""

from __future__ import annotations

import click
from fader_backends.errors import UnknownName

from ..paths import Paths
from .table import show_table


def show_paths(name: str | None, paths: Paths) -> None:
    """Print one place, or all by name. Raises UnknownName."""
    named = paths.named()
    if name is None:
        show_table(("NAME", "PATH"), [(key, str(path)) for key, path in named.items()])
    elif name in named:
        click.echo(str(named[name]))
    else:
        raise UnknownName("place", name, named)
