"""Owns how a model's files are told from those of any other model, without reading them whole.

Knows files, not what is in them.
"""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

SAMPLES, SAMPLE_BYTES = 1024, 4096
"""How much of a file is looked at, besides both ends."""


def fingerprint(files: Iterable[Path]) -> str:
    """Return the size and a hash of the first and last MiB and of samples between, over all files of a model.

    Cheap, and different for models of which any tensor differs by more than a few values: a finetune touches whole
    matrices, and `SAMPLES` blocks are spread evenly.
    """
    digest, total = hashlib.blake2b(digest_size=16), 0
    for path in files:
        size = path.stat().st_size
        total += size
        with path.open("rb") as file:
            digest.update(file.read(1 << 20))
            for number in range(SAMPLES):
                file.seek(size * number // SAMPLES)
                digest.update(file.read(SAMPLE_BYTES))
            file.seek(max(0, size - (1 << 20)))
            digest.update(file.read())
    return f"{total}-{digest.hexdigest()}"


def parts(path: str | Path) -> list[Path]:
    """Return the files of a GGUF model, in order, from the path of its first."""
    first = Path(path)
    return sorted(first.parent.glob(re.sub(r"-\d{5}-of-", "-?????-of-", glob.escape(first.name))))
