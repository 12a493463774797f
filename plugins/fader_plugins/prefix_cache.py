"""Reuse what was computed before: of the conversation's session, of spare rows, from memory, from disk.

Knows when to keep and to ask, not how (`prefix.tiers`). Off: every turn evaluates the whole prompt.
"""

from __future__ import annotations

import os
from typing import Annotated

from fader_backends.base import Backend, Message, Session, SessionState

from .folders import cache_folder
from .hookspecs import hookimpl
from .prefix.cause import LastTurns, explain
from .prefix.folder import Folder
from .prefix.radix import ids, shared
from .prefix.shelf import Place, Shelf
from .prefix.tiers import Budgets, Tiers
from .turn import GenerationRequest, Numbers, PluginInfo, Reading, Reuse, Settings, setting

MIB = 1 << 20
FREE_SHARE = 0.25
"""Most of the free memory that kept prefixes may take, whatever the setting says."""


MOST_BACKENDS = 2
"""Engines of one process, or models one after another, whose spare rows are known; a closed backend is held no longer."""


class PrefixCache(Settings, frozen=True, kw_only=True):
    """Budgets of the tiers."""

    live_rows: Annotated[
        int, setting("Rows of the context in which branches you left stay ready; 0 keeps none", ge=0, le=64)
    ] = 1
    memory_mib: Annotated[
        int, setting("Memory for kept prefixes in MiB, at most a quarter of what is free; 0 is off", ge=0, step=128)
    ] = 512
    disk_mib: Annotated[
        int, setting("Disk space for prefixes that survive a restart, in MiB; 0 is off", ge=0, step=256)
    ] = 1024
    share: Annotated[
        bool, setting("Let a new conversation reuse the system prompt of another one (never more than that)")
    ] = False
    min_tokens: Annotated[int, setting("Shorter prefixes are not worth keeping", ge=1, step=16)] = 32


class Plugin:
    """The plugin's state in the engine process; in the app's it stays empty."""

    info = PluginInfo(
        name="prefix_cache",
        summary="Evaluate only what is new in a prompt (off: all of it, every turn)",
        settings=PrefixCache,
        needs=frozenset({"rewind"}),
    )

    def __init__(self) -> None:
        self.turns = LastTurns()
        self.memory: Shelf[SessionState] = Shelf()
        self.disk: Folder | None = None
        self.kept: list[tuple[Backend, Tiers]] = []
        """What is kept for each backend, the last one first."""

    @hookimpl
    def engine_ready(self, backend: Backend) -> None:
        """Forget the rows of a former context. What is in memory and on disk stays: its keys say what it fits."""
        folder = cache_folder(os.environ) / "prefixes"
        if self.disk is None or self.disk.path != folder:
            self.disk = Folder(folder)
            self.memory.clear()
        self.disk.problem = ""
        others = [one for one in self.kept if one[0] is not backend]
        for _, tiers in others[MOST_BACKENDS - 1 :]:
            tiers.live.clear()
        self.kept = [(backend, Tiers(self.memory, self.disk)), *others[: MOST_BACKENDS - 1]]

    def tiers(self, backend: Backend) -> Tiers:
        """Return what is kept for a backend."""
        for one, tiers in self.kept:
            if one is backend:
                return tiers
        self.engine_ready(backend)
        return self.kept[0][1]

    @hookimpl
    def restore_prefix(
        self, request: GenerationRequest, session: Session, prompt: list[int], backend: Backend
    ) -> Reuse | None:
        """Bring back the longest beginning of the prompt that pays, and say why it is not longer."""
        tiers = self.tiers(backend)
        if not request.keep_state:
            return None
        settings = request.settings(self.info.name, PrefixCache)
        place = Place(request.owner, key_of(request, backend))
        places = [place, Place(None, place.key)] if settings.share else [place]
        self.turns.ask(request.owner, len(prompt))
        rigid, wanted = tiers.rigid, ids(prompt)[:-1]
        tokens, tier = tiers.restore(session, wanted, places, budgets_of(settings, self.memory.size))
        last = self.turns.get(request.owner)
        why = explain(last, request.messages, request.now, place.key, wanted, tokens, backend.piece)
        if tiers.rigid and not rigid:
            why = "this model cannot take tokens back, so only whole turns are reused" + (f"; {why}" if why else "")
        return Reuse(tokens, tier, "; ".join([*tiers.disk.notes(), *([why] if why else [])]))

    @hookimpl
    def keep_prefix(self, request: GenerationRequest, session: Session, backend: Backend) -> None:
        """Save what the turn added, where that pays."""
        tiers = self.tiers(backend)
        if not request.keep_state:
            return
        settings = request.settings(self.info.name, PrefixCache)
        place = Place(request.owner, key_of(request, backend))
        budgets = budgets_of(settings, self.memory.size)
        self.turns.answer(request.owner, request.messages, request.now, place.key, ids(session.tokens))
        if settings.share:
            tiers.keep_shared(session, system_length(backend, request, session), place.key, budgets)
        tiers.keep(session, place, budgets)

    @hookimpl
    def make_room(self, backend: Backend) -> bool | None:
        """Give up the spare row that was of no use for longest."""
        return self.tiers(backend).live.drop_oldest() or None

    @hookimpl
    def readings(self, numbers: Numbers) -> list[Reading]:
        """Say where the reused tokens came from and, if there could have been more, why not."""
        return [
            Reading(
                key="prefix_tier",
                label="  kept in",
                value=numbers.reuse_tier or None,
                help="Where the reused tokens were: the session itself, a spare row (live), memory or disk.",
            ),
            Reading(
                key="prefix_note",
                label="  not more",
                value=numbers.reuse_note or None,
                help="Why not more of the prompt could be reused: the first token that differs, and the likely cause.",
            ),
        ]


def key_of(request: GenerationRequest, backend: Backend) -> str:
    """Return what must be equal for kept bits to equal computed ones.

    Besides the state's own key: what was loaded how (adapters are such options), and what shapes the sums, which are
    threads and batch.
    """
    context = backend.context
    parts = (sorted(request.model.options.items()), sorted(context.options.items()), context.threads, context.batch)
    return f"{backend.state_key} {parts}"


def budgets_of(settings: PrefixCache, held: int) -> Budgets:
    """Return the settings in bytes, capped by what is free; `held` bytes are in memory already."""
    import psutil

    memory = settings.memory_mib * MIB
    if memory:
        memory = min(memory, int((psutil.virtual_memory().available + held) * FREE_SHARE))
    return Budgets(settings.live_rows, memory, settings.disk_mib * MIB, settings.min_tokens)


def system_length(backend: Backend, request: GenerationRequest, session: Session) -> int:
    """Return how many of the session's tokens come before the first word of a person.

    Two conversations that differ from their first word on share just that with this one.
    """
    system = [message for message in request.messages[:1] if message.role == "system"]
    length = len(session.tokens)
    for word in ("0", "x"):
        probe = backend.chat([*system, Message("user", word)], request.now)
        length = min(length, shared(ids(session.tokens), ids(probe)))
    return length


plugin = Plugin()
info = plugin.info
