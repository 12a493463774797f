"""Where torch takes models from besides folders: the hub's cache, and GGUF files through a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fader_backends import torch_hf
from fader_backends.base import ModelSpec
from fader_backends.errors import Interrupted, LoadError, ModelDamaged, ModelMissing, ModelUnsupported

from tests.backends import tiny
from tests.backends.test_torch_loading import CONTEXT, load, works

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(folders: Callable[[str], Path], tmp_path: Path) -> Path:
    """A tiny Llama."""
    return Path(shutil.copytree(folders("llama"), tmp_path / "mine"))


def test_hub_ids(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the local cache; fetched only when asked for; out of reach is said."""
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.errors import OfflineModeIsEnabled

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelMissing, match=r"our/model is neither a folder here nor in the local cache.*load.download"):
        load("our/model")
    with pytest.raises(LoadError, match=r"our/model cannot be fetched: the hub is out of reach.*Go online"):
        load("our/model", download=True)
    snapshot = cache / "models--our--model" / "snapshots" / "abc"
    shutil.copytree(folder, snapshot)
    (cache / "models--our--model" / "refs").mkdir()
    (cache / "models--our--model" / "refs" / "main").write_text("abc")
    backend = load("our/model")
    assert backend.facts.model == "our/model"
    assert works(backend)

    def fetch(name: str, local_files_only: bool = False, tqdm_class: Any = None, **others: Any) -> str:
        if local_files_only:
            raise OfflineModeIsEnabled
        with tqdm_class(total=100, unit="B", name="x") as bar:
            for _ in range(10):
                bar.update(10)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    told: list[float] = []

    def progress(done: float) -> bool:
        told.append(done)
        return True

    spec = ModelSpec(backend="torch", model="other/model", options={"download": True})
    torch_hf.load(spec, CONTEXT, progress).close()
    assert [round(one, 2) for one in told[1:11]] == [0.09, 0.18, 0.27, 0.36, 0.45, 0.54, 0.63, 0.72, 0.81, 0.9]


def test_gguf_files_that_cannot_be_placed(tmp_path: Path) -> None:
    """Another architecture, a stretch of positions, a file that is none: refused before anything is unpacked."""
    with pytest.raises(ModelUnsupported, match=r"GGUF files of mamba cannot be run on torch.*llama, qwen2"):
        load(tiny.write(tmp_path / "mamba.gguf", "mamba"))
    stretched = tiny.write(tmp_path / "yarn.gguf", "llama", **{"llama.rope.scaling.type": "yarn"})
    with pytest.raises(ModelUnsupported, match=r"stretches its positions.*yarn"):
        load(stretched)
    (tmp_path / "no.gguf").write_bytes(b"not a model")
    with pytest.raises(ModelDamaged, match=r"no.gguf is not a GGUF model"):
        load(tmp_path / "no.gguf")
    with pytest.raises(ModelMissing, match="folder of GGUF files"):
        load(tmp_path)
    with pytest.raises(ModelMissing, match="no model file"):
        load(tmp_path / "absent")


def test_a_copy_is_made_once_and_whole(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped halfway, nothing is left; then it is made, found again, and made anew when the file is another."""
    file = tiny.write(tmp_path / "tiny.gguf", "llama", "plain")
    spec, place = ModelSpec(backend="torch", model=str(file), template="plain"), home / "cache" / "torch"
    with pytest.raises(Interrupted):
        torch_hf.load(spec, CONTEXT, lambda done: done < 0.1)
    assert not list(place.iterdir())
    torch_hf.load(spec, CONTEXT, lambda _: True).close()
    (copy,) = place.iterdir()
    made = (copy / "model.safetensors").stat().st_mtime_ns
    torch_hf.load(spec, CONTEXT, lambda _: True).close()
    assert (copy / "model.safetensors").stat().st_mtime_ns == made
    tiny.write(file, "llama", "chatml template")
    torch_hf.load(spec, CONTEXT, lambda _: True).close()
    assert len(list(place.iterdir())) == 2
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(LoadError, match=r"copy of Tiny llama .* could not be written.*0 are free.*FADER_HOME"):
        load(tiny.write(tmp_path / "other.gguf", "llama", "x"))
