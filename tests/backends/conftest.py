"""The embedded model, loaded once per module in exact mode, and its path; tiny model folders for torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fader_backends import torch_hf
from fader_backends.base import Backend, ContextSpec, ModelSpec, Scalar
from fader_backends.errors import ModelMissing
from fader_backends.llamacpp.backend import LlamaCpp, open_backend
from fader_backends.llamacpp.weights import find

from tests.backends import tiny_hf

Open = Callable[..., Any]
"""(model, context, template, load options) -> a torch backend."""
EXACT = ContextSpec(
    length=1024, rows=4, batch=64, threads=1, options={"flash_attention": "on", "ubatch": 32, "unified": False}
)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    try:
        return find("")
    except ModelMissing:
        pytest.skip("the embedded model is not installed")


@pytest.fixture(scope="module")
def llama(smollm2: Path) -> Iterator[LlamaCpp]:
    backend = open_backend(ModelSpec(backend="llamacpp"), EXACT, lambda fraction: True)
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Tiny models for torch by kind, written once; nobody may change them."""
    return tiny_hf.written_once(tmp_path_factory)


@pytest.fixture
def open_torch() -> Iterator[Open]:
    """Load on torch; all are closed at the end."""
    opened: list[Backend] = []

    def make(model: object = "", context: ContextSpec | None = None, template: str = "", **options: Scalar) -> Backend:
        spec = ModelSpec(backend="torch", model=str(model), template=template, options=options)
        opened.append(torch_hf.load(spec, context or ContextSpec(length=512, rows=4, batch=64), lambda _: True))
        return opened[-1]

    yield make
    for backend in opened:
        backend.close()
