"""The screen: the only package that imports Textual.

`start` runs it; everything else here is its own affair.
"""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..paths import Paths
    from ..profiles import Profile


def stands() -> None:
    """Once all of the screen is there, let Python look for circles again; what stands by now is never looked through."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def start(paths: Paths, profile: Profile, model: str | None = None, resume: bool = False) -> int:
    """Run the chat until it is left; return the exit code. `model` replaces the profile's."""
    gc.disable()  # opening makes many objects, which nearly all stay: see `stands`
    import msgspec

    from .app import FaderApp
    from .house import RealHouse

    if model is not None:
        profile = msgspec.structs.replace(profile, model=model)
    if hasattr(signal, "SIGHUP"):  # ignored under nohup; an app whose terminal is gone would read its end for ever
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    app = FaderApp(RealHouse(paths), profile, resume)
    try:
        code = app.run()
    finally:
        app.shut()
    if app.crash is not None:
        what = " ".join(f"{type(app.crash).__name__}: {app.crash}".split())[:300]
        sys.stderr.write(f"Fader stopped: {what}. The conversation is kept; the log is {paths.log}.\n")
        return 1
    return code or 0
