"""How the commands are called that rest on a bundle: adopt, rollback, replay, challenge, review.

Knows words on a command line; what they do is in `fader.commands`.
"""

from __future__ import annotations

from typing import Any

import click

from .cli_frame import Grouped, option
from .cli_lab import RUNS
from .cli_options import CONTEXT, MODEL, OUTPUT, json_option, model_option, places


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
    fader adopt 20260131-140530-copy --profile mine --limit "tpot <= 0.9 x baseline"

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


@click.command("review", cls=Grouped, context_settings=CONTEXT)
@click.argument("bundle")
@json_option
def review(bundle: str, as_json: bool) -> int:
    """Check BUNDLE as a suspicious reader would. Runs nothing.

    \b
    fader review last
    fader review theirs.zip

    Looks in the raw record for a missing baseline, more than one variable, too few samples, known prompts passed off as
    cold, replies of unequal length, made-up acceptance, other models, and more. Exit code 1 with an objection.
    """
    from .commands.review import review_bundle

    return review_bundle(bundle, as_json, places())


@click.command("replay", cls=Grouped, context_settings=CONTEXT)
@click.argument("bundle")
@model_option()
@option(
    "--rounds",
    type=click.IntRange(1),
    group=RUNS,
    metavar="N",
    help="Repetitions on each side; below 8 no change can be told from noise.  [default: the bundle's]",
)
@option("--verify", is_flag=True, group=RUNS, help="Run nothing: recompute every printed number from the raw events.")
@json_option
def replay(**given: Any) -> int:
    """Run BUNDLE again on this machine, and say what held.

    \b
    fader replay theirs.zip
    fader replay 20260131-140530-copy --rounds 3
    fader replay theirs.zip --verify

    Each figure and each set of replies is the same, within the A/A spread, different, or cannot be run here and why. Every
    difference of machine, versions and model is named. Exit code 1 when something the change did is not there again.
    """
    from .commands.replay import Replayed
    from .commands.replay import replay as run

    return run(Replayed(**given), places())


@click.command("challenge", cls=Grouped, context_settings=CONTEXT)
@click.argument("bundle")
@model_option()
@option(
    "--trials", type=click.IntRange(4), default=24, show_default=True, group=RUNS, metavar="N", help="Inputs to try."
)
@option(
    "--seed",
    type=click.IntRange(0, 2**63),
    default=1,
    show_default=True,
    group=RUNS,
    help="Of the search and of its texts.",
)
@json_option
def challenge(**given: Any) -> int:
    """Look for an input that overturns what BUNDLE claims.

    \b
    fader challenge last
    fader challenge 20260131-140530-copy --trials 60

    A search over length of prompt and reply, script, repetition, temperature, a second prompt beside, and cold or warm.
    What seems to overturn the claim is measured in full, made smaller while it does, and written into the bundle with its
    own raw record. Exit code 1 when there is a counter-example.
    """
    from .commands.challenge import Challenged
    from .commands.challenge import challenge as run

    return run(Challenged(**given), places())
