"""Slash commands and what the palette offers: names, help lines, and which action of the app each one is.

Knows the app's actions, not how they work.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from fader_backends.errors import FaderError, UsageError
from textual.app import SystemCommand

from .. import profiles

if TYPE_CHECKING:
    from .talk import Talk

LEAVE = frozenset({"exit", "quit", ":q", "bye"})
"""Bare words that end the app, as in a shell."""
_COMMAND = re.compile(r"/([A-Za-z?][A-Za-z_-]*)(?:\s+(.*))?\Z", re.DOTALL)


class Command(NamedTuple):
    """One slash command."""

    help: str
    run: Callable[[Talk, str], None]
    argument: str = ""


def _set(app: Talk, argument: str) -> None:
    place, equals, value = argument.partition("=")
    plugin, dot, key = place.strip().partition(".")
    if not equals or not dot:
        raise UsageError("/set needs PLUGIN.KEY=VALUE.", "", "For example: /set sampler.temperature=0.2")
    app.set_value(plugin, key.strip(), value.strip())


def _why(app: Talk) -> None:
    from . import why

    why.show(app)


def _ops(app: Talk) -> None:
    from . import ops

    ops.show(app)


def _compare(app: Talk, argument: str) -> None:
    from . import beside

    beside.opened(app, argument)


COMMANDS: dict[str, Command] = {
    "help": Command("Keys, commands, definitions of the numbers", lambda app, _: app.action_help()),
    "new": Command("Start a new conversation", lambda app, _: app.action_new()),
    "list": Command("Open an older conversation", lambda app, _: app.action_chats()),
    "stop": Command("Stop the reply", lambda app, _: app.action_stop()),
    "regen": Command("Ask the last message again", lambda app, _: app.action_regenerate()),
    "edit": Command("Edit the last message", lambda app, _: app.action_edit_last()),
    "continue": Command("Let the model go on from the last reply", lambda app, _: app.act("go_on")),
    "fork": Command("Go on in a chat of its own", lambda app, _: app.act("fork")),
    "delete": Command("Delete the last message", lambda app, _: app.act("delete")),
    "tree": Command("All branches of the conversation", lambda app, _: app.act("tree")),
    "probs": Command("What the last reply's tokens were chosen from", lambda app, _: app.act("odds")),
    "pick": Command("Pick the tokens of a reply yourself", lambda app, _: app.act("pick")),
    "copy": Command("Copy the last reply", lambda app, _: app.transcript.action_copy()),
    "on": Command("Switch a plugin on", lambda app, name: app.throw(name, True), "PLUGIN"),
    "off": Command("Switch a plugin off", lambda app, name: app.throw(name, False), "PLUGIN"),
    "set": Command("Change a setting", _set, "PLUGIN.KEY=VALUE"),
    "rack": Command("Show or hide the rack", lambda app, _: app.action_rack()),
    "numbers": Command("Show or hide the numbers", lambda app, _: app.action_numbers()),
    "why": Command("What each mechanism saved and cost in the last turn", lambda app, _: _why(app)),
    "ops": Command("What one token costs in operators and kernels", lambda app, _: _ops(app)),
    "breakdown": Command(
        "Where time went before the last switch, and since (F5)", lambda app, _: app.action_breakdown()
    ),
    "bundle": Command(
        "Evidence of the last two turns that differ in one setting; `with text`: words too",
        lambda app, t: app.bundle(t),
    ),
    "watch": Command("Limit the chat is held to, such as itl_p95 <= 60 ms; or off", lambda app, t: app.set_watch(t)),
    "record": Command("Keep turns' events for bundles: on or off", lambda app, t: app.record(t)),
    "compare": Command("Ask under several settings, side by side (F4)", _compare),
    "profile": Command("Use another profile", lambda app, name: app.use_profile(name), "NAME"),
    "save": Command("Save the switches as a profile", lambda app, name: app.save_profile(name), "NAME"),
    "exit": Command("Quit", lambda app, _: app.action_leave()),
}
ALIASES = {"?": "help", "resume": "list", "load": "list", "clear": "new", "quit": "exit", "bye": "exit"}


def parse(text: str) -> tuple[str, str] | None:
    """Return the command and its argument, None for a message. A path such as /etc/hosts is a message."""
    if text.strip() in LEAVE:
        return "exit", ""
    found = _COMMAND.match(text.strip())
    if found is None or text[:1].isspace():
        return None
    return found[1], (found[2] or "").strip()


def run(app: Talk, name: str, argument: str) -> None:
    """Run a slash command. Raises FaderError for one that is not there, or that lacks its argument."""
    name = ALIASES.get(name, name)
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, [*COMMANDS, *ALIASES], n=1, cutoff=0.5)
        hint = f"Did you mean /{near[0]}?" if near else "/help lists all commands."
        raise UsageError(f"There is no command /{name}.", "", f"{hint} Put a space before it to send it as text.")
    if command.argument and not argument:
        raise UsageError(f"/{name} needs {command.argument}.", "", f"Type /{name} {command.argument}.")
    command.run(app, argument)


def help_rows() -> list[tuple[str, str]]:
    """Return the commands for the help sheet."""
    return [(f"/{name} {command.argument}".rstrip(), command.help) for name, command in COMMANDS.items()]


def palette(app: Talk) -> Iterator[SystemCommand]:
    """Yield what Ctrl+P offers."""
    yield SystemCommand("New chat", "Start a new conversation (Ctrl+N)", app.action_new)
    yield SystemCommand("Chats", "Open or search older conversations (Ctrl+R)", app.action_chats)
    yield SystemCommand("Ask again", "Another reply to the last message", app.action_regenerate)
    yield SystemCommand("Edit the last message", "On a branch of its own (Up)", app.action_edit_last)
    yield SystemCommand("Continue", "Let the model go on from the last reply (/continue)", lambda: app.act("go_on"))
    yield SystemCommand("Tree", "All branches of the conversation (/tree)", lambda: app.act("tree"))
    yield SystemCommand("Probabilities", "What the last reply was chosen from (/probs)", lambda: app.act("odds"))
    yield SystemCommand("Pick tokens", "Write a reply with the model, token by token (/pick)", lambda: app.act("pick"))
    yield SystemCommand("Fork", "Go on in a chat of its own (/fork)", lambda: app.act("fork"))
    yield SystemCommand("Rack", "Show or hide switches and settings (F2)", app.action_rack)
    yield SystemCommand("Numbers", "Show or hide the numbers (F3)", app.action_numbers)
    yield SystemCommand("Why", "What each mechanism saved and cost in the last turn (/why)", lambda: _why(app))
    yield SystemCommand("Operators", "What one token costs in operators and kernels (/ops)", lambda: _ops(app))
    yield SystemCommand("Breakdown", "Where time went before the last switch, and since (F5)", app.action_breakdown)
    yield SystemCommand(
        "Bundle", "Evidence of the last two turns, without their words (/bundle)", lambda: app.bundle("")
    )
    yield SystemCommand("Bundle with text", "The same, prompt and replies included", lambda: app.bundle("with text"))
    if (chat := app.chat) is not None:
        verb = "off" if chat.board.profile.record_mib else "on"
        yield SystemCommand(f"Recording {verb}", "Events of turns, for bundles (/record)", lambda: app.record(verb))
    yield SystemCommand("Side by side", "Ask one question under several settings (F4)", app.action_compare)
    board = app.board
    if board is not None:
        for name, state in board.states.items():
            info = board.registry.plugins[name].info
            if info.toggle:
                verb = "off" if state.on else "on"
                yield SystemCommand(
                    f"Switch {verb}: {name}", info.summary, lambda name=name, on=state.on: app.throw(name, not on)
                )
    try:
        names = profiles.names(app.paths)
    except FaderError:
        names = []
    for name in names:
        yield SystemCommand(
            f"Profile: {name}", "Take all switches and settings from it", lambda name=name: app.use_profile(name)
        )
    yield SystemCommand("Save as profile", "Write the switches as they stand to a profile", app.action_save_profile)
    yield SystemCommand("Light or dark", "Change between the two themes", app.action_light_or_dark)
    yield SystemCommand("Theme", "Choose among all themes", app.action_change_theme)
    yield SystemCommand("Help", "Keys, commands, definitions of the numbers (F1)", app.action_help)
    yield SystemCommand("Quit", "The conversation is kept (Ctrl+Q)", app.action_leave)
