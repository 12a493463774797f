"""Which package may import which, how long a file may be, and what must not be imported before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "fader_backends": ROOT / "backends" / "fader_backends",
    "fader_plugins": ROOT / "plugins" / "fader_plugins",
    "fader": ROOT / "app" / "fader",
}
FORBIDDEN = {"fader_backends": {"fader_plugins", "fader", "pluggy", "textual"}, "fader_plugins": {"fader", "textual"}}
PLUGGY = {"registry.py", "calls.py", "hookspecs.py"}
HEAVY = ("torch", "transformers", "llama_cpp", "textual")
LONGEST = 300


def sources(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(folder.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level names a file imports anywhere, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("package", FORBIDDEN)
def test_imports_run_one_way(package: str) -> None:
    """fader_backends knows neither plugins nor app, fader_plugins does not know the app."""
    for path in sources(PACKAGES[package]):
        wrong = imported(path) & FORBIDDEN[package]
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_textual_only_in_the_tui() -> None:
    """The screen's library is imported under app/fader/tui and nowhere else."""
    tui = PACKAGES["fader"] / "tui"
    users = [path for path in sources(*PACKAGES.values()) if "textual" in imported(path)]
    assert not [path for path in users if tui not in path.parents]


def test_pluggy_only_at_the_door() -> None:
    """pluggy is mentioned where hooks are declared, found and called, and nowhere else."""
    users = {path.name for path in sources(*PACKAGES.values()) if "pluggy" in imported(path)}
    assert users == PLUGGY


def test_no_long_files() -> None:
    """A file above 300 lines wants to be two."""
    folders = [ROOT / name for name in ("app", "backends", "plugins", "tests")]
    lines = {path.relative_to(ROOT): path.read_text(encoding="utf-8").count("\n") for path in sources(*folders)}
    assert not {str(path): count for path, count in lines.items() if count > LONGEST}


@pytest.mark.parametrize(
    "code",
    [
        "from fader_plugins.registry import build; build(None)",
        "import fader.switchboard",
        "import fader.engine.remote",
        "import fader.headless",
        "import fader_backends.llamacpp",
        "import fader_backends.torch_hf",
        "import fader_plugins.testing",
    ],
)
def test_nothing_heavy_before_it_is_needed(code: str) -> None:
    """A fresh interpreter that imports this has neither a model library nor the screen's in it."""
    check = f"import sys\n{code}\nheavy = {set(HEAVY)!r} & set(sys.modules)\nassert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
