"""The way of one token, as app/README.md tells it, names files and functions that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "app" / "README.md").read_text(encoding="utf-8")
STEPS = TEXT.split("## The way of one token")[1].split("\n## ")[0]


def names(path: Path) -> set[str]:
    """Functions, classes and methods (as Class.method) a file defines."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{part.name}" for part in inner}
    return found


def test_each_step_names_what_is_there() -> None:
    """Every `path.py` exists, and the function named after it is defined in it."""
    assert len(re.findall(r"^\d+\. ", STEPS, re.MULTILINE)) == 8
    pairs = re.findall(r"`([a-z_/]+\.py)`\s+`([\w.]+)`", STEPS)
    assert len(pairs) >= 12
    for path, name in pairs:
        assert name in names(ROOT / path), f"{path} has no {name}"


def test_other_functions_are_there_too() -> None:
    """A method named without its file is defined in one of the files the steps name."""
    known = set().union(*(names(ROOT / path) for path in set(re.findall(r"`([a-z_/]+\.py)`", STEPS))))
    methods = set(re.findall(r"`(\w+\.\w+)`", STEPS)) - {"path.py"}
    assert not methods - known
