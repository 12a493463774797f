"""The draft's side of a draft model: its backend beside the target's, and a session per turn that follows the history.

Knows no hooks, and not whether a draft pays.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from fader_backends.base import Backend, ContextSpec, Loader, ModelSpec, Scalar, Scores, Session
from fader_backends.errors import BadValue, NotSupported, OutOfMemory

from .drafting import Rhythm
from .known_backends import backends
from .turn import GenerationRequest

SHARE = 0.25
"""What a guess is thought to take of a target's token where no sizes are known."""


class DraftSessions:
    """A loaded draft, laid out like the target, and its sessions."""

    def __init__(self, target: Backend, like: ModelSpec, name: str, options: Mapping[str, Scalar]) -> None:
        """Raises LoadError, BadValue, NotSupported, OutOfMemory; nothing stays loaded then."""
        self.name = name
        self.target = target
        self.idle: OrderedDict[str, Session] = OrderedDict()
        layout = target.context
        self.backend = loader(like.backend)(
            ModelSpec(
                backend=like.backend, model=place(name, target), template=like.template, options=dict(like.options)
            ),
            ContextSpec(
                length=layout.length,
                rows=layout.rows,
                batch=layout.batch,
                threads=layout.threads,
                options=dict(options),
            ),
            lambda _: True,
        )
        try:
            refuse_strangers(target, self.backend)
        except BaseException:
            self.backend.close()
            raise
        ours, theirs = self.backend.facts.size_bytes, target.facts.size_bytes
        memory = self.backend.memory()
        self.held_bytes = (memory.weights_bytes or 0) + (memory.kv_bytes or 0)
        self.share = ours / theirs if theirs else SHARE
        self.warning = (
            f"{self.backend.facts.model} ({ours / 2**20:,.0f} MiB) is larger than {target.facts.model} "
            f"({theirs / 2**20:,.0f} MiB), for which it drafts"
            if ours > theirs
            else ""
        )

    def writer(self, request: GenerationRequest) -> Writer:
        """Return a writer for a turn, on the session its conversation used last where there is one."""
        session = self.idle.pop(request.owner, None)
        while session is None:
            try:
                session = self.backend.open()
            except OutOfMemory:
                if not self.idle:
                    raise
                self.idle.popitem(last=False)[1].close()
        ends = frozenset() if request.ignore_end else self.target.end_tokens
        return Writer(request, self.backend, session, ends)

    def keep(self, writer: Writer) -> None:
        """Keep a writer's session for the next turn of its conversation."""
        former = self.idle.pop(writer.request.owner, None)
        if former is not None:
            former.close()
        self.idle[writer.request.owner] = writer.session

    def close(self) -> None:
        """Free the draft."""
        self.backend.close()


class Writer:
    """One turn of the draft: reads what the target has, then writes on with the turn's own sampler.

    Random numbers depend on the position alone, so draft and target draw the same ones: where their scores agree, so do
    their choices.
    """

    def __init__(self, request: GenerationRequest, backend: Backend, session: Session, ends: frozenset[int]) -> None:
        self.request = request
        self.backend = backend
        self.session = session
        self.ends = ends
        self.rhythm = Rhythm()
        from fader_backends.sampling import chain  # needs numpy, which the first frame does without

        self.sample = chain(request.sampler, backend, backend.facts.vocabulary)
        self.at = 0
        """Length of the history at the last guess; the session agrees with it up to there."""
        self.guess: list[int] = []
        self.certain: list[float] = []

    def outcomes(self, history: Sequence[int]) -> Iterator[tuple[float, bool]]:
        """Yield (certainty, whether it was right) of the last guesses, up to the first wrong; cut the session there."""
        right = self.at
        for token, certainty, came in zip(self.guess, self.certain, islice(history, self.at, None), strict=False):
            yield certainty, token == came
            if token != came:
                break
            right += 1
        if self.at == 0:  # the session is of the turn before
            right = next(
                (i for i, pair in enumerate(zip(self.session.tokens, history, strict=False)) if pair[0] != pair[1]),
                len(history),
            )
            right = min(right, len(history) - 1)  # of the last token the scores are needed
        if len(self.session.tokens) > right:
            self.session.rewind(right)
        self.guess, self.certain = [], []

    def room(self, history: Sequence[int]) -> int:
        """Return how many tokens can be guessed before the draft's context ends."""
        return max(0, self.backend.context.length - len(history))

    def read(self, history: Sequence[int]) -> float:
        """Take in what is new, one chunk at a time so that a cancel need not wait; return how much is in, 1 for all.

        The last token is left to `write`, which needs its scores.
        """
        self.at = len(history)
        held, last = len(self.session.tokens), len(history) - 1
        chunk = min(self.request.chunk, self.backend.context.batch)
        if held < last:
            self.session.extend(history[held : min(held + chunk, last)], 0)
        return len(self.session.tokens) / last if last else 1.0

    def write(self, history: Sequence[int], most: int, p_min: float) -> Iterator[float]:
        """Guess token by token into `guess`, as long as the caller asks; yield the draft's certainty of each.

        Ends before an end token, which the target's own choice finds, and below `p_min`.
        """
        text = list(history)
        while len(self.guess) < most:
            scores = self.session.extend(text[len(self.session.tokens) :], 1)[0]
            token = self.sample(scores, text).token
            certainty = probability(scores, token)
            if token in self.ends or certainty < p_min:
                return
            text.append(token)
            self.guess.append(token)
            self.certain.append(certainty)
            yield certainty


def probability(scores: Scores, token: int) -> float:
    """Return the softmax of one token, at temperature 1 and before any sampler."""
    import numpy as np

    best = scores.max()
    return float(np.exp(scores[token] - best) / np.exp(scores - best).sum(dtype=np.float64))


def loader(name: str) -> Loader:
    """Return a backend's loader by name. Raises NotSupported."""
    for info in backends():
        if info.name == name:
            module, _, function = info.loader.partition(":")
            found: Loader = getattr(importlib.import_module(module), function)
            return found
    raise NotSupported(f"The {name} backend cannot load a draft model.", "", "Switch draft_model off.")


def place(name: str, target: Backend) -> str:
    """Return the path of the file a name means: as it stands, or beside the target's file."""
    if not name:
        return name
    asked, beside = Path(name).expanduser(), Path(target.facts.path).parent
    for path in (asked, beside / name, beside / f"{name}.gguf"):
        if path.is_file():
            return str(path)
    return name


def refuse_strangers(target: Backend, draft: Backend) -> None:
    """Raise BadValue when the draft's tokens are not the target's."""
    from fader_backends.kinship import different, mismatch, read

    paths = [backend.facts.path for backend in (target, draft)]
    if all(path.endswith(".gguf") for path in paths):
        why = mismatch(*map(read, paths)) if paths[0] != paths[1] else None
    else:
        why = different(target, draft)
    if why:
        raise BadValue(
            f"{draft.facts.model} cannot draft for {target.facts.model}.",
            f"Their vocabularies differ: {why}.",
            "Choose a smaller model of the same family as draft_model.model.",
        )
