"""`/bundle`: evidence out of the chat or of a comparison, written on another thread.

Knows where turns are kept and how to say what became of them; what goes into a bundle is `fader.lab.chatted`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fader_backends.base import Message
from fader_backends.errors import FaderError, UsageError

from .. import kept
from ..turns import joined, said

if TYPE_CHECKING:
    from ..chat import Chat
    from ..compare.column import Column
    from ..compare.comparer import Comparer
    from ..lab.chatted import Pair
    from .evidence import Evidence
    from .lines import Lines

MOST = 50
"""Recorded turns among which one to compare with is looked for."""
WITH_TEXT = "with text"


def with_text(argument: str, command: str) -> bool:
    """Return whether words are to go in. Raises UsageError for anything but that wish."""
    if argument not in ("", WITH_TEXT):
        step = f"{command} leaves all words out; {command} {WITH_TEXT} puts prompt and replies in."
        raise UsageError(f"{argument!r} is not understood.", "", step)
    return bool(argument)


def of_chat(app: Evidence, words: bool) -> None:
    """Make a bundle of the chat, or of the comparison where that was asked later. Raises FaderError."""
    from ..lab import chatted

    chat, comparer = app.ready(), app.comparer
    if chat.turn is not None:
        raise FaderError("A reply is running.", "", "Press Esc to stop it, or let it end.")
    if comparer is not None and _asked(comparer) > app.sent_ns:
        of_columns(app, comparer, comparer.columns[:2], words)
        return
    turns = recorded(chat)
    unrecorded = chat.leaf is not None and chat.leaf not in [message for message, _ in turns]
    pair = chatted.pair([one for _, one in turns], chat.board.registry)
    told = None
    if words:
        reply = next(message for message, one in turns if one is pair.b[-1])
        told = joined(said(chat.store.path(reply)[:-1]))
    write(app, chat, pair, told, "The last reply is not in it, for its turn was not recorded." if unrecorded else "")


def recorded(chat: Chat) -> list[tuple[int, kept.Kept]]:
    """Return the recorded turns of the conversation with their replies, the latest first. Raises StoreError."""
    if chat.conversation is None:
        return []
    found = [(message, kept.unpacked(data)) for message, data in chat.store.events(chat.conversation.id, MOST)]
    return [(message, one) for message, one in found if one is not None]


def _asked(comparer: Comparer) -> int:
    """Return when the comparison was asked last, on the clock of requests; 0 where it was not in this run of the app."""
    return max((one.run.stats.request.submitted_ns for one in comparer.columns if one.run is not None), default=0)


def of_columns(app: Lines, comparer: Comparer, columns: Sequence[Column], words: bool) -> None:
    """Make a bundle of two columns. Raises FaderError where they do not compare."""
    from ..compare import evidence

    side = comparer.running()
    one, other = columns
    told = joined(side.asked.messages) if words else None
    write(app, comparer.chat, evidence.pair(side, one, other, comparer.chat.board.registry), told)


def write(app: Lines, chat: Chat, pair: Pair, told: Sequence[Message] | None, note: str = "") -> None:
    """Write the bundle on another thread, then say where it is, and the note."""
    registry, paths = chat.board.registry, app.paths

    def writing() -> None:
        from ..commands.recording import surroundings
        from ..lab import chatted, report

        try:
            around = surroundings(paths, "made in the chat")
            made, _ = report.write(chatted.make(pair, around, registry, told))
        except Exception as error:  # whatever it is, the chat goes on
            app.call_from_thread(app.broke, error)
            return
        words = "No word of the conversation is in it." if told is None else "Prompt and replies are in it."
        said = "\n".join(filter(None, (made.manifest.what, note, words)))
        text = f"{said} To read it: fader lab show {made.manifest.id}"
        app.call_from_thread(app.notify, text, title="Bundle", timeout=15, markup=False)

    app.run_worker(writing, thread=True, exit_on_error=False)
