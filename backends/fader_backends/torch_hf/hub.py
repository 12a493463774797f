"""Owns hub ids (`owner/name`): where their files lie in the local cache, and fetching them when that was asked for.

Knows huggingface_hub; opens no model.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fader_backends.base import Progress
from fader_backends.errors import Interrupted, LoadError, ModelMissing
from fader_backends.torch_hf.folder import brief

PATTERNS = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"]
_ID = re.compile(r"[\w.-]+/[\w.-]+")


def is_id(name: str) -> bool:
    """Whether a name could be a hub id and is no path that exists."""
    return bool(_ID.fullmatch(name)) and not name.endswith(".gguf") and not Path(name).exists()


def folder_of(name: str, download: bool, progress: Progress) -> Path:
    """Return the folder of a hub id. Raises ModelMissing, LoadError, or Interrupted when `progress` returns False."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        found = Path(snapshot_download(name, local_files_only=True, allow_patterns=PATTERNS))
        if not download or (found / "config.json").is_file():
            return found
    except (LocalEntryNotFoundError, OSError):
        if not download:
            raise ModelMissing(
                f"{name} is neither a folder here nor in the local cache of the hub.",
                "Nothing was fetched.",
                "Check the name, or set load.download = true in the profile to fetch it.",
            ) from None
    try:
        return Path(snapshot_download(name, allow_patterns=PATTERNS, tqdm_class=_bars(progress)))
    except (OfflineModeIsEnabled, LocalEntryNotFoundError, ConnectionError) as error:
        raise LoadError(
            f"{name} cannot be fetched: the hub is out of reach.",
            brief(error),
            "Go online (HF_HUB_OFFLINE must not be set), or name a model that is here.",
        ) from error
    except HfHubHTTPError as error:
        raise ModelMissing(
            f"The hub does not give {name}.",
            brief(error),
            "Check the name; models with a licence to accept need `hf auth login` first.",
        ) from error


def _bars(progress: Progress) -> Any:
    """Return a class that huggingface_hub takes for its progress bars, which reports bytes and draws nothing."""
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[misc]  # it has no types
        """Counts bytes; the sum of all files is known once they have begun."""

        done: dict[int, tuple[float, float]] = {}  # noqa: RUF012 - shared by all bars on purpose

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.counts = kwargs.get("unit") == "B"
            kwargs.pop("name", None)
            super().__init__(*args, **{**kwargs, "disable": False, "file": _Nowhere()})

        def update(self, n: float | None = 1) -> bool | None:
            shown: bool | None = super().update(n)
            if self.counts:
                self.done[id(self)] = (float(self.n), float(self.total or self.n))
                got, wanted = (sum(values) for values in zip(*self.done.values(), strict=True))
                if not progress(min(0.9 * got / max(wanted, 1.0), 0.9)):
                    raise Interrupted
            return shown

    return Bar


class _Nowhere:
    """A file that takes everything and shows nothing."""

    def write(self, text: str) -> int:
        """Take text."""
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""
