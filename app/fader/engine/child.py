"""The engine's own process: `python -m fader.engine.child LOG [PLUGIN_FOLDER]`, commands on stdin, events on stdout.

Knows no app. Whatever a library prints goes to the log; the process ends when its input does.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from pathlib import Path
from typing import BinaryIO

from fader_plugins.registry import build
from fader_plugins.turn import AnyEvent

from . import wire
from .engine import Engine

LAST_SECONDS = 2.0
"""How long the model may take to let go once the app is gone."""


def main(arguments: list[str]) -> int:
    """Run until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inbox, outbox = _private_pipes(Path(arguments[0]))
    faulthandler.enable()
    registry = build(Path(arguments[1]) if len(arguments) > 1 else None)

    def emit(event: AnyEvent) -> None:
        try:
            wire.write(outbox, event)
        except OSError:
            os._exit(0)  # nobody is listening any more

    engine = Engine(registry, emit)
    threading.Thread(target=_listen, args=(inbox, engine), daemon=True).start()
    engine.run()
    return 0


def _private_pipes(log: Path) -> tuple[BinaryIO, BinaryIO]:
    """Move the pipes to descriptors no library knows; send descriptors 1 and 2 to the log."""
    inbox = os.fdopen(os.dup(0), "rb")
    outbox = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for source, target in ((null, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
        os.close(source) if target != 1 else None
    return inbox, outbox


def _listen(inbox: BinaryIO, engine: Engine) -> None:
    while (data := wire.read(inbox)) is not None:
        command = wire.commands.decode(data)
        match command:
            case wire.Submit():
                engine.submit(command.request)
            case wire.Cancel():
                engine.cancel(command.request_id)
            case wire.Prepare():
                engine.prepare(command.request)
            case wire.Look():
                engine.look(command.request)
            case wire.Adjust():
                engine.adjust(command.request_id, command.sampler)
    engine.close()
    last = threading.Timer(LAST_SECONDS, os._exit, (0,))
    last.daemon = True  # or the interpreter waits for it on its way out
    last.start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
