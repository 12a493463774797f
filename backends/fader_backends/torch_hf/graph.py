"""Owns steps of fixed shapes: the same call of the model over whole buffers, compiled where that is asked for.

Knows one session's step, not prompts and not batches; those run as ever, over the same buffers.

A step has a fixed number of tokens (`Plan.widths`; a shorter one is filled up, and what the filling wrote is overwritten by the
next step) and looks at a fixed number of keys, the smallest power of two times `Plan.bucket` that holds them; what lies behind a
token's own place is masked (gpt-fast, github.com/meta-pytorch/gpt-fast, does the same). Each pair is one call of
`torch.compile`, whose CUDA graphs need buffers that stay where they are.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from transformers import Cache

from fader_backends.base import Scalar
from fader_backends.errors import FaderError
from fader_backends.graphs import GraphState
from fader_backends.options import boolean, choice, integer, within
from fader_backends.torch_hf.attention import Whole
from fader_backends.torch_hf.cache import Held, Store
from fader_backends.torch_hf.devices import is_out_of_memory
from fader_backends.torch_hf.folder import brief
from fader_backends.torch_hf.kv_types import Plain

OPTIONS = ("graph", "graph_compiler", "graph_verify", "graph_bucket", "graph_tune")
MODES = ("off", "static", "compile")
COMPILERS = ("inductor", "aot_eager", "eager")
"""Backends of `torch.compile`: the real one, and two that stop early, for finding out which part fails."""

Model: TypeAlias = Any
"""transformers' model."""


class Plan(NamedTuple):
    """What the context asks for."""

    mode: str
    compiler: str
    widths: tuple[int, ...]
    """Tokens of a step, ascending."""
    bucket: int
    tune: bool


def plan(options: Mapping[str, Scalar]) -> Plan | None:
    """Read the context's options; None when they ask for no graph. Raises BadValue."""
    mode = choice(options, "graph", "off", dict.fromkeys(MODES))
    compiler = choice(options, "graph_compiler", "inductor", dict.fromkeys(COMPILERS))
    verify, bucket = integer(options, "graph_verify", 8), integer(options, "graph_bucket", 2048)
    within("graph_verify", verify, 1, 64)
    within("graph_bucket", bucket, 64, 1 << 20)
    tune = boolean(options, "graph_tune", False)
    return None if mode == "off" else Plan(mode, compiler, tuple(sorted({1, verify})), bucket, tune)


class Keys(Cache):  # type: ignore[misc]  # transformers is looked at as if it had no types
    """One store as transformers' models see it in a step of fixed shape."""

    def __init__(self, store: Store) -> None:
        super().__init__(layers=[])
        self.pairs = [
            (store.layers[layer][0].parts[0], store.layers[layer][1].parts[0]) for layer in sorted(store.layers)
        ]
        for tensor in (tensor for pair in self.pairs for tensor in pair):
            torch._dynamo.mark_static_address(tensor)
        self.places: Tensor
        self.length = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Whole, Whole]:
        """Write one layer's new states at their places; return the keys and values that are looked at."""
        wholes = []
        for buffer, states in zip(self.pairs[layer_idx], (key_states[0], value_states[0]), strict=True):
            buffer.index_copy_(1, self.places, states.to(buffer.dtype))
            wholes.append(Whole(buffer[:, : self.length].to(states.dtype), self.places))
        return wholes[0], wholes[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:  # noqa: ARG002 - transformers' signature
        """Return nothing of use: positions are always given."""
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:  # noqa: ARG002 - transformers' signature
        """Return length and offset, should a model ask; masks are made in `attention`."""
        return self.length, 0


Step: TypeAlias = Callable[[Tensor, Tensor, Keys], Tensor]
"""(ids, positions, keys) -> logits of all tokens; shapes (1, width), (1, width), (width, vocabulary)."""


class Graph:
    """The steps of one context. Fails into eager steps: nothing it meets may end a turn."""

    def __init__(self, model: Model, plan: Plan, device: torch.device) -> None:
        self.plan = plan
        self.on = True
        self.why = ""
        self.times: tuple[float, float] | None = None
        self._model, self._device = model, device
        self._steps: dict[tuple[int, int], Step] = {}
        self._compiled: set[tuple[int, int]] = set()
        self._compile_ns = self._graphs = self._recompiles = self._breaks = self._run = self._others = 0
        self._break_at = ""
        if plan.mode == "compile" and plan.compiler == "inductor" and (lacking := compiler_lacking(device)):
            self.use(False, lacking)

    def use(self, on: bool, why: str = "") -> None:
        """Run steps or not."""
        self.on, self.why = on, "" if on else why

    def state(self) -> GraphState:
        """Return the counts."""
        return GraphState(
            mode=self.plan.mode,
            on=self.on,
            why=self.why,
            verify=self.plan.widths[-1],
            eager_ms=self.times[0] if self.times else None,
            step_ms=self.times[1] if self.times else None,
            compile_ms=self._compile_ns * 1e-6,
            shapes=len(self._steps),
            graphs=self._graphs,
            recompiles=self._recompiles,
            breaks=self._breaks,
            break_at=self._break_at,
            steps=self._run,
            others=self._others,
        )

    def facts(self) -> dict[str, str]:
        """Return what there is to say of the graphs, by name."""
        return {
            "graphs": f"{self._graphs} of {len(self._steps)} shapes, compiled in {self._compile_ns * 1e-9:.1f} s",
            "recompiles": str(self._recompiles),
            "graph breaks": f"{self._breaks}{' ' if self._break_at else ''}{self._break_at}",
        }

    def run(self, held: Held, tokens: Sequence[int], rows: int) -> Tensor | None:
        """Return the logits of the last `rows` tokens, (rows, vocabulary); None when this is no step for a graph.

        `held` has been prepared for the tokens. Raises what `is_out_of_memory` knows.
        """
        shape = self._shape(held, len(tokens)) if self.on else None
        if shape is None:
            self._others += 1
            return None
        width, length = shape
        try:
            keys = self._keys(held.store, length)
            filled = [*tokens, *[tokens[-1]] * (width - len(tokens))]
            ids = torch.tensor([filled], device=self._device)
            places = torch.arange(held.length, held.length + width, device=self._device)
            logits = self._counted(shape, ids, places, keys)
        except FaderError:
            raise
        except Exception as error:  # compilers raise what they like
            if is_out_of_memory(error):
                raise
            self.use(False, f"a step of {width} could not be run: {brief(error)}")
            return None
        self._run += 1
        return logits[len(tokens) - rows : len(tokens)]

    def _shape(self, held: Held, count: int) -> tuple[int, int] | None:
        width = next((width for width in self.plan.widths if width >= count), None)
        store = held.store
        if width is None or not store.layers or held.length + width > store.capacity:
            return None
        if not all(isinstance(buffer, Plain) for pair in store.layers.values() for buffer in pair):
            self.use(False, "a quantised cache is unpacked anew in each step, which no graph can take in")
            return None
        length = self.plan.bucket
        while length < held.length + width:
            length *= 2
        return width, min(length, store.capacity)

    @staticmethod
    def _keys(store: Store, length: int) -> Keys:
        keys: Keys = store.keys or Keys(store)
        store.keys, keys.length = keys, length
        return keys

    def _counted(self, shape: tuple[int, int], ids: Tensor, places: Tensor, keys: Keys) -> Tensor:
        """Call a step, and take note of what it compiled."""
        graphs, breaks, begin = _graphs(), _breaks(), time.perf_counter_ns()
        if self._device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        if shape in self._steps:
            logits = self._steps[shape](ids, places, keys)
        else:
            with warnings.catch_warnings():  # a compiler warns of its own inside
                warnings.simplefilter("ignore")
                step = self._made()
                logits = step(ids, places, keys)
            self._steps[shape] = step
        if (made := _graphs() - graphs) > 0:
            self._compile_ns += time.perf_counter_ns() - begin
            self._graphs += made
            self._recompiles += shape in self._compiled
            self._compiled.add(shape)
            new = [text for text, count in _breaks().items() if count > breaks.get(text, 0)]
            self._breaks += sum(_breaks().values()) - sum(breaks.values())
            self._break_at = self._break_at or (new[0].splitlines()[0] if new else "")
        return logits

    def _made(self) -> Step:
        model = self._model

        def step(ids: Tensor, places: Tensor, keys: Keys) -> Tensor:
            keys.places = places
            logits: Tensor = model(input_ids=ids, position_ids=places[None], cache=keys, use_cache=True).logits[0]
            return logits.float()

        if self.plan.mode == "static":
            return step
        options: dict[str, Any] = {}
        if self.plan.compiler == "inductor":
            options = {"triton.cudagraphs": self._device.type == "cuda", "coordinate_descent_tuning": self.plan.tune}
        compiled: Step = torch.compile(  # type: ignore[call-overload]  # its overloads lack what keeps the shapes apart
            step, backend=self.plan.compiler, dynamic=False, isolate_recompiles=True, options=options or None
        )
        return compiled

    def close(self) -> None:
        """Free what was compiled, CUDA graphs and their memory included: torch keeps all of it until it is reset."""
        if self._steps and self.plan.mode == "compile":
            self._steps.clear()
            torch._dynamo.reset()
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
        self._steps.clear()
        self._model = None


def compiler_lacking(device: torch.device) -> str:
    """Return why nothing can be compiled for a device here; empty when it can."""
    if device.type == "mps":
        return "torch compiles nothing worth having for Apple's GPU yet"
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        return "" if has_triton() else "triton, which writes kernels for this GPU, is not installed or does not know it"
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, OSError, RuntimeError):
        return "there is no C++ compiler; install one (g++, clang, MSVC), or set graph.mode to static"
    return ""


def _graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _breaks() -> dict[str, int]:
    return dict(torch._dynamo.utils.counters["graph_break"])
