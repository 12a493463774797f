"""Whether the terminal is still there. Only POSIX systems can lose one and go on."""

from __future__ import annotations

import sys

ASKED_S = 2.0
"""How often the app asks."""


def gone() -> bool:
    """Return whether the terminal behind stdin was closed: then reading it would return at once, for ever."""
    try:
        import termios  # not on Windows
    except ImportError:
        return False
    try:
        termios.tcgetattr(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0)
    except (termios.error, OSError, ValueError):
        return True
    return False
