"""Where files may be kept that can be made again.

Knows the one rule that backends, plugins and app must agree on; `fader.paths` builds on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for caches: below `FADER_HOME` when it is set, else the platform's own. It need not exist."""
    if home := environ.get("FADER_HOME"):
        return Path(home).expanduser().absolute() / "cache"
    from platformdirs import user_cache_path  # 10 ms that not every start needs

    return user_cache_path("fader", appauthor=False)
