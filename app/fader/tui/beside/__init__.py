"""The screen on which columns stand side by side.

screen.py   the screen: keys, what is asked, what becomes of it
words.py    its title, tabs, keys and commands
view.py     one column: its title, its running reply, its numbers
grid.py     settings that differ, edited in place
listed.py   the list of stored comparisons
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from fader_backends.errors import FaderError

if TYPE_CHECKING:
    from ..actions import Actions


def opened(app: Actions, argument: str) -> None:
    """Open the screen: on a question, on comparison `#3`, or on the last question. Raises FaderError."""
    from ...commands.compare import makers
    from ...compare.comparer import Comparer
    from .screen import BesideScreen
    from .words import number

    chat = app.ready()
    if chat.turn is not None:
        raise FaderError("A reply is running.", "", "Press Esc to stop it, or let it end.")
    if app.comparer is None or app.comparer.chat is not chat:
        found = makers(chat.board.registry, app.paths, needed=False)
        app.comparer = Comparer(chat, found, chat.engine, secrets.randbits(32), lambda: None)
        app.comparer.set_columns([{}, {"temperature": "1.2"}])
    if argument.startswith("#"):
        app.comparer.open(number(argument))
        argument = ""
    elif not argument:
        question = chat.last_question()
        argument = question.content if question is not None and app.comparer.side is None else ""
    app.prompt.put("")  # what stood there goes with the person; it comes back if nothing is asked
    app.push_screen(BesideScreen(app.comparer, argument), lambda left: app.prompt.give_back(left) if left else None)
