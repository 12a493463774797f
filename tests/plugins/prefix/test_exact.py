"""Law 2 on the real model in exact mode: scores after a prefix came back from any tier are those of a fresh evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fader_backends.base import ContextSpec, ModelSpec, Scalar
from fader_backends.errors import ModelMissing
from fader_backends.llamacpp.backend import LlamaCpp, open_backend
from fader_plugins.prefix.folder import Folder
from fader_plugins.prefix.radix import ids
from fader_plugins.prefix.shelf import Place, Shelf
from fader_plugins.prefix.tiers import Budgets, Tiers
from fader_plugins.testing import assert_equal, feed

pytestmark = pytest.mark.slow
PLACE = Place("me", "key")
OPTIONS: dict[str, Scalar] = {"flash_attention": "on", "unified": False}
NONE = Budgets(0, 0, 0, 32)
BUDGETS = {
    "session": NONE,
    "live": NONE._replace(rows=1),
    "memory": NONE._replace(memory=1 << 28),
    "disk": NONE._replace(disk=1 << 28),
}


@pytest.fixture(scope="module")
def llama() -> Iterator[LlamaCpp]:
    context = ContextSpec(length=512, rows=3, batch=32, threads=1, options=OPTIONS)
    try:
        backend = open_backend(ModelSpec(backend="llama.cpp"), context, lambda _: True)
    except ModelMissing:
        pytest.skip("the embedded model is not installed")
    yield backend
    backend.close()


@pytest.mark.parametrize("tier", BUDGETS)
def test_bit_for_bit(llama: LlamaCpp, tmp_path: Path, tier: str) -> None:
    """A session went another way from token 100 on; its first way comes back."""
    tokens = llama.encode("The keeper of the light counted the boats that came in before the storm. " * 12)[:160]
    detour = [
        *tokens[:100],
        *llama.encode(" Meanwhile nothing of the kind happened, as far as anyone could tell that day."),
    ]
    fresh = llama.open()
    want = feed(fresh, tokens, 32)
    fresh.close()

    budgets, tiers = BUDGETS[tier], Tiers(Shelf(), Folder(tmp_path))
    session = llama.open()
    feed(session, tokens[:150], 32)
    tiers.keep(session, PLACE, budgets)
    assert tiers.disk.flush(30)
    held, _ = tiers.restore(session, ids(detour)[:-1], [PLACE], budgets)
    assert held == 100
    feed(session, detour[held:], 32)
    held, where = tiers.restore(session, ids(tokens)[:-1], [PLACE], budgets)
    assert (held, where) == ((100, "session") if tier == "session" else (150, tier))
    assert_equal(feed(session, tokens[held:], 32), want, f"after {held} tokens from {where}")
    session.close()
    tiers.live.clear()


def test_a_state_of_another_layout_is_refused(llama: LlamaCpp, tmp_path: Path) -> None:
    """Law 11: the key names model, KV types, flash attention, device and library."""
    for part in ("k=f16", "v=f16", "flash=on", "unified=False", "on=", "rope="):
        assert part in llama.state_key
    assert llama.facts.versions["llama.cpp"] in llama.state_key
    assert llama._weights.fingerprint() in llama.state_key


def test_the_fingerprint_sees_the_middle_of_a_file(llama: LlamaCpp, tmp_path: Path) -> None:
    """A finetune has its base's size, header and often its last layer."""
    source = Path(llama.facts.path)
    twin = tmp_path / source.name
    data = np.fromfile(source, np.uint8)
    data[len(data) // 3 : len(data) // 3 + (1 << 20)] ^= 1
    data.tofile(twin)
    before = llama._weights.fingerprint()
    file = llama._weights.file
    try:
        llama._weights.file = type(file)(**{**{n: getattr(file, n) for n in file.__struct_fields__}, "path": str(twin)})
        assert llama._weights.fingerprint() != before
    finally:
        llama._weights.file = file
