"""Options that several commands have, and the headings under which options are listed.

Knows words on a command line.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .cli_frame import F, option
from .paths import Paths

MODEL, SAMPLING, SESSION, OUTPUT, PLUGINS = "Model", "Sampling", "Session", "Output", "Plugins"
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

PROFILE_HELP = "Profile: a name (`fader profiles list`) or a .toml file.  [default: default; variable FADER_PROFILE]"
MODEL_HELP = "A GGUF file, or the name of one you have.  [default: the profile's; variable FADER_MODEL]"


def profile_option(**more: Any) -> Callable[[F], F]:
    """Declare -p."""
    return option("-p", "--profile", default="", group=MODEL, metavar="NAME|FILE", help=PROFILE_HELP, **more)


def model_option(**more: Any) -> Callable[[F], F]:
    """Declare -m."""
    return option("-m", "--model", group=MODEL, metavar="NAME|FILE", help=MODEL_HELP, **more)


json_option = option("--json", "as_json", is_flag=True, group=OUTPUT, help="Print one JSON value.")


def places() -> Paths:
    """Return the folders of this environment."""
    return Paths.from_environment(os.environ)
