"""One rank of a model that several processes share: `python -m fader_backends.torch_hf.rank RANK RANKS STORE`.

Commands on stdin, replies on stdout, pickled, between a process and the one that started it. Each rank is told the same in
the same order, and drives a backend of its own over its part of the weights. It ends when its input does, whatever it is doing:
nobody needs to be alive to stop it.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fader_backends.base import ContextSpec, Extension, Memory, Message, ModelSpec, Scores, SessionState
from fader_backends.errors import FaderError
from fader_backends.torch_hf.collecting import uncollected
from fader_backends.torch_hf.ranks import Described

if TYPE_CHECKING:
    from fader_backends.torch_hf.backend import TorchBackend
    from fader_backends.torch_hf.session import TorchSession


class Served:
    """What a rank can be asked; sessions go by numbers that the asker gives."""

    backend: TorchBackend

    def __init__(self, rank: int, count: int, store: Path) -> None:
        self.rank, self.count, self.store = rank, count, store
        self.sessions: dict[int, TorchSession] = {}

    def load(self, model: ModelSpec, context: ContextSpec) -> Described:
        """Meet the other ranks, and load this one's part."""
        with uncollected():
            return self._loaded(model, context)

    def _loaded(self, model: ModelSpec, context: ContextSpec) -> Described:
        import torch

        from fader_backends.torch_hf.backend import open_backend

        on_gpu = str(model.options.get("device")).startswith("cuda")
        os.environ.update(RANK=str(self.rank), LOCAL_RANK=str(self.rank), WORLD_SIZE=str(self.count))
        if on_gpu:
            torch.cuda.set_device(self.rank)
        torch.distributed.init_process_group(
            "nccl" if on_gpu else "gloo", init_method=self.store.as_uri(), rank=self.rank, world_size=self.count
        )
        self.backend = open_backend(model, context, lambda _: True)
        return self.described()

    def described(self) -> Described:
        """Return what is true of the backend now."""
        backend = self.backend
        return Described(backend.facts, backend.context, backend.state_key, backend.end_tokens)

    def configure(self, context: ContextSpec) -> Described:
        """Lay out anew; sessions are closed."""
        self.backend.configure(context)
        self.sessions.clear()
        return self.described()

    def open(self, number: int) -> None:
        """Open a session under a number."""
        self.sessions[number] = self.backend.open()

    def close(self, number: int) -> None:
        """Close it."""
        self.sessions.pop(number).close()

    def evaluate(self, work: Sequence[tuple[int, Sequence[int], int]]) -> list[Scores]:
        """Evaluate (session, tokens, rows); the first rank returns the scores."""
        scores = self.backend.all_scores([Extension(self.sessions[one], tokens, rows) for one, tokens, rows in work])
        return scores if self.rank == 0 else []

    def rewind(self, number: int, length: int) -> None:
        """Forget a session's tail."""
        self.sessions[number].rewind(length)

    def copy(self, number: int, other: int) -> None:
        """Let a session hold what another holds."""
        self.sessions[number].copy(self.sessions[other])

    def save(self, number: int) -> bytes:
        """Return this rank's part of a session's state."""
        return self.sessions[number].save().data

    def restore(self, number: int, tokens: tuple[int, ...], parts: Sequence[bytes]) -> None:
        """Take this rank's part of a saved state."""
        self.sessions[number].load(SessionState(tokens, self.backend.state_key, parts[self.rank]))

    def memory(self) -> Memory:
        """Return what this rank holds."""
        return self.backend.memory()

    def chat(self, messages: Sequence[Message], now: datetime) -> list[int]:
        """Return a prompt's ids."""
        return self.backend.chat(messages, now)

    def encode(self, text: str) -> list[int]:
        """Return plain text's ids."""
        return self.backend.encode(text)

    def piece(self, token: int) -> bytes:
        """Return a token's bytes."""
        return self.backend.piece(token)


def main(arguments: Sequence[str]) -> None:
    """Answer until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inbox, outbox = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is for the log
    commands: queue.SimpleQueue[tuple[str, tuple[Any, ...]]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(inbox, commands), daemon=True).start()
    served = Served(int(arguments[0]), int(arguments[1]), Path(arguments[2]))
    while True:
        name, values = commands.get()
        reply: tuple[bool, Any]
        try:
            reply = True, getattr(served, name)(*values)
        except FaderError as error:
            reply = False, (type(error).__name__, error.title, error.detail, error.next_step)
        except Exception as error:  # it is told to the asker, and the rank goes on
            traceback.print_exception(error)
            what = f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"
            reply = False, ("TurnError", f"Rank {served.rank} met an error it does not know.", what, "Send it again.")
        pickle.dump(reply, outbox)
        outbox.flush()


def _listen(inbox: BinaryIO, commands: queue.SimpleQueue[tuple[str, tuple[Any, ...]]]) -> None:
    try:
        while True:
            commands.put(pickle.load(inbox))
    finally:
        os._exit(0)  # the asker is gone; a rank that waits for another one in a collective hears nothing else


if __name__ == "__main__":
    main(sys.argv[1:])
