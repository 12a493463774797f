"""`fader lab`: bundles that are here: list, show, open in a browser, verify, export, remove.

Knows bundles and text streams; runs nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from fader_backends.errors import BadValue, StoreError

from ..lab import archive, bundle, foreign, raw, report, table
from ..lab.page import page
from ..paths import Paths
from .bench import Form, show
from .run import tell
from .table import show_table

MB = 1e6


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `fader lab list --json`."""

    id: str
    what: str
    state: str
    created: str
    model: str
    bytes: int


def list_bundles(paths: Paths, as_json: bool) -> None:
    """Print the bundles, the oldest first; one that cannot be read says so. Raises StoreError where no folder is theirs."""
    if paths.lab.exists() and not paths.lab.is_dir():
        raise StoreError(f"{paths.lab} is no folder.", "", "Move it away: bundles are kept in a folder of that name.")
    found = []
    for name in bundle.ids(paths.lab):
        folder = paths.lab / name
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        try:
            one = bundle.read_manifest(folder)
            found.append(
                Listed(id=name, what=one.what, state=one.state, created=one.created, model=one.model.name, bytes=size)
            )
        except StoreError as error:
            found.append(Listed(id=name, what=str(error), state="unreadable", created="", model="", bytes=size))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    elif not found:
        click.echo("No bundles yet: fader bench makes them, and /bundle in the chat.")
    else:
        rows = [(one.id, one.state, f"{one.bytes / MB:.1f} MB", one.what) for one in found]
        show_table(("BUNDLE", "STATE", "SIZE", "WHAT"), rows)


def show_bundle(name: str, form: Form, paths: Paths) -> None:
    """Print a bundle's report, computed anew from its raw record."""
    with bundle.opened(name, paths.lab) as one:
        show(report.build(one), form, sys.stdout)


def verify_bundle(name: str, paths: Paths) -> int:
    """Compare the stored report with what the raw record gives; return 0 when they are equal."""
    with bundle.opened(name, paths.lab) as one:
        found = report.differences(one)
        kept = report.stored(one.folder)
    for line in found:
        tell(f"{line}: the report says other than the raw events.")
    if not found and kept is not None:
        click.echo(f"{one.manifest.id}: hashes hold, and all {len(kept.figures)} figures follow from the raw events.")
    return 1 if found else 0


def open_bundle(name: str, paths: Paths) -> None:
    """Open a bundle's page in the browser, and print where it is; it is made again where it is missing."""
    with bundle.opened(name, paths.lab) as one:
        if name.lower().endswith(".zip"):
            raise BadValue(
                "A zip is unpacked only while it is read.", "", f"Unpack it, or: fader lab export {name} page.html"
            )
        path = one.folder / "report.html"
        if not path.is_file():
            report.write(one)
    click.echo(str(path))
    click.launch(path.as_uri())


def export_bundle(name: str, target: Path | None, form: str, paths: Paths) -> None:
    """Write a bundle as one zip, or its report as the file's ending says, or its runs as other programs write them."""
    with bundle.opened(name, paths.lab) as one:
        path = (target or Path(f"{one.manifest.id}.zip")).expanduser()
        kind = form or path.suffix.lower().removeprefix(".")
        if kind == "zip":
            if not any((one.folder / file).is_file() for file in bundle.REPORTS):
                report.write(one)
            archive.pack(one.folder, path)
        else:
            _write(path, _text(one, kind, path))
    click.echo(str(path))


def _text(one: bundle.Bundle, kind: str, path: Path) -> str:
    match kind:
        case "html":
            return page(report.build(one))
        case "md":
            return table.markdown(report.build(one))
        case "csv":
            return table.comma_separated(report.build(one))
        case "json":
            return report.encode(report.build(one)).decode()
        case "llama-bench":
            return foreign.llama_bench_lines(one.manifest, raw.read(one.folder, one.whole))
        case "hyperfine":
            found = foreign.hyperfine(one.manifest, raw.read(one.folder, one.whole))
            return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"
    step = "Let its name end in .zip, .html, .md, .csv or .json, or add --as llama-bench or --as hyperfine."
    raise BadValue(f"{path} does not say what to write.", "", step)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise StoreError(f"Cannot write {path}: {error.strerror or error}.", "", "Choose another place.") from error


def remove_bundles(names: tuple[str, ...], paths: Paths) -> None:
    """Delete bundles of the lab by id."""
    folders = [bundle.find(name, paths.lab) for name in names]
    for folder in folders:
        if folder.parent != paths.lab:
            raise BadValue(f"{folder} is not in the lab's folder.", "", "Remove it yourself.")
    for folder in dict.fromkeys(folders):
        bundle.remove(folder)
        click.echo(f"removed {folder.name}")
