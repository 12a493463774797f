"""Run the model's steps as compiled graphs of fixed shapes. Off: operator by operator.

Knows what can be set and what a backend says of its graphs; what a graph is, the backend knows. Before the first turn on a new
context `graph_check` compares steps with and without; where they differ, the turn goes on without, and this is switched off.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fader_backends.base import Backend
from fader_backends.errors import NotSupported
from fader_backends.graphs import Graphed

from .hookspecs import hookimpl
from .turn import GenerationRequest, Numbers, PluginInfo, Reading, RequestDraft, Settings, setting


class GraphSettings(Settings, frozen=True, kw_only=True):
    """Settings of the graphs."""

    mode: Annotated[
        Literal["compile", "static"],
        setting("compile: with torch.compile, and CUDA graphs on a GPU; static: fixed shapes alone", cost="context"),
    ] = "compile"
    verify: Annotated[
        int,
        setting("Tokens of the step that checks drafts, which has a graph too; 1: none", cost="context", ge=1, le=64),
    ] = 8
    bucket: Annotated[
        int,
        setting(
            "Keys a step looks at; doubled, and compiled anew, when a conversation outgrows it",
            cost="context",
            ge=64,
            step=1024,
        ),
    ] = 2048
    tune: Annotated[bool, setting("Try kernels out while compiling: takes longer, for GPUs", cost="context")] = False
    compiler: Annotated[
        Literal["inductor", "aot_eager", "eager"],
        setting("Backend of torch.compile; those but inductor are for finding faults", cost="context"),
    ] = "inductor"


info = PluginInfo(
    name="graph",
    summary="Run steps as compiled graphs (off: operator by operator)",
    settings=GraphSettings,
    on=False,
    needs=frozenset({"graph"}),
)


@hookimpl
def plan_request(draft: RequestDraft) -> None:
    """Set the context's options."""
    settings = draft.settings(info.name, GraphSettings)
    options = {
        **draft.context.options,
        "graph": settings.mode,
        "graph_verify": settings.verify,
        "graph_bucket": settings.bucket,
        "graph_tune": settings.tune,
        "graph_compiler": settings.compiler,
    }
    draft.context = msgspec.structs.replace(draft.context, options=options)


@hookimpl
def engine_ready(request: GenerationRequest, backend: Backend) -> None:
    """Compile, and compare with steps that are not. Raises NotSupported where nothing comes of it; steps are eager then."""
    if info.name not in request.enabled or not isinstance(backend, Graphed) or (state := backend.graph()) is None:
        return
    from .graph_check import check  # it needs numpy, which the app does not

    why, times = (state.why, None) if not state.on else check(backend, state)
    backend.use_graph(not why, why, times)
    if why:
        raise NotSupported("The model runs without graphs.", f"{why[:1].upper()}{why[1:]}.")


@hookimpl
def readings(numbers: Numbers) -> list[Reading]:
    """Return what became of the graphs."""
    state = numbers.graph
    if state is None:
        return []
    rows = [
        Reading(
            key="graph",
            label="graph",
            value=f"{state.steps:,} steps, {state.others:,} calls without" if state.on else f"off: {state.why}",
            help="Calls of the model since the context was made: steps that ran as a graph, and all others (prompts, "
            "several rows together).",
        )
    ]
    if state.eager_ms is not None and state.step_ms is not None:
        rows.append(
            Reading(
                key="graph_step",
                label="  step without → with",
                value=f"{state.eager_ms:.2f} → {state.step_ms:.2f} ms",
                help="Median one-token step in the check before the first turn, without the graph and with it.",
            )
        )
    if state.mode == "compile":
        rows += [
            Reading(
                key="graph_compile",
                label="  compiling",
                value=state.compile_ms / 1000,
                unit="s",
                digits=1,
                better="lower",
                help=f"Time of the calls that compiled something: {state.shapes} shapes, {state.graphs} graphs.",
            ),
            Reading(
                key="graph_recompiles",
                label="  recompiles · breaks",
                value=f"{state.recompiles} · {state.breaks}",
                help="Shapes compiled a second time, and places where a graph ended and Python went on"
                + (f"; the first: {state.break_at}." if state.break_at else "."),
            ),
        ]
    return rows
