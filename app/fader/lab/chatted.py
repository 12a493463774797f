"""A bundle out of a chat: turns of one prompt in which one setting differs. Nothing is run for it.

Knows recorded turns, and bundles; a report on it claims nothing. Without being asked it takes no words along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from fader_backends.base import Message
from fader_backends.errors import FaderError, StoreError
from fader_plugins.registry import Registry
from fader_plugins.turn import Finished, GenerationRequest

from ..kept import Kept
from ..switchboard import Switchboard
from . import bundle, raw, recorder, wordless
from .bundle import Bundle
from .evidence import Condition, Side, Variable
from .experiment import NEEDS_NO_MENTION, Experiment, differences, worded
from .recorder import Notes, Surroundings
from .taking import Step, Taken, Taking
from .workload import Case, Said, WarmUp, Workload

WHOLE = ("end", "stop", "length")
NAME, CASE = "from-chat", "turn"
FIRST = "side a was asked before anything of the prompt was known, side b after it: their TTFTs are two things"
SIDES: tuple[Side, Side] = ("a", "b")


class NoPair(FaderError):
    """There are no two turns that could be compared."""


class Pair(NamedTuple):
    """What is compared: the turns of each side, in the order in which they ran."""

    a: Sequence[Kept]
    b: Sequence[Kept]
    conditions: tuple[Condition, Condition]
    order: str
    notes: tuple[str, ...] = ()


def pair(turns: Sequence[Kept], registry: Registry) -> Pair:
    """Return the last whole turn and the latest earlier one of the same prompt from which it differs in one setting.

    `turns`: of one conversation, the latest first. Raises NoPair, which says what to do.
    """
    whole = [one for one in turns if _whole(one)]
    if not whole:
        raise NoPair(
            "No whole turn of this conversation is recorded.",
            "",
            "Send a message; /record says whether turns are kept.",
        )
    last, *earlier = whole
    same = [one for one in earlier if one.prompt == last.prompt]
    if not same:
        step = "Throw one switch (F2), ask again (/regen), then /bundle."
        raise NoPair("No earlier recorded turn asked the same as the last one.", "", step)
    for place, one in enumerate(same):
        if len(_differences(one, last, registry)) == 1:
            first = one.messages == 1 and place == len(same) - 1 and not one.stats.numbers().reused_tokens
            return Pair([one], [last], ("cold" if first else "warm", "warm"), "AB", (FIRST,) * first)
    check(same[0], last, registry, "the last two turns of this prompt", "ask again (/regen), then /bundle.")
    raise AssertionError  # or it would have been returned


def check(one: Kept, other: Kept, registry: Registry, what: str, then: str) -> None:
    """Raise NoPair unless just one setting differs. `what` they are, and what to do `then`, in words."""
    found = _differences(one, other, registry)
    if not found:
        raise NoPair(f"No setting differs between {what}.", "", f"Throw one switch (F2), {then}")
    if len(found) > 1:
        listed = ", ".join(map(worded, found))
        raise NoPair(f"More than one setting differs between {what}: {listed}.", "", f"Put all but one back, {then}")


def _whole(one: Kept) -> bool:
    end = one.events[-1] if one.events else None
    return isinstance(end, Finished) and end.reason in WHOLE and not one.stats.adjusted


def _board(one: Kept, registry: Registry) -> Switchboard:
    return Switchboard(registry, one.profile)


def _differences(one: Kept, other: Kept, registry: Registry) -> tuple[Variable, ...]:
    """Return every setting that differs; also those that a workload would set for both sides."""
    ends = [
        Variable(key=key, before=getattr(one.profile, key), after=getattr(other.profile, key))
        for key in NEEDS_NO_MENTION
        if getattr(one.profile, key) != getattr(other.profile, key)
    ]
    return (*differences(_board(one, registry), _board(other, registry)), *ends)


def make(found: Pair, around: Surroundings, registry: Registry, told: Sequence[Message] | None) -> Bundle:
    """Write the bundle, without its report. `told`: the prompt without the system prompt; None leaves all words out.

    Raises NoPair where a system prompt is what differs and words are left out, StoreError.
    """
    boards = {side: _board(one[0], registry) for side, one in zip(SIDES, (found.a, found.b), strict=True)}
    variables = _differences(found.a[0], found.b[0], registry)
    if told is None:
        if any(one.key == "system" for one in variables):
            raise NoPair("The system prompt is what differs, and it would be in the bundle.", "", "/bundle with text")
        for board in boards.values():
            board.profile = msgspec.structs.replace(board.profile, system="")
    wanted = Experiment(
        workload=_workload(found, told),
        boards=boards,
        variables=variables,
        seed=found.a[0].request.sampler.seed,
        rounds=len(found.a),
        aa_rounds=0,
        notes=found.notes,
    )
    manifest = msgspec.structs.replace(
        recorder.manifest_of(wanted, around),
        seeds=tuple(dict.fromkeys(one.request.sampler.seed for side in (found.a, found.b) for one in side)),
        order=found.order,
        origin="chat",
        left_out=wordless.LEFT_OUT if told is None else (),
    )
    made, notes = bundle.make(around.lab, manifest, recorder.texts_of(wanted)), Notes()
    try:
        _write(made, found, told, notes)
        return recorder.seal(made, notes, around)
    except OSError as error:
        bundle.remove(made.folder)
        step = "Make room, or set FADER_HOME to a folder on another disk."
        raise StoreError(f"Cannot write {made.folder}: {error.strerror or error}.", "", step) from error
    except FaderError:
        bundle.remove(made.folder)
        raise


def _workload(found: Pair, told: Sequence[Message] | None) -> Workload:
    longest = max(one.stats.output for side in (found.a, found.b) for one in side)
    *before, question = told or [Message("user", "(left out)")]
    said = [Said(role=one.role, content=one.content) for one in before]
    again = "warm" in found.conditions
    case = Case(name=CASE, before=said, turns=[question.content], again=again)
    return Workload(
        name=NAME,
        summary="a question of a chat",
        output=max(longest, 1),
        rounds=len(found.a),
        warm_up=WarmUp(turns=["Say hello."]),
        case=[case],
    )


def _write(made: Bundle, found: Pair, told: Sequence[Message] | None, notes: Notes) -> None:
    """Write the runs, in the order in which they ran."""
    placed = [
        (one, side, number, condition)
        for side, turns, condition in zip(SIDES, (found.a, found.b), found.conditions, strict=True)
        for number, one in enumerate(turns)
    ]
    placed.sort(key=lambda place: (place[2], place[1]))
    case = Case(name=CASE, turns=[CASE])
    writer = raw.Writer(made.folder)
    try:
        for index, (one, side, number, condition) in enumerate(placed):
            if told is None:
                request, events = wordless.request(one.request, one.messages), list(wordless.events(one.events))
            else:
                request, events = _told(one, told), list(one.events)
            taking = Taking(index, request)
            for event in events:
                taking.take(event)
            seed = request.sampler.seed
            asked = int(condition == "warm")  # as the workload asks: at first, and again
            run = taking.run(Step("ab", number, case, side), CASE, asked, condition, "ok", seed, 0.0, None)
            run = msgspec.structs.replace(run, load_average=None)  # what it was then is not known
            notes.take(Taken(run, request, events, taking.output()))
            writer.begin(index, request)
            for event in events:
                writer.event(event)
            writer.end(run, None if told is None else taking.output())
    finally:
        writer.close()


def _told(one: Kept, told: Sequence[Message]) -> GenerationRequest:
    """Return a request with its words again; whose conversation it is stays out."""
    system = one.profile.system
    first = [Message("system", system)] if system else []
    return msgspec.structs.replace(one.request, owner="", messages=(*first, *told))
