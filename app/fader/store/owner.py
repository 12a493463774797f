"""Which process is writing a reply, and whether it still lives.

Knows processes, not messages. An owner is host, process id and process start: a recycled id is another process. No
heartbeat is used, because a long prefill is silent for minutes while its process is well.
"""

from __future__ import annotations

import os
import platform
from functools import lru_cache


@lru_cache(maxsize=1)
def _own(pid: int) -> str:
    import psutil

    return f"{platform.node()}|{pid}|{psutil.Process(pid).create_time():.2f}"


def me() -> str:
    """Return this process as an owner."""
    return _own(os.getpid())


def alive(owner: str | None) -> bool:
    """Whether `owner` still runs. Of another machine (a shared home folder) this cannot be known: taken as alive."""
    if not owner:
        return False
    host, _, rest = owner.rpartition("|")[0].partition("|")
    started = owner.rpartition("|")[2]
    if host != platform.node():
        return True
    import psutil

    try:
        # Start times shift by clock ticks when the clock is adjusted.
        return abs(psutil.Process(int(rest)).create_time() - float(started)) < 2
    except psutil.AccessDenied:
        return True
    except (psutil.Error, ValueError):
        return False
