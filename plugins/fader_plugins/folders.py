"""Where a plugin may keep files that can be made again: the rule of `fader_backends.folders`."""

from __future__ import annotations

from fader_backends.folders import cache_folder as cache_folder
