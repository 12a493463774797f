"""How much memory this process has held at its peak, on every system."""

from __future__ import annotations

import sys

import psutil


def peak_rss_bytes() -> int:
    """Return the highest resident size of this process so far."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
