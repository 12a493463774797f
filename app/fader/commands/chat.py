"""`fader` itself: the checks before the screen opens.

Knows terminals only as far as whether there is one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fader_backends.errors import UsageError

from .. import profiles
from ..paths import Paths
from .setup import plugins_for, with_model


def chat(profile_name: str, model: str | None, resume: bool, paths: Paths) -> int:
    """Open the chat and return its exit code. Raises FaderError before the screen is touched."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise UsageError(
            "The chat needs a terminal, and this is not one.", "", 'Without one, use: fader run "your question".'
        )
    profile = profiles.load(profile_name or (last_profile(paths) if resume else ""), paths)
    if not profiles.is_built_in(Path(profile.sources[-1])):
        plugins_for(profile, paths)  # a shipped profile is sound, and the first frame need not wait for plugins
    profile = with_model(profile, model, paths, os.environ, Path.home(), needed=False)

    from ..tui import start

    return start(paths, profile, profile.model, resume)


def last_profile(paths: Paths) -> str:
    """Return the profile that the last conversation was held with; "" when there is none, or it is gone.

    Going on with other switches or another model than before would be a surprise. What is wrong with the store, the
    screen says.
    """
    from ..store.peek import last_profile as of_store

    name = of_store(paths.database.absolute())
    return name if name in profiles.names(paths) else ""
