"""What is taken for a path of this machine, and what is left as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fader.lab.evidence import ModelNote
from fader.lab.placeless import placeless
from fader.lab.restore import find
from fader.paths import Paths
from fader_backends.errors import ModelMissing


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("/home/somebody/models/a.gguf", "a.gguf"),
        ("C:\\Users\\somebody\\a.GGUF", "a.GGUF"),
        ({"x": ["/home/somebody/a.safetensors", 3, True]}, {"x": ["a.safetensors", 3, True]}),
        ("/think before you speak, and/or not", "/think before you speak, and/or not"),
        ("owner/name", "owner/name"),
        ("/", "/"),
        ("\n", "\n"),
        ("x/" * 5000, "x/" * 5000),
        ("/\0", "/\0"),
        (None, None),
    ],
)
def test_paths_end_up_as_names(value: Any, left: Any) -> None:
    assert placeless(value) == left


def test_what_lies_here_is_a_path_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "schema.txt").write_text("{}", "utf-8")
    assert placeless(str(tmp_path / "schema.txt")) == "schema.txt"
    assert placeless(f"@{tmp_path / 'schema.txt'}") == "@schema.txt"
    assert placeless(str(tmp_path)) == tmp_path.name


def test_a_model_in_a_folder_is_not_taken_for_the_embedded_one(tmp_path: Path, paths: Paths) -> None:
    """It has no hash of its own in a bundle: it is run where its folder is named, and nothing else in its stead."""
    note = ModelNote(name="Tiny", file="Tiny", backend="torch")
    with pytest.raises(ModelMissing, match="The model of this bundle is not here: Tiny"):
        find(note, None, "Tiny", paths, {}, tmp_path)
    (tmp_path / "Tiny").mkdir()
    (tmp_path / "Tiny" / "config.json").write_text("{}", "utf-8")
    assert find(note, str(tmp_path / "Tiny"), "Tiny", paths, {}, tmp_path).path == tmp_path / "Tiny"
