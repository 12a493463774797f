"""What all commands share: errors as one line with an exit code, options in groups, streams that take any text.

Knows click, and no command.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NoReturn, TypeVar

import click
from fader_backends.errors import FaderError, UnknownName

from .paths import Paths

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130
GONE = (errno.EPIPE, errno.EINVAL if os.name == "nt" else errno.EPIPE)
"""What writing to a pipe says whose reader went away."""
FULL = (errno.ENOSPC, errno.EIO)
"""What writing to a disk says; files of ours turn it into errors of their own, so it comes from stdout."""
OTHER = "Other"


class GroupedOption(click.Option):
    """An option that says under which heading it is listed."""

    def __init__(self, *args: Any, group: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.group = group


def option(*names: str, group: str, **options: Any) -> Callable[[F], F]:
    """Declare an option under a heading."""
    return click.option(*names, cls=GroupedOption, group=group, **options)


class Grouped(click.Command):
    """A command whose help lists its options by heading."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each heading with its options, in the order of declaration."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
            if record is not None:
                headings.setdefault(getattr(parameter, "group", OTHER), []).append(record)
        for heading, records in sorted(headings.items(), key=lambda item: item[0] == OTHER):
            with formatter.section(heading):
                formatter.write_dl(records)


class Frame(Grouped, click.Group):
    """A group that ends every failure with one line on stderr and an exit code."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by heading, then the commands."""
        super().format_options(context, formatter)
        self.format_commands(context, formatter)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant. Raises UnknownName with the nearest one."""
        if args and not args[0].startswith("-") and self.get_command(context, args[0]) is None:
            raise UnknownName("command", args[0], self.list_commands(context))
        return super().resolve_command(context, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002 - click's signature; this one always ends the program
        **extra: Any,
    ) -> NoReturn:
        """Run the command line and exit: 0; 1 failed; 2 wrong usage; 130 interrupted."""
        take_any_text()
        try:
            code = super().main(args, prog_name or "fader", complete_var, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            hint = f" See {context.command_path} --help." if context is not None else ""
            code = fail(error.format_message().rstrip(".") + "." + hint, error.exit_code)
        except FaderError as error:
            code = fail(str(error), error.exit_code)
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except OSError as error:
            code = lost_output(error) if error.errno in (*GONE, *FULL) else unforeseen(error)
        except Exception as error:  # a fault of ours: it goes to the log, and people get a line
            code = unforeseen(error)
        sys.exit(settled(code if isinstance(code, int) else 0))


def fail(line: str, code: int) -> int:
    """Print one line on stderr; return the exit code."""
    click.echo(f"fader: {' '.join(line.split())}", err=True)
    return code


def unforeseen(error: Exception) -> int:
    """Put the traceback in the log and say where; return the exit code."""
    from .log import log_exception

    log = Paths.from_environment(os.environ).log
    written = log_exception(log, error, datetime.now().astimezone())
    what = f"{type(error).__name__}: {error}".rstrip(".")
    return fail(f"unforeseen error: {what}. " + (f"Details: {log}" if written else f"(No log: cannot write {log}.)"), 1)


def take_any_text() -> None:
    """Make stdout and stderr take every character: UTF-8 into files and pipes, replacements on odd consoles."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace", encoding=None if stream.isatty() else "utf-8")


def settled(code: int) -> int:
    """Write out what stdout still holds; return the exit code, which is 1 when that fails."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except OSError as error:
        return lost_output(error)


def lost_output(error: OSError) -> int:
    """Give stdout up, with a line unless its reader simply went away; return the exit code."""
    with suppress(OSError, ValueError):  # or Python complains once more on its way out
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if error.errno in GONE else fail(f"cannot write the output: {error.strerror or error}.", 1)
