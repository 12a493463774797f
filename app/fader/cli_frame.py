"""What all commands share: errors as one line with an exit code, options in groups, streams that take any text.

Knows click, and no command.
"""

from __future__ import annotations

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

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:
        """Run the command line and exit: 0; 1 failed; 2 wrong usage; 130 interrupted."""
        take_any_text()
        extra["standalone_mode"] = False
        try:
            code = super().main(args, prog_name or "fader", **extra)
            sys.stdout.flush()
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
        except BrokenPipeError:
            forget_stdout()
            code = 1
        except Exception as error:  # a fault of ours: it goes to the log, and people get a line
            code = unforeseen(error)
        sys.exit(code if isinstance(code, int) else 0)


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


def forget_stdout() -> None:
    """Point stdout nowhere, so that Python does not complain of the closed pipe on its way out."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
