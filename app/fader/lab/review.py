"""A suspicious reader: looks in the raw record for what would make a bundle's claim worth less than it seems.

Knows bundles; what is suspicious is in `method` and `tricks`. Runs nothing.
"""

from __future__ import annotations

from . import method, raw, report, tricks
from .bundle import Bundle
from .finding import Finding, Record, doubt, objection

SUSPICIONS = (*method.SUSPICIONS, *tricks.SUSPICIONS)


def review(bundle: Bundle, here: str | None = None) -> list[Finding]:
    """Return what there is to say, objections first; `here` is the SHA-256 of the model that has its name here, if any.

    Raises StoreError where the record cannot be read.
    """
    folder, measured = bundle.folder, bundle.manifest.model.sha256
    record = Record(bundle.manifest, raw.read(folder, bundle.whole), raw.outputs(folder, bundle.whole))
    found = [one for suspicion in SUSPICIONS for one in suspicion(record)]
    if here and measured and here != measured:
        said = f"the file of that name here has sha256 {here[:12]}…, the one measured {measured[:12]}…: two models"
        found.append(doubt("model", said))
    if bundle.whole and report.stored(folder) is not None and report.differences(bundle):
        found.append(
            objection("report", "the stored report says other than the raw record does; see: fader lab verify")
        )
    return sorted(found, key=lambda one: one.level != "objection")
