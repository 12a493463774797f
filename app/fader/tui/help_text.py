"""What F1 shows: keys, commands, the numbers' definitions as the plugins give them.

Knows words only.
"""

from __future__ import annotations

from fader_plugins.turn import Numbers

from .beside.words import help_rows as beside_rows
from .commands import help_rows
from .screen_cost import ScreenCost
from .screens import numbers_help
from .side import Side

Section = tuple[str, list[tuple[str, str]]]

KEYS: list[Section] = [
    (
        "Writing",
        [
            ("Enter", "send; while a reply runs, the message waits its turn"),
            ("Ctrl+J", "new line, as do Alt+Enter, and Shift+Enter where the terminal tells it from Enter"),
            ("Up in an empty prompt", "edit the last message on a branch of its own; Esc gives up"),
            ("Esc", "stop the reply, also while the prompt is read; waiting messages come back into the prompt"),
            ("Ctrl+C", "copy what is selected, else stop; twice within a second quits"),
            ("Ctrl+D in an empty prompt", "quit, as do Ctrl+Q and /exit"),
        ],
    ),
    (
        "Looking",
        [
            ("PageUp PageDown", "move the transcript; Shift+Up and Shift+Down by a row"),
            ("End in an empty prompt", "back to the end, and follow it"),
            ("Tab", "from prompt to transcript to rack"),
            ("j k g G in the transcript", "next, previous, first, last message"),
            ("c or y in the transcript", "copy the marked message"),
            ("Left Right in the transcript", "earlier and later versions of the marked message, ‹ 2 of 3 ›"),
        ],
    ),
    (
        "The marked message",
        [
            ("j k", "mark one; where none is marked, the last one is meant"),
            ("e", "edit it, yours or the model's, on a branch of its own; nothing is overwritten"),
            ("r", "ask again"),
            ("o", "let the model go on from where the reply ends"),
            ("p", "probabilities: what each token was chosen from; Enter there branches with another token"),
            ("m", "pick the tokens of a reply yourself, with undo, or run until one is too surprising"),
            ("t", "tree: all branches; Enter goes there"),
            ("f d", "fork into a chat of its own; delete it with what follows"),
        ],
    ),
    (
        "Everything else",
        [
            ("F2", "rack: switches and settings; once more hides it"),
            ("F3", "numbers"),
            (
                "F5",
                "breakdown: parts of TTFT and of a step, before the last switch and now; so does a click on the numbers",
            ),
            ("Ctrl+P", "all commands, by name"),
            ("Ctrl+N", "new chat"),
            ("Ctrl+R", "earlier chats, with search"),
            ("Ctrl+L", "redraw"),
        ],
    ),
]
BAR = (
    "context bar",
    "Used: tokens of prompt and reply. For the reply: the profile's max_tokens, else an eighth of the context. Free: the rest.",
)
CHANGE = (
    "change",
    "Against the last whole turn before the last switch was thrown. Stopped and failed turns are not compared. "
    "Grey: too few samples.",
)


def sections(side: Side) -> list[Section]:
    """Return all sections; numbers as the plugins that are on define them."""
    rows = numbers_help([*side.readings(Numbers()), *ScreenCost().readings()])
    return [*KEYS, ("Side by side", beside_rows()), ("Commands", help_rows()), ("Numbers", [*rows, BAR, CHANGE])]
