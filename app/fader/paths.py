"""Where Fader's files live: config, data, state and cache folders, all moved by one variable.

Knows names of folders, not what is written into them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from fader_backends.errors import StoreError
from fader_plugins.folders import cache_folder


class Paths(msgspec.Struct, frozen=True, kw_only=True):
    """The four folders and what is derived from them. None of them need exist."""

    config: Path
    """What a person writes: profiles, plugins."""
    data: Path
    """What must not be lost: conversations, models."""
    state: Path
    """What may be lost: logs."""
    cache: Path
    """What can be made again."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Paths:
        """Return the folders below `FADER_HOME` when it is set, else the platform's own (XDG on Linux)."""
        if home := environ.get("FADER_HOME"):
            root = Path(home).expanduser().absolute()
            return cls(config=root / "config", data=root / "data", state=root / "state", cache=cache_folder(environ))
        from platformdirs import PlatformDirs

        dirs = PlatformDirs("fader", appauthor=False)
        return cls(
            config=dirs.user_config_path,
            data=dirs.user_data_path,
            state=dirs.user_state_path,
            cache=cache_folder(environ),
        )

    @property
    def profiles(self) -> Path:
        """A person's own profiles, one TOML file each."""
        return self.config / "profiles"

    @property
    def plugins(self) -> Path:
        """Single-file plugins."""
        return self.config / "plugins"

    @property
    def models(self) -> Path:
        """GGUF files put here are found by name."""
        return self.data / "models"

    @property
    def database(self) -> Path:
        """All conversations."""
        return self.data / "fader.db"

    @property
    def lab(self) -> Path:
        """Evidence bundles, a folder each."""
        return self.data / "lab"

    @property
    def workloads(self) -> Path:
        """A person's own workloads, one TOML file each."""
        return self.config / "workloads"

    @property
    def log(self) -> Path:
        """Tracebacks and warnings of the app."""
        return self.state / "fader.log"

    @property
    def engine_log(self) -> Path:
        """What the engine process and the C libraries in it print."""
        return self.state / "engine.log"

    @property
    def hashes(self) -> Path:
        """Known SHA-256 sums of model files."""
        return self.cache / "model-hashes.json"

    def named(self) -> dict[str, Path]:
        """Return every place by name, in the order in which they are shown."""
        names = (
            "config",
            "profiles",
            "plugins",
            "workloads",
            "data",
            "database",
            "models",
            "lab",
            "state",
            "log",
            "engine_log",
            "cache",
        )
        return {name.replace("_", "-"): getattr(self, name) for name in (*names, "hashes")}


def make_folder(folder: Path) -> Path:
    """Make `folder`, private to its owner, when it is not there; return it. Raises StoreError."""
    try:
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(
            f"Cannot make the folder {folder}: {reason}.",
            "",
            "Make it writable, or set FADER_HOME to a folder that is.",
        ) from error
    return folder
