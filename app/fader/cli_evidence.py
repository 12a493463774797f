"""How the commands are called that rest on a bundle: adopt, rollback, replay, challenge, review.

Knows words on a command line; what they do is in `fader.commands`.
"""

from __future__ import annotations

import click

from .cli_frame import Grouped, option
from .cli_options import CONTEXT, MODEL, OUTPUT, places


@click.command("adopt", cls=Grouped, context_settings=CONTEXT)
@click.argument("bundle")
@option("--profile", default="", group=MODEL, metavar="NAME", help="Into which.  [default: the baseline's]")
@option(
    "--limit",
    "limits",
    multiple=True,
    group=OUTPUT,
    metavar="GATE",
    help='One more limit that must hold, such as "tpot <= 1.02 x baseline".',
)
def adopt(bundle: str, profile: str, limits: tuple[str, ...]) -> None:
    """Write the change that BUNDLE measured into a profile, if its gates hold.

    \b
    fader adopt last
    fader adopt 20260131-1405-copy --profile mine --limit "tpot <= 0.9 x baseline"

    Only the changed setting changes, and the former version is kept: `fader rollback`. A gate that fails or was not
    measured is named, nothing is written, and the exit code is 1.
    """
    from .commands.adopt import adopt as run

    run(bundle, profile, limits, places())


@click.command("rollback", cls=Grouped, context_settings=CONTEXT)
@option("--profile", default="", group=MODEL, metavar="NAME", help="Which one.  [default: the last that was changed]")
@option("--force", is_flag=True, group=OUTPUT, help="Also where the file was changed since.")
def rollback(profile: str, force: bool) -> None:
    """Take the last adopted change back, and prove it with one turn.

    The profile's file becomes, byte for byte, what it was before `fader adopt`.
    """
    from .commands.adopt import rollback as run

    run(profile, force, places())
