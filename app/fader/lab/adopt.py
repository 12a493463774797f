"""Taking a measured change into a profile while its gates hold, and taking it back.

Knows bundles and profile files. What a profile was before stands word for word in a journal beside the bundles.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from fader_backends.errors import BadValue, FaderError, StoreError

from .. import profile_files, profiles
from ..compare.spec import Makers
from ..paths import Paths, make_folder
from ..switchboard import Switchboard
from . import gates, judging, raw
from .bundle import Bundle, write
from .chat_words import bench_hint
from .evidence import Variable
from .experiment import change, settings, valued, worded
from .values import GateResult

JOURNAL = "adopted.json"


class GateFailed(FaderError):
    """A gate does not hold; nothing was written."""


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was taken into a profile."""

    profile: str
    path: str
    bundle: str
    when: str
    variables: tuple[Variable, ...]
    former: str | None
    """The file as it was; None: there was none."""
    written: str
    """The file as it was left."""


def judged(bundle: Bundle, more: Sequence[str] = ()) -> tuple[GateResult, ...]:
    """Return whether the bundle's gates and `more` hold. Raises BadValue, StoreError."""
    texts = tuple(dict.fromkeys((*bundle.manifest.gates, *more)))
    manifest = msgspec.structs.replace(bundle.manifest, gates=texts)
    for text in texts:
        gates.parse(text)
    return judging.judged(manifest, raw.read(bundle.folder), raw.read_kl(bundle.folder))


def check(bundle: Bundle, results: Sequence[GateResult]) -> None:
    """Raise BadValue where the bundle can carry no change, GateFailed naming each gate that does not hold."""
    manifest = bundle.manifest
    if not bundle.whole:
        raise BadValue(f"{manifest.id} is partial: {manifest.stopped}.", "Nothing may rest on it.", "Run it again.")
    if manifest.origin == "chat":
        step = f"Measure it first: {bench_hint(manifest)}"
        raise BadValue(f"{manifest.id} was made from a chat: so few turns carry no change.", "", step)
    if not manifest.variables:
        raise BadValue(f"{manifest.id} compares nothing, so there is no change to adopt.", "", "Run it with --change.")
    if not results:
        step = 'Name limits with --limit, such as --limit "tpot <= 1.02 x baseline".'
        raise BadValue(f"{manifest.id} names no gates, so nothing says what must hold.", "", step)
    if failing := [one for one in results if not one.holds]:
        said = "; ".join(one.said for one in failing)
        raise GateFailed(f"Not adopted: {said}.", "", "The profile is as it was.")


def adopt(bundle: Bundle, board: Switchboard, name: str, paths: Paths, makers: Makers, now: datetime) -> Adoption:
    """Write the bundle's change into the profile `name`, which `board` stands for; return what was done.

    The caller has checked the gates. Only the changed settings change. Raises FaderError.
    """
    here = settings(board)
    if all(here.get(one.key) == one.after for one in bundle.manifest.variables):
        raise BadValue(f"The profile {name!r} has {_after(bundle.manifest.variables)} already.", "", "Nothing to do.")
    for one in bundle.manifest.variables:
        _apply(board, one, makers)
    path = _own(name, paths)
    former = _content(path)
    known = {plugin.info.name: plugin.info for plugin in board.registry.usable()}
    profile_files.save(board.to_profile(Path(name).stem, board.profile.summary), path, known)
    done = Adoption(
        profile=name,
        path=str(path),
        bundle=bundle.manifest.id,
        when=now.isoformat(timespec="seconds"),
        variables=bundle.manifest.variables,
        former=former,
        written=_content(path) or "",
    )
    _write(paths, [*journal(paths), done])
    return done


def rollback(name: str, paths: Paths, force: bool = False) -> Adoption:
    """Put the profile back to what it was before the last adoption (of `name`, or of any where it is empty).

    Raises BadValue where nothing was adopted, or the file has been changed since (unless `force`), StoreError.
    """
    done = journal(paths)
    fitting = [place for place, one in enumerate(done) if not name or one.profile == name]
    if not fitting:
        said = f"into {name!r} " if name else ""
        raise BadValue(
            f"Nothing was adopted {said}that could be rolled back.", "", "fader adopt BUNDLE adopts a change."
        )
    last = done.pop(fitting[-1])
    path = Path(last.path)
    if _content(path) != last.written and not force:
        raise BadValue(
            f"{path} has been changed since {last.bundle} was adopted.",
            "",
            "Look at it; --force restores the former version all the same.",
        )
    if last.former is None:
        path.unlink(missing_ok=True)
    else:
        write(path, last.former.encode())
    _write(paths, done)
    return last


def journal(paths: Paths) -> list[Adoption]:
    """Return all adoptions that were not rolled back, the oldest first. Raises StoreError."""
    path = paths.lab / JOURNAL
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Adoption])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"{path} cannot be read: {error}.", "", "Mend it, or move it away.") from error


def _write(paths: Paths, done: Sequence[Adoption]) -> None:
    make_folder(paths.lab)
    write(paths.lab / JOURNAL, msgspec.json.format(msgspec.json.encode(done), indent=1) + b"\n")


def _own(name: str, paths: Paths) -> Path:
    """Return the file that is written for a profile: a person's own, also where the profile ships with Fader."""
    path = profiles.path_of(name, paths)
    return paths.profiles / path.name if profiles.is_built_in(path) else path


def _content(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"Cannot read {path}: {error}.", "", "Check the file.") from error


def _apply(board: Switchboard, one: Variable, makers: Makers) -> None:
    plugin, dot, key = one.key.partition(".")
    if plugin not in board.states:
        change(board, one.key, "" if one.after is None else valued(one.after), makers)
    elif dot:
        board.set(plugin, key, one.after)
    else:
        board.switch(plugin, one.after)


def _after(variables: Sequence[Variable]) -> str:
    return ", ".join(f"{one.key} {valued(one.after)}" for one in variables)


def told(done: Adoption) -> str:
    """Return one line on an adoption."""
    return f"{done.profile}: {', '.join(map(worded, done.variables))} (from {done.bundle})"
