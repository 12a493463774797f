"""Keeps faults of our own handlers from ending the app: they go to the log, and one line of notice to the screen.

Knows nothing of what the handlers do.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from fader_backends.errors import FaderError, Failure
from textual.app import App

from ..notices import NOTICE

if TYPE_CHECKING:
    from ..paths import Paths
    from .house import House

F = TypeVar("F", bound=Callable[..., Any])


def contained(method: F) -> F:
    """Wrap a method of a widget or app: what it raises is reported to the app and goes no further."""
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return await method(self, *args, **kwargs)
            except Exception as error:  # the point of this module
                cast("Contained", self.app).broke(error)

        return cast("F", waiting)

    @functools.wraps(method)
    def plain(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # the point of this module
            cast("Contained", self.app).broke(error)

    return cast("F", plain)


class Contained(App[int]):
    """An app that outlives faults in its handlers and actions."""

    house: House
    paths: Paths
    crash: Exception | None = None
    """The fault that ended the app."""

    def tell(self, failure: Failure) -> None:
        """Show what went wrong: title, detail, next step."""
        parts = (failure.detail, failure.next_step)
        message = "\n".join(" ".join(part.split()) for part in parts if part) or "\u2007"
        title = " ".join(failure.title.split())
        severity: Literal["information", "error"] = "information" if failure.kind == NOTICE else "error"
        self.notify(message, title=title, severity=severity, timeout=12, markup=False)

    def broke(self, error: Exception) -> None:
        """Report what one of our own handlers raised: an error made for people as it is, anything else to the log."""
        if isinstance(error, FaderError):
            self.tell(error.failure)
            return
        self.log_fault(error)
        what = f"{type(error).__name__}: {error}"[:200]
        self.tell(Failure("Something went wrong inside Fader.", what, f"The chat goes on; {self.paths.log} has more."))

    def log_fault(self, error: BaseException) -> None:
        """Append a traceback to the log file, if it can be written."""
        try:
            self.paths.log.parent.mkdir(parents=True, exist_ok=True)
            with self.paths.log.open("a", encoding="utf-8") as log:
                log.write(f"{self.house.now().isoformat()}\n{''.join(traceback.format_exception(error))}\n")
        except OSError:
            self.bell()

    async def run_action(self, *args: Any, **kwargs: Any) -> bool:
        """Run an action; what it raises is reported."""
        try:
            return await super().run_action(*args, **kwargs)
        except Exception as error:  # see `contain`
            self.broke(error)
            return True

    def _handle_exception(self, error: Exception) -> None:
        # The last resort: a fault in drawing. No traceback on the screen; `start` prints one line when it is restored.
        self.crash = error
        self.log_fault(error)
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()


def contained_callback(app: Contained, callback: Any) -> Any:
    """Return a callback whose faults are reported to the app."""

    class Caller:
        def __init__(self) -> None:
            self.app = app

        @contained
        def __call__(self, value: Any) -> None:
            callback(value)

    return Caller()
