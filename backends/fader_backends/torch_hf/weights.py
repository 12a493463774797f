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
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForCausalLM, GenerationConfig

from fader_backends.base import ModelFacts, ModelSpec, Progress
from fader_backends.errors import Interrupted, LoadError, ModelDamaged, ModelUnsupported, OutOfMemory
from fader_backends.fingerprint import fingerprint
from fader_backends.options import boolean, check_names
from fader_backends.torch_hf import attention, gguf_model, hub, linear, packed
from fader_backends.torch_hf.cache import Batch
from fader_backends.torch_hf.devices import Placement, free_bytes, is_out_of_memory, place
from fader_backends.torch_hf.folder import Folder, brief, inspect_folder
from fader_backends.torch_hf.vocabulary import FolderVocabulary, Vocabulary

LAYERS = {"full_attention", "sliding_attention"}
"""Kinds of layers whose state is keys and values per token, so that it can be cut anywhere."""
OPTIONS = ("device", "dtype", "matrices", "download", "allow_pickle", "trust_remote_code")


def open_weights(spec: ModelSpec, progress: Progress) -> Weights:
    """Find and load a model. Raises LoadError and its kinds, BadValue, OutOfMemory, or Interrupted."""
    check_names(spec.options, OPTIONS, "torch")
    placement = place(spec.options)
    kept = packed.chosen(spec.options, placement)
    trust = boolean(spec.options, "trust_remote_code", False)
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
        weights = Weights(name, str(source), folder, config, placement, kept, progress, trust)
        with _freed_on_error(weights):
            weights.vocabulary = FolderVocabulary(folder.path, _ends(folder, config), trust)
            weights.key = f"{weights.key} {fingerprint([folder.path / 'config.json', *folder.weights])}"
        return weights
    copy = gguf_model.converted(spec.model, placement.dtype, progress)
    try:
        weights = Weights(
            copy.file.name, copy.file.path, copy.folder, _config(copy.folder, False), placement, kept, progress, False
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
        kept: str,
        progress: Progress,
        trust: bool,
    ) -> None:
        """Load from a folder. `config` is transformers', `kept` one of `packed.KINDS` or empty. Raises ModelUnsupported, ModelDamaged, OutOfMemory, Interrupted."""
        self.name, self.path, self.placement = name, path, placement
        self.config: Any = config.get_text_config()
        _check_kind(name, config, self.config)
        _check_room(name, folder, placement)
        self.size_bytes = folder.size_bytes
        self.model: Any = _load(folder, config, placement, progress, trust)
        if not self.model._supports_attention_backend:
            raise ModelUnsupported(
                f"{name}: transformers' {type(self.model).__name__} has an attention of its own.",
                "",
                "Choose another model.",
            )
        tensors = {tensor.data_ptr(): tensor for tensor in self.model.parameters()}
        self.parameters = sum(tensor.numel() for tensor in tensors.values())
        self.embedded = int(self.model.get_input_embeddings().weight.shape[0])
        self.scored = int(self.model.get_output_embeddings().weight.shape[0])
        del tensors  # or those that are packed would stay
        outside = packed.pack(self.model, kept) if kept else 0
        if placement.device.type == "cpu":
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
    tensors = {tensor.data_ptr(): tensor for tensor in (*model.parameters(), *model.buffers())}
    return sum(tensor.nbytes for tensor in tensors.values())


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


def _check_room(name: str, folder: Folder, placement: Placement) -> None:
    needed = folder.numbers * placement.dtype.itemsize or folder.size_bytes
    free = free_bytes(placement.device)
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


def _load(folder: Folder, config: Any, placement: Placement, progress: Progress, trust: bool) -> Any:
    with _quietly(progress):
        try:
            model, told = AutoModelForCausalLM.from_pretrained(
                str(folder.path),
                config=config,
                dtype=placement.dtype,
                attn_implementation=attention.NAME,
                local_files_only=True,
                use_safetensors=folder.numbers > 0,
                trust_remote_code=trust,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are looked at below
            )
            model = model.to(placement.device).eval().requires_grad_(False)
        except Interrupted:
            raise
        except Exception as error:  # transformers raises a great many kinds
            if is_out_of_memory(error):
                raise OutOfMemory(f"{placement.device} has no room for {folder.path.name}.", str(error)) from None
            if "Unrecognized configuration class" in str(error):
                raise ModelUnsupported(
                    f"{folder.path.name} is no chat model.", f"It is a {config.model_type}."
                ) from error
            raise LoadError(
                f"transformers could not load {folder.path.name}.",
                brief(error),
                "Choose another model.",
            ) from error
    if absent := sorted([*told["missing_keys"], *(key for key, *_ in told["mismatched_keys"])]):
        raise ModelDamaged(
            f"{folder.path.name} lacks {len(absent)} tensors, or has them in another shape.",
            f"The first is {absent[0]}.",
            "Download it again, or choose another model.",
        )
    return model


@contextmanager
def _quietly(progress: Progress) -> Iterator[None]:
    """Silence transformers, and let its progress bar tell `progress`."""
    from transformers.utils import logging

    def hook(factory: Any, args: Any, kwargs: Any) -> Any:
        bar = factory(*args, **{**kwargs, "disable": True})
        items = list(args[0]) if args else []
        if kwargs.get("desc") != "Loading weights" or not items:
            return bar
        return _watched(items, progress)

    before, level = logging.set_tqdm_hook(hook), logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_tqdm_hook(before)
        logging.set_verbosity(level)


def _watched(items: Sequence[Any], progress: Progress) -> Iterator[Any]:
    for number, item in enumerate(items):
        if not progress(0.5 + 0.5 * number / len(items)):
            raise Interrupted
        yield item
