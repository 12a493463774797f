"""What torch refuses to load, and why, and where a model goes."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fader_backends import torch_hf
from fader_backends.base import Backend, ContextSpec, ModelSpec, Scalar
from fader_backends.errors import (
    BadValue,
    FaderError,
    Interrupted,
    LoadError,
    ModelDamaged,
    ModelUnsupported,
    NoTemplate,
    OutOfMemory,
    UnknownName,
)

from tests.backends import tiny_hf

pytestmark = pytest.mark.slow
CONTEXT = ContextSpec(length=256, rows=2, batch=32)


def load(model: object, context: ContextSpec = CONTEXT, **options: Scalar) -> Backend:
    return torch_hf.load(ModelSpec(backend="torch", model=str(model), options=options), context, lambda _: True)


def works(backend: Backend) -> bool:
    """Evaluate something, and close."""
    scores = backend.open().extend([5, 6, 7])
    backend.close()
    return bool(np.isfinite(scores).all())


@pytest.fixture
def folder(folders: Callable[[str], Path], tmp_path: Path) -> Path:
    """A tiny Llama that may be spoilt."""
    return Path(shutil.copytree(folders("llama"), tmp_path / "mine"))


def edit(file: Path, **changes: Any) -> None:
    """Change keys of a JSON file; None takes one out."""
    found = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))


def tensors(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return dict(load_file(folder / "model.safetensors"))


def test_a_sound_folder(folder: Path) -> None:
    """Facts say what it is, where it runs and why; progress ends the load wherever it says no."""
    backend = load(folder)
    assert (backend.facts.model, backend.facts.architecture, backend.facts.vocabulary) == ("mine", "llama", 268)
    assert backend.facts.context_trained == 1024
    assert "float32 (" in backend.facts.device
    assert works(backend)
    told: list[float] = []

    def progress(fraction: float) -> bool:
        told.append(fraction)
        return len(told) < 5

    with pytest.raises(Interrupted):
        torch_hf.load(ModelSpec(backend="torch", model=str(folder)), CONTEXT, progress)
    assert len(told) == 5
    assert told == sorted(told)


def spoil_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def spoil_config_text(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def spoil_shape(folder: Path) -> None:
    edit(folder / "config.json", hidden_size=128)


def spoil_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def spoil_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


def spoil_tokenizer_text(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0"')


def cut_in_half(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def cut_in_the_header(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:100])


def garbage(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 10)


def lose_a_tensor(folder: Path) -> None:
    from safetensors.torch import save_file

    kept = tensors(folder)
    del kept["model.layers.1.mlp.up_proj.weight"]
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def lose_a_shard(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_config, "holds no config.json"),
        (spoil_config_text, "config.json cannot be read"),
        (spoil_shape, "lacks .* tensors, or has them in another shape"),
        (spoil_weights, "holds no weights"),
        (spoil_tokenizer, "holds no tokenizer"),
        (spoil_tokenizer_text, "The tokenizer in .* cannot be read"),
        (cut_in_half, "cut short.*its weights need"),
        (cut_in_the_header, "damaged or cut short"),
        (garbage, "damaged"),
        (lose_a_tensor, "lacks 1 tensors.*up_proj"),
        (lose_a_shard, "lacks 1 of its 2 weight files.*model-00002-of-00002"),
    ],
)
def test_a_damaged_folder(folder: Path, spoil: Callable[[Path], None], says: str) -> None:
    """One line names the file and what is wrong with it."""
    spoil(folder)
    with pytest.raises(ModelDamaged, match=says) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert caught.value.next_step


def test_pickles_only_when_asked_for_by_name(folder: Path) -> None:
    """They can run code; `allow_pickle` lets them in."""
    import torch

    torch.save(tensors(folder), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelUnsupported, match=r"pickles \(pytorch_model.bin\).*load.allow_pickle"):
        load(folder)
    assert works(load(folder, allow_pickle=True))


def test_remote_code_only_when_trusted(folder: Path) -> None:
    """It runs with the person's rights: refused, and where trusted there is a warning."""
    edit(folder / "config.json", auto_map={"AutoConfig": "mine.Config"})
    with pytest.raises(ModelUnsupported, match=r"code of its own.*load.trust_remote_code"):
        load(folder)
    edit(folder / "config.json", auto_map={})
    with pytest.warns(UserWarning, match="runs code of its own"):
        assert works(load(folder, trust_remote_code=True))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "no_such"}, "does not know models of type 'no_such'"),
        ({"model_type": None}, "does not know models of type None"),
        ({"model_type": "mamba"}, "layers that this backend cannot take back"),
        ({"model_type": "t5"}, "it has an encoder"),
        ({"model_type": "clip_text_model"}, "is no chat model"),
    ],
)
def test_models_that_cannot_chat_here(folder: Path, changes: dict[str, Any], says: str) -> None:
    """Sound, but of no use: the reason, not a traceback."""
    edit(folder / "config.json", **changes)
    with pytest.raises(ModelUnsupported, match=says):
        load(folder)


def test_no_template(tmp_path: Path) -> None:
    """Nothing is guessed; a named one helps."""
    made = tiny_hf.write(tmp_path / "base", template="")
    with pytest.raises(NoTemplate, match="base carries no chat template"):
        load(made)
    named = ModelSpec(backend="torch", model=str(made), template="chatml")
    assert works(torch_hf.load(named, CONTEXT, lambda _: True))


def test_too_large_for_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate comes before anything is read, with both numbers; so does a context's."""
    from fader_backends.torch_hf import layout, weights

    with monkeypatch.context() as patch:
        patch.setattr(weights, "free_bytes", lambda _: 1000)
        with pytest.raises(OutOfMemory, match=r"mine needs .* GiB as torch.float32; cpu has .* GiB free"):
            load(folder)
    monkeypatch.setattr(layout, "free_bytes", lambda _: 1 << 20)
    with pytest.raises(OutOfMemory, match=r"context of 4,096 tokens needs 4 MiB; 1 are free.*Set the length"):
        load(folder, ContextSpec(length=4096))
    backend = load(folder, ContextSpec())
    assert backend.context.length == 512, "half of the memory is used when no length is asked for"
    backend.close()


def test_devices_and_types(folder: Path) -> None:
    """What is not there is said; half precision works."""
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(BadValue, match="device = cuda: there is none"):
            load(folder, device="cuda")
    unknown: tuple[Scalar, ...] = ("gpu", "meta", "xyz:1", 3)
    for device in unknown:
        with pytest.raises(BadValue, match="is no device"):
            load(folder, device=device)
    with pytest.raises(BadValue, match="none of auto, float32"):
        load(folder, dtype="int8")
    with pytest.raises(UnknownName, match="torch option 'dtyp'"):
        load(folder, dtyp="float32")
    backend = load(folder, dtype="bfloat16", device="cpu")
    assert "bfloat16 (as asked for; type as asked for)" in backend.facts.device
    assert works(backend)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"type_k": "iq4_nl"}, "type_k = 'iq4_nl' is none of f32"),
        ({"cache": "paged"}, "none of dynamic, static"),
        ({"unified": True}, "Each row has its own buffers"),
        ({"flash_attention": "yes"}, "none of auto"),
        ({"typ_k": "f16"}, "typ_k"),
    ],
)
def test_context_options(folder: Path, options: dict[str, Scalar], says: str) -> None:
    """Each is checked, and a context that cannot be meant leaves the old one as it was."""
    backend = load(folder)
    session = backend.open()
    session.extend([5, 6])
    with pytest.raises(FaderError, match=says):
        backend.configure(ContextSpec(length=256, options=options))
    assert list(session.tokens) == [5, 6]
    backend.close()


def test_missing_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra there is one line that says how to get it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(LoadError, match=r"Missing: torch, transformers, safetensors.*fader\[torch\]"):
        load("")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Leave transformers' log as it was."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    yield
    assert logging.get_verbosity() == before
