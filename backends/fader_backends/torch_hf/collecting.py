"""Owns when Python looks for objects that refer to each other in circles: not while torch is imported and a model is built.

Knows no torch. Importing it makes hundreds of thousands of objects, which all stay; looking through them again and again as
their number grows takes a fourth of the time until a model is ready.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Let circles be until the end of the block."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
