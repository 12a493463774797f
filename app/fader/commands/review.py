"""`fader review`: prints what a suspicious reader would say of a bundle.

Knows the lab and text streams; runs nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from .. import models
from ..lab import bundle
from ..lab.review import SUSPICIONS, review
from ..paths import Paths


def review_bundle(name: str, as_json: bool, paths: Paths) -> int:
    """Print the findings; return 1 where there is an objection. Raises FaderError."""
    with bundle.opened(name, paths.lab) as one:
        found = review(one, _hash_here(one, paths))
        title = f"{one.manifest.id}: {one.manifest.what}"
    objections = sum(finding.level == "objection" for finding in found)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return 1 if objections else 0
    click.echo(title)
    for finding in found:
        click.echo(
            f"  {finding.level.upper() if finding.level == 'objection' else finding.level}  {finding.about}: {finding.said}"
        )
    counts = f"{_count(objections, 'objection')}, {_count(len(found) - objections, 'doubt')}"
    click.echo(f"{len(SUSPICIONS)} suspicions checked against the raw record: {counts}.")
    return 1 if objections else 0


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


def _hash_here(one: bundle.Bundle, paths: Paths) -> str | None:
    """Return the hash of a model file here that has the bundle's model's name; None without one."""
    wanted = one.manifest.model.file
    embedded = models.embedded()
    places = models.folders(paths, os.environ, Path.home())
    candidates = [*([embedded] if embedded else []), *(found.path for found in models.find(places))]
    path = next((path for path in candidates if wanted and path.name == wanted), None)
    return models.sha256(path, paths.hashes) if path is not None else None
