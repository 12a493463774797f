"""`Tiers`: keeps prefixes in spare rows, in memory and on disk, and brings the best one back into a session.

Knows sessions and what moving them costs, not why a prompt looks the way it does, and no hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from fader_backends.base import Session, SessionState
from fader_backends.errors import NotSupported, OutOfMemory

from .folder import Folder
from .radix import Ids, ids, shared
from .shelf import Entry, Place, Shelf

T = TypeVar("T")

PRICES = {"live": 1 / 1000, "memory": 1 / 32, "disk": 1 / 8}
"""What bringing back a token costs, in evaluated tokens; on the dear side (here: 1/2000, 1/600 and 1/100)."""
START = 4
"""What bringing anything back costs, in evaluated tokens."""
STALE = 1 / 32
"""Part of a prefix that may be missing from what is kept: saving it all again for less does not pay."""
TOKEN_BYTES = 36
"""What one token id takes in a `SessionState`."""


class Budgets(NamedTuple):
    """How much each tier may hold."""

    rows: int
    memory: int
    """Bytes."""
    disk: int
    """Bytes."""
    least: int
    """Prefixes of fewer tokens are not kept."""


class Option(NamedTuple):
    """A kept prefix that could serve."""

    gain: float
    """Shared tokens less the cost of bringing them, in evaluated tokens."""
    shared: int
    length: int
    tier: str
    bring: Callable[[Session], bool]
    """Puts it into a session; False when it cannot serve after all."""


class Tiers:
    """What is kept for one backend. Memory and disk may serve others too: what they hold can be moved."""

    def __init__(self, memory: Shelf[SessionState], disk: Folder) -> None:
        self.live: Shelf[Session] = Shelf(lambda entry: entry.content.close())
        self.memory = memory
        self.disk = disk
        self.rigid = False
        """Whether this model was seen to be unable to take tokens back; then prefixes serve whole or not at all."""
        self.movable = True
        """False once a session could not be saved or forked."""
        self._token_bytes = 0.0

    # --- bringing back ------------------------------------------------------------------------------------------------

    def restore(self, session: Session, wanted: Ids, places: Sequence[Place], budgets: Budgets) -> tuple[int, str]:
        """Make `session` hold as long a beginning of `wanted` as pays; return its length and the tier it is from.

        The first of `places` is the session's own. What the session would lose by it is kept first.
        """
        held = ids(session.tokens)
        own = shared(held, wanted)
        options = self._options(places, wanted, own, budgets)
        if len(held) - own >= budgets.least:
            best_is_live = bool(options) and options[0].tier == "live"
            self._keep_branch(session, held, places[0], budgets, budgets.rows + best_is_live)
        used = self._first_of(options, session)
        if used is None:
            own = shared(ids(session.tokens), wanted)
            if own and self._cut(session, own):
                return own, "session"
            used = self._first_of(self._options(places, wanted, 0, budgets), session) if own else None
        self.live.trim(budgets.rows)
        if used is None:
            session.rewind(0)
            return 0, ""
        return used.shared, used.tier

    def _first_of(self, options: Sequence[Option], session: Session) -> Option | None:
        """Bring the first one that works; return it."""
        for option in options:
            if option.length > option.shared and self.rigid:
                continue
            if option.bring(session) and self._cut(session, option.shared):
                return option
        return None

    def _options(self, places: Sequence[Place], wanted: Ids, own: int, budgets: Budgets) -> list[Option]:
        """Return what would serve better than the session itself, best first."""
        found = [option for place in places for option in self._all(place, wanted, own, budgets)]
        return sorted((option for option in found if option.gain > own), reverse=True, key=lambda option: option.gain)

    def _all(self, place: Place, wanted: Ids, own: int, budgets: Budgets) -> Iterator[Option]:
        def option(tier: str, at: int, length: int, bring: Callable[[Session], bool]) -> Option:
            return Option(at - START - length * PRICES[tier], at, length, tier, bring)

        def pays(tier: str) -> bool:
            """Whether the whole of `wanted` from there would serve better; where not, nothing there is looked at."""
            return len(wanted) * (1 - PRICES[tier]) - START > own

        for at, length, row in self.live.nearest(place, wanted) if budgets.rows and pays("live") else ():
            if at <= own:
                break
            yield option("live", at, length, partial(self._from_row, row, at == length))
        for at, length, state in self.memory.nearest(place, wanted) if budgets.memory and pays("memory") else ():
            if at <= own:
                break
            yield option("memory", at, length, partial(self._from_memory, state))
        for at, length, name in self.disk.nearest(place, wanted) if budgets.disk and pays("disk") else ():
            if at <= own:
                break
            yield option("disk", at, length, partial(self._from_disk, place, name, budgets.memory))

    def _from_row(self, entry: Entry[Session], whole: bool, session: Session) -> bool:
        try:
            session.copy(entry.content)
        except (NotSupported, OutOfMemory):
            return False
        if whole and not entry.pinned:
            self.live.remove(entry)  # the session holds the same, and more soon
        else:
            self.live.touch(entry)
        return True

    def _from_memory(self, entry: Entry[SessionState], session: Session) -> bool:
        self.memory.touch(entry)
        return self._load(session, entry.content)

    def _from_disk(self, place: Place, name: str, budget: int, session: Session) -> bool:
        state = self.disk.read(place, name)
        if state is None or not self._load(session, state):
            return False
        self._put(place, state, ids(state.tokens), budget)
        return True

    def _load(self, session: Session, state: SessionState) -> bool:
        try:
            session.load(state)
        except NotSupported:
            return False
        except OutOfMemory:
            if not self.live:
                return False
            self.live.clear()  # their tokens take room in the same buffer
            return self._load(session, state)
        return True

    def _cut(self, session: Session, length: int) -> bool:
        try:
            session.rewind(length)
        except NotSupported:
            self.rigid = True
            return False
        return True

    # --- keeping ------------------------------------------------------------------------------------------------------

    def _keep_branch(self, session: Session, held: Ids, place: Place, budgets: Budgets, rows: int) -> None:
        """Keep what a session is about to lose: in one of so many spare rows, else in memory."""
        if not self.movable:
            return
        if budgets.rows and not self.live.covers(place, held):
            try:
                twin = session.fork()
            except OutOfMemory:
                pass
            except NotSupported:
                self.movable = False
            else:
                self.live.put(Entry(place, held, twin, 1, False), rows, not self.rigid)
                return
        self.keep(session, place, budgets._replace(disk=0))

    def keep(self, session: Session, place: Place, budgets: Budgets) -> None:
        """Save a session's state to memory and disk, where that is worth it."""
        tokens = ids(session.tokens)
        self.live.trim(budgets.rows)
        self.memory.trim(budgets.memory)
        if len(tokens) < budgets.least or not self.movable:
            return
        size = len(tokens) * (self._token_bytes + TOKEN_BYTES)
        missing = max(budgets.least, int(len(tokens) * STALE)) - 1
        to_memory = size <= budgets.memory and not self.memory.covers(place, tokens, missing)
        to_disk = size <= budgets.disk and not self.disk.problem and not self._on_disk(place, tokens, missing)
        if not (to_memory or to_disk):
            return
        try:
            state = session.save()
        except NotSupported:
            self.movable = False
            return
        except OutOfMemory:
            return
        self._token_bytes = len(state.data) / len(tokens)
        if to_memory:
            self._put(place, state, tokens, budgets.memory)
        if to_disk:
            self.disk.write(place, state, tokens, budgets.disk, not self.rigid)

    def _on_disk(self, place: Place, tokens: Ids, missing: int) -> bool:
        return any(found.shared >= len(tokens) - missing for found in _first(self.disk.nearest(place, tokens)))

    def _put(self, place: Place, state: SessionState, tokens: Ids, budget: int) -> None:
        size = len(state.data) + len(tokens) * TOKEN_BYTES
        self.memory.put(Entry(place, tokens, state, size, place.owner is None), budget, not self.rigid)

    def keep_shared(self, session: Session, length: int, key: str, budgets: Budgets) -> None:
        """Keep the first `length` tokens for every conversation."""
        place, tokens = Place(None, key), ids(session.tokens)[:length]
        if length < budgets.least or not self.movable or self.memory.covers(place, tokens):
            return
        try:
            twin = session.fork()
        except OutOfMemory:
            self._keep_beginning(session, length, place, budgets)
            return
        try:
            if self._cut(twin, length):
                self.keep(twin, place, budgets)
        finally:
            twin.close()

    def _keep_beginning(self, session: Session, length: int, place: Place, budgets: Budgets) -> None:
        """Keep the first `length` tokens where all rows are in use: the session gives the rest away for a moment."""
        try:
            whole = session.save()
        except (NotSupported, OutOfMemory):
            return
        if self._cut(session, length):
            self.keep(session, place, budgets)
            self._load(session, whole)  # where that fails, its owner's next turn evaluates more, and nothing is wrong


def _first(found: Iterator[T]) -> list[T]:
    return [one for one, _ in zip(found, range(1), strict=False)]
