"""Owns a loaded transformers model: finding its files, checking that it fits and can be run here, its one call.

Knows neither sessions nor contexts.
"""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoConfig, GenerationConfig

from fader_backends.base import ModelFacts, ModelSpec, Progress
from fader_backends.errors import Interrupted, ModelDamaged, ModelUnsupported, OutOfMemory
from fader_backends.fingerprint import fingerprint
from fader_backends.options import boolean, check_names
from fader_backends.torch_hf import gguf_model, hub, linear, packed, spread
from fader_backends.torch_hf.cache import Batch
from fader_backends.torch_hf.devices import Placement, free_bytes, place
from fader_backends.torch_hf.folder import Folder, brief, inspect_folder
from fader_backends.torch_hf.loading import check_ranks, load_model, ranks
from fader_backends.torch_hf.vocabulary import FolderVocabulary, Vocabulary

LAYERS = {"full_attention", "sliding_attention"}
"""Kinds of layers whose state is keys and values per token, so that it can be cut anywhere."""
OPTIONS = ("device", "dtype", "matrices", "download", "allow_pickle", "trust_remote_code", *spread.OPTIONS)


class Wanted(NamedTuple):
    """What is to be done with a model's weights, beside placing them."""

    kept: str
    """One of `packed.KINDS`; empty: as they are."""
    spread: spread.Spread
    trust: bool
    """Whether code that comes with the model may run."""


def open_weights(spec: ModelSpec, progress: Progress) -> Weights:
    """Find and load a model. Raises LoadError and its kinds, BadValue, OutOfMemory, or Interrupted."""
    check_names(spec.options, OPTIONS, "torch")
    spreading = spread.asked(spec.options)
    options = spec.options if spreading.main is None else {**spec.options, "device": f"cuda:{spreading.main}"}
    placement = place(options)
    kept = packed.chosen(options, placement)
    trust = boolean(spec.options, "trust_remote_code", False)
    wanted = Wanted(kept, spreading, trust)
    if not progress(0.0):
        raise Interrupted
    source = Path(spec.model).expanduser()
    if hub.is_id(spec.model):
        source = hub.folder_of(spec.model, boolean(spec.options, "download", False), progress)
    if source.is_dir() and spec.model:
        folder = inspect_folder(source, boolean(spec.options, "allow_pickle", False), trust)
        if "auto_map" in folder.config:
            warnings.warn(f"{source} runs code of its own (trust_remote_code is set).", stacklevel=2)
        name = spec.model if hub.is_id(spec.model) else source.name
        config = _config(folder, trust)
        weights = Weights(name, str(source), folder, config, placement, wanted, progress)
        with _freed_on_error(weights):
            weights.vocabulary = FolderVocabulary(folder.path, _ends(folder, config), trust, weights.scored)
            weights.key = f"{weights.key} {fingerprint([folder.path / 'config.json', *folder.weights])}"
        return weights
    copy = gguf_model.converted(spec.model, placement.dtype, progress)
    try:
        weights = Weights(
            copy.file.name,
            copy.file.path,
            copy.folder,
            _config(copy.folder, False),
            placement,
            wanted._replace(trust=False),
            progress,
        )
    except BaseException:
        copy.vocabulary.close()
        raise
    weights.vocabulary = copy.vocabulary
    weights.key = f"{weights.key} {copy.fingerprint}"
    weights.quantisation = _told(copy.file.quantisation, kept)
    with _freed_on_error(weights):
        gguf_model.scale_rotary(weights.model, copy.folder.path)
    return weights


class Weights:
    """A model that can be called."""

    vocabulary: Vocabulary

    def __init__(
        self,
        name: str,
        path: str,
        folder: Folder,
        config: Any,
        placement: Placement,
        wanted: Wanted,
        progress: Progress,
    ) -> None:
        """Load from a folder. `config` is transformers'. Raises ModelUnsupported, ModelDamaged, OutOfMemory, Interrupted."""
        self.name, self.path, self.placement = name, path, placement
        self.config: Any = config.get_text_config()
        _check_kind(name, config, self.config)
        kept, spreading, trust = wanted
        check_ranks(name, self.config)
        where = spread.devices(spreading, self.config.num_hidden_layers) if spreading.shares else []
        _check_room(name, folder, placement, where)
        self.size_bytes = folder.size_bytes
        self.model: Any = load_model(folder, config, placement, where, progress, trust)
        if not self.model._supports_attention_backend:
            raise ModelUnsupported(
                f"{name}: transformers' {type(self.model).__name__} has an attention of its own.",
                "",
                "Choose another model.",
            )
        self.parameters = sum(tensor.numel() for tensor in self.model.parameters())
        self.embedded = int(self.model.get_input_embeddings().weight.shape[0])
        self.scored = int(self.model.get_output_embeddings().weight.shape[0])
        if where:
            self.placement = placement = placement._replace(device=where[0])
        outside = packed.pack(self.model, kept) if kept else 0
        if placement.device.type == "cpu" and ranks() == 1:
            linear.split(self.model)
        self.bytes = outside + _bytes(self.model)
        self.quantisation = _told(str(placement.dtype).removeprefix("torch."), kept)
        kind = f"{placement.dtype} {kept} on={placement.device.type}"
        self.key = f"torch {torch.__version__}/{transformers.__version__} {kind}"
        self._keeps = "logits_to_keep" in inspect.signature(self.model.forward).parameters

    def forward(self, ids: Sequence[int], places: Sequence[int], batch: Batch, scored: Sequence[int]) -> Tensor:
        """Evaluate tokens `ids` at positions `places`; return logits at the places `scored` of them, (rows, vocabulary)."""
        device = self.placement.device
        inputs, positions = torch.tensor([ids], device=device), torch.tensor([places], device=device)
        keep: int | Tensor = 1
        if list(scored) != [len(ids) - 1]:
            keep = torch.tensor(scored, dtype=torch.long, device=device)
        kept = {"logits_to_keep": keep} if self._keeps else {}
        found = self.model(input_ids=inputs, position_ids=positions, cache=batch, use_cache=True, **kept)
        logits: Tensor = found.logits[0]
        return logits if self._keeps else logits[torch.tensor(scored, dtype=torch.long, device=device)]

    def facts(self, backend: str, threads: int) -> ModelFacts:
        """Return what is true of the model, as used with this many threads."""
        return ModelFacts(
            backend=backend,
            model=self.name,
            path=self.path,
            architecture=str(self.config.model_type),
            quantisation=self.quantisation,
            parameters=self.parameters,
            size_bytes=self.size_bytes,
            weights_bytes=self.bytes,
            vocabulary=self.scored,
            context_trained=getattr(self.config, "max_position_embeddings", None) or 0,
            device=str(self.placement),
            threads=threads,
            versions={"torch": str(torch.__version__), "transformers": transformers.__version__},
        )

    def close(self) -> None:
        """Free everything. Closing twice is fine."""
        if self.model is None:
            return
        self.model = None
        self.vocabulary.close()
        gc.collect()  # modules refer to each other in circles
        if self.placement.device.type == "cuda":
            torch.cuda.empty_cache()


def _told(numbers: str, kept: str) -> str:
    return f"{numbers}, matrices in {kept}" if kept else numbers


def _bytes(model: Any) -> int:
    """Return what parameters and buffers take in this process; of a tensor that is shared with other ranks, its part."""
    return sum(getattr(one, "_local_tensor", one).nbytes for one in (*model.parameters(), *model.buffers()))


@contextmanager
def _freed_on_error(weights: Weights) -> Iterator[None]:
    try:
        yield
    except BaseException:
        weights.model = None
        gc.collect()
        raise


def _config(folder: Folder, trust: bool) -> Any:
    kind = folder.config.get("model_type")
    if kind not in CONFIG_MAPPING and "auto_map" not in folder.config:
        raise ModelUnsupported(
            f"transformers {transformers.__version__} does not know models of type {kind!r} ({folder.path.name}).",
            "",
            "Choose another model, or a GGUF file of it on llama.cpp.",
        )
    try:
        return AutoConfig.from_pretrained(str(folder.path), local_files_only=True, trust_remote_code=trust)
    except Exception as error:  # a configuration that does not add up raises what it likes
        raise ModelDamaged(
            f"{folder.path / 'config.json'} does not describe a model.",
            brief(error),
            "Download it again.",
        ) from error


def _check_kind(name: str, config: Any, text: Any) -> None:
    kinds = set(getattr(text, "layer_types", None) or ()) - LAYERS
    if getattr(config, "is_encoder_decoder", False):
        raise ModelUnsupported(f"{name} is no chat model: it has an encoder.", "", "Choose a chat model.")
    if kinds or not hasattr(text, "num_attention_heads"):
        what = ", ".join(sorted(kinds)) or "no attention"
        raise ModelUnsupported(
            f"{name} has layers that this backend cannot take back ({what}).", "", "Choose another, or llama.cpp."
        )


def _check_room(name: str, folder: Folder, placement: Placement, where: Sequence[torch.device]) -> None:
    needed = (folder.numbers * placement.dtype.itemsize or folder.size_bytes) / ranks()
    free = sum(free_bytes(device) for device in set(where) or {placement.device})
    if needed > free:
        raise OutOfMemory(
            f"{name} needs {needed / 2**30:,.1f} GiB as {placement.dtype}; {placement.device} has {free / 2**30:,.1f} GiB free.",
            "",
            'Set dtype = "bfloat16" in the profile\'s [load], close other programs, or choose a smaller model.',
        )


def _ends(folder: Folder, config: Any) -> list[int]:
    """Return the end tokens that the model's own settings name."""
    named = [config.get_text_config().eos_token_id]
    if (folder.path / "generation_config.json").is_file():
        with suppress(OSError, ValueError, TypeError):  # it only adds to what the configuration says
            named.append(GenerationConfig.from_pretrained(str(folder.path), local_files_only=True).eos_token_id)
    flat = [one for ends in named for one in (ends if isinstance(ends, list) else [ends])]
    return [one for one in flat if isinstance(one, int)]
