"""Keeps faults of our own handlers from ending the app: they go to the log, and one line of notice to the screen.

Knows nothing of what the handlers do.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Troubled(Protocol):
    """Where a fault is reported."""

    def broke(self, error: Exception) -> None:
        """Log and show it."""
        ...


def contained(method: F) -> F:
    """Wrap a method of a widget or app: what it raises is reported to the app and goes no further."""
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return await method(self, *args, **kwargs)
            except Exception as error:  # the point of this module
                cast("Troubled", self.app).broke(error)

        return cast("F", waiting)

    @functools.wraps(method)
    def plain(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # the point of this module
            cast("Troubled", self.app).broke(error)

    return cast("F", plain)
