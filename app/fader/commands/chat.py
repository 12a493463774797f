"""`fader` itself: the checks before the screen opens.

Knows terminals only as far as whether there is one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fader_backends.errors import UsageError

from .. import profiles
from ..paths import Paths
from .setup import plugins_for, with_model

if TYPE_CHECKING:
    from ..store.peek import Start


def chat(profile_name: str, model: str | None, resume: bool, paths: Paths) -> int:
    """Open the chat and return its exit code. Raises FaderError before the screen is touched."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise UsageError(
            "The chat needs a terminal, and this is not one.", "", 'Without one, use: fader run "your question".'
        )
    if resume and not profile_name:
        profile_name, used = last_start(paths)
        model = model or used or None
    profile = profiles.load(profile_name, paths)
    if not profiles.is_built_in(Path(profile.sources[-1])):
        plugins_for(profile, paths)  # a shipped profile is sound, and the first frame need not wait for plugins
    if profile.watch:
        from ..lab import live

        live.parse(profile.watch, f"watch of profile {profile.name!r}")
    profile = with_model(profile, model, paths, os.environ, Path.home(), needed=False)

    from ..tui import start

    return start(paths, profile, profile.model, resume)


def last_start(paths: Paths) -> Start:
    """Return the profile and the model file that the last conversation was held with, "" for what is unknown or gone.

    Going on with other switches or another model than before would be a surprise. What is wrong with the store, the
    screen says.
    """
    from ..store.peek import Start, last_start

    profile, model = last_start(paths.database.absolute())
    return Start(profile if profile in profiles.names(paths) else "", model if Path(model).is_file() else "")
