"""Owns one llama.cpp context: its memory of sequences, its batch, and the call that runs it.

Knows sequence ids and positions, but neither sessions nor messages.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fader_backends.base import Scores
from fader_backends.errors import BadScores, LoadError, OutOfMemory
from fader_backends.ggml_types import CACHE_TYPES
from fader_backends.llamacpp.layout import FLASH_ATTENTION, Layout
from fader_backends.llamacpp.library import LOG, Line, Switch, bindings, catch_log, reason
from fader_backends.llamacpp.weights import Weights

VIEWS = 64
"""How many views of scores are kept for the next step; making one anew costs as much as reading it."""


class Stretch(NamedTuple):
    """Tokens of one sequence in a batch."""

    row: int
    start: int
    tokens: Sequence[int]
    scored: int
    """How many of the last tokens get scores."""


class Context:
    """A context of `weights`, which must outlive it."""

    def __init__(self, weights: Weights, layout: Layout, switch: Switch) -> None:
        """Raises OutOfMemory or LoadError with what the library said."""
        library = self._library = bindings()
        self._switch = switch
        self._unified = layout.unified
        self._vocabulary = weights.vocabulary.size
        self._window: int = library.llama_model_n_swa(weights.pointer)
        parameters = library.llama_context_default_params()
        parameters.n_ctx = layout.length if layout.unified else layout.length * layout.rows
        parameters.n_batch = layout.batch
        parameters.n_ubatch = layout.ubatch
        parameters.n_seq_max = layout.rows
        parameters.n_threads = parameters.n_threads_batch = layout.threads
        parameters.flash_attn_type = FLASH_ATTENTION[layout.flash_attention]
        parameters.type_k = CACHE_TYPES[layout.type_k]
        parameters.type_v = CACHE_TYPES[layout.type_v]
        parameters.kv_unified = layout.unified
        parameters.no_perf = True
        parameters.abort_callback = switch.callback
        parameters.abort_callback_data = switch.data
        catch_log(library)
        with LOG.listen() as lines:
            self.pointer: Any = library.llama_init_from_model(weights.pointer, parameters)
        if not self.pointer:
            raise _refused(layout, reason(lines))
        self.memory: Any = library.llama_get_memory(self.pointer)
        self.length: int = library.llama_n_ctx_seq(self.pointer)
        self.batch: int = library.llama_n_batch(self.pointer)
        self.kv_bytes = _reported_bytes(lines)
        self.reported = _reported_graph(lines)
        self._scores_at = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)(
            ctypes.cast(library.llama_get_logits_ith, ctypes.c_void_p).value or 0
        )
        self._make_batch()

    def _make_batch(self) -> None:
        """Make the arrays of every batch to come; only their contents change from call to call."""
        size = self.batch
        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(size, np.int32)
        self._rows = np.zeros(size, np.int32)
        self._scored = np.zeros(size, np.int8)
        self._counts = np.ones(size, np.int32)
        self._row_pointers = (self._rows.ctypes.data + 4 * np.arange(size)).astype(np.uintp)
        self._order = np.arange(self.length + size, dtype=np.int32)
        self._views: dict[tuple[int, int], Scores] = {}
        fields: dict[str, npt.NDArray[Any]] = {
            "token": self._tokens,
            "pos": self._positions,
            "n_seq_id": self._counts,
            "seq_id": self._row_pointers,
            "logits": self._scored,
        }
        self._struct = self._library.llama_batch()
        for name, kind in self._library.llama_batch._fields_:
            if name in fields:
                setattr(self._struct, name, ctypes.cast(fields[name].ctypes.data, kind))

    def run(self, work: Sequence[Stretch]) -> int:
        """Evaluate at most `batch` tokens; return the library's code.

        0: done. 1: no room in the cache. 2: interrupted. Negative: refused. After anything but 0 the caller must
        cut the sequences back, because some of the batch may have been evaluated.
        """
        end = 0
        for row, start, tokens, scored in work:
            begin, end = end, end + len(tokens)
            if end - begin == 1:  # decoding: slices cost ten times what single entries do
                self._tokens[begin], self._positions[begin], self._rows[begin] = tokens[0], start, row
                self._scored[begin] = scored
                continue
            self._tokens[begin:end] = tokens
            self._positions[begin:end] = self._order[start : start + len(tokens)]
            self._rows[begin:end] = row
            self._scored[begin : end - scored] = 0
            self._scored[end - scored : end] = 1
        if end == 0:
            return 0
        self._struct.n_tokens = end
        code: int = self._library.llama_decode(self.pointer, self._struct)
        return code

    def scores(self, work: Sequence[Stretch]) -> list[Scores]:
        """Return the scores of the batch that just ran: views of the library's buffer, which the next run overwrites."""
        result = []
        end = 0
        for stretch in work:
            end += len(stretch.tokens)
            result.append(self._view(end - stretch.scored, stretch.scored))
        return result

    def _view(self, place: int, count: int) -> Scores:
        """Return the scores at `count` places of the batch, which the library keeps side by side."""
        source = self._scores_at(self.pointer, place) if count else 0
        if count and not source:
            raise BadScores("llama.cpp returned no scores.", "", "Send the message again.")
        if (source, count) not in self._views:
            if len(self._views) > VIEWS:
                self._views.clear()
            kind = ctypes.c_float * (count * self._vocabulary)
            buffer = kind.from_address(source) if count else kind()
            view: Scores = np.ctypeslib.as_array(buffer).reshape(count, self._vocabulary)
            view.flags.writeable = False
            self._views[source, count] = view
        return self._views[source, count]

    @property
    def reused(self) -> int:
        """How many calls found the graph of the one before fit."""
        return int(self._library.llama_perf_context(self.pointer).n_reused)

    def cut(self, row: int, length: int) -> bool:
        """Forget what `row` holds from position `length` on; False when this kind of memory cannot."""
        done: bool = self._library.llama_memory_seq_rm(self.memory, row, length, -1)
        return done

    def reaches(self, row: int, length: int) -> bool:
        """Whether a row cut to `length` still holds all that the next token attends to.

        A sliding window's buffer forgets what lies before the window (llama-server checks the same before it reuses).
        """
        if length == 0 or self._window == 0:
            return True
        first: int = self._library.llama_memory_seq_pos_min(self.memory, row)
        return first <= max(0, length - self._window)

    def share(self, row: int, other: int) -> bool:
        """Let the empty row `other` hold what `row` holds, copying nothing when they share a buffer."""
        if not self._unified:  # the library would copy at the next run, over whatever `other` has loaded until then
            return self.load(other, self.save(row))
        self._library.llama_memory_seq_cp(self.memory, row, other, -1, -1)
        return True

    def save(self, row: int) -> bytes:
        """Copy a row's state out. Raises OutOfMemory."""
        size = self._library.llama_state_seq_get_size(self.pointer, row)
        try:
            buffer = (ctypes.c_uint8 * size)()
        except MemoryError as error:
            raise OutOfMemory(f"No memory for {size / 2**20:,.0f} MiB of saved state.") from error
        written = self._library.llama_state_seq_get_data(self.pointer, buffer, size, row)
        return bytes(memoryview(buffer)[:written])

    def load(self, row: int, data: bytes) -> bool:
        """Replace a row's state; False when it does not fit, and then the row holds nothing sure."""
        source = ctypes.cast(ctypes.c_char_p(data), ctypes.POINTER(ctypes.c_uint8))
        read: int = self._library.llama_state_seq_set_data(self.pointer, source, len(data), row)
        return read == len(data)

    def close(self) -> None:
        """Free the context. Closing twice is fine."""
        if self.pointer:
            catch_log(self._library)
            self._library.llama_free(self.pointer)
            self.pointer = None


def _reported_bytes(lines: Sequence[Line]) -> int | None:
    """Return the size of the buffers that hold sequences, as the library reported making them."""
    sizes = [
        float(found[1]) for line in lines if (found := re.search(r"(?:KV|RS) buffer size = +([\d.]+) MiB", line.text))
    ]
    return int(sum(sizes) * 2**20) if sizes else None


def _reported_graph(lines: Sequence[Line]) -> dict[str, str]:
    """Return what the library said of the context's graph, by name."""
    said = {
        "nodes": r"graph: nodes = (\d+)",
        "splits": r"graph: .*splits = (\d+)",
        "flash attention": r"flash_attn += (\w+)|Flash Attention (enabled|disabled)",
    }
    found = {}
    for line in lines:
        for name, pattern in said.items():
            if match := re.search(pattern, line.text):
                found[name] = next(part for part in match.groups() if part)
    return found


def _refused(layout: Layout, why: str) -> OutOfMemory | LoadError:
    if re.search(r"alloc|memory", why):
        return OutOfMemory(
            f"There is no memory for a context of {layout.length:,} tokens.", why, "Set a smaller context length."
        )
    return LoadError("llama.cpp could not make this context.", why, "Go back to the default context options.")
