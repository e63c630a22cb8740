"""A transformers model read whole from the user's files: every tensor that it needs, all finite.

transformers fills tensors that a file lacks with random numbers and says so in a log.  A
measurement of those says nothing about the file, so that here each of them is an error.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stderr
from io import StringIO
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.data.checkpoint import (
    needed,
    prefix_of,
    refuse_other_code,
    refuse_other_shapes,
    refuse_twice,
    refuse_unreal,
    refuse_unused,
    stored_types,
)
from wordsens.data.folders import GGUF, check_encoder
from wordsens.errors import UserError
from wordsens.memory import require

if TYPE_CHECKING:
    import torch

NAMED = 3  # absent tensors that a message names


def source_of(path: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of a model and how transformers reads it: no network, no code of others.

    ``path`` is the folder, or a GGUF file, which may also be the only model of a folder.
    """
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    if path.suffix == GGUF:
        return path.parent, options | {"gguf_file": path.name}
    packed = [] if (path / "config.json").exists() else sorted(path.glob(f"*{GGUF}"))
    return path, options | ({"gguf_file": packed[0].name} if packed else {})


@contextmanager
def quiet(options: Mapping[str, Any]) -> Iterator[None]:
    """Without transformers' log and progress bars."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # Reading a GGUF file draws a progress bar that nothing else turns off.
    with redirect_stderr(StringIO()) if "gguf_file" in options else nullcontext():
        yield


@contextmanager
def readable(path: Path, part: str, key: str) -> Iterator[None]:
    """Turns what transformers, tokenizers and safetensors each raise into one line."""
    try:
        yield
    except UserError:
        raise
    except PermissionError as error:
        raise UserError(f"{key}: {error.filename or path} may not be read; chmod u+r") from None
    except Exception as error:
        reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
        if "above report" in reason:  # which is a log that nobody sees
            reason = "some tensors do not convert to those of the model"
        raise UserError(
            f"{key}: {path}: the {part} cannot be loaded ({reason}); save the "
            "model again with save_pretrained, or delete the folder if snakemake made it"
        ) from None


def read_config(path: Path, key: str) -> Any:
    """The transformers configuration of a folder or a GGUF file."""
    from transformers import AutoConfig

    folder, options = source_of(path)
    with quiet(options), readable(path, "configuration", key):
        config = AutoConfig.from_pretrained(folder, **options)
    # transformers no longer knows these, and would compute absolute positions instead.
    positions = getattr(config, "position_embedding_type", None) or "absolute"
    if str(positions).startswith("relative_key"):
        raise UserError(
            f"{key}: {path}/config.json has position_embedding_type {positions!r}, which this "
            "release of transformers does not compute; allowed: absolute"
        )
    return config


def read_tokenizer(path: Path, key: str) -> Any:
    """The tokenizer of a folder or a GGUF file."""
    from transformers import AutoTokenizer

    folder, options = source_of(path)
    with quiet(options), readable(path, "tokenizer", key):
        return AutoTokenizer.from_pretrained(folder, **options)


def load_model(
    path: Path, key: str, head: str | None = None, attention: str | None = "eager"
) -> Any:
    """The model of a folder or a GGUF file, in float32 and eval mode.

    ``head`` names a class of transformers such as AutoModelForCausalLM; without it the bare model
    is loaded, of an encoder with a decoder the encoder.  ``attention`` is the implementation, None
    for transformers' choice; eager ones hand out their scores.  Prefixes that training scripts
    leave before the names of tensors are stripped.  Raises UserError, starting with ``key``, for a
    tensor that the model needs and the files lack, for one inside the model that it would not use
    (see ``checkpoint``), and for NaN or infinity.
    """
    import torch

    config = read_config(path, key)
    if getattr(config, "chunk_size_feed_forward", 0):
        config.chunk_size_feed_forward = 0  # saves memory, and takes multiples of itself alone
    folder, options = source_of(path)
    if "gguf_file" not in options:
        options["use_safetensors"] = True
    loader = _loader(config, head)
    if head is None and _takes_pooling(loader, config):
        options["add_pooling_layer"] = False
    with readable(path, "weights", key):
        size = sum(_float32_bytes(file) for file in check_encoder(path, key))
    require(size, f"{key}: {path}, in float32,", "close other programs, or take a smaller model")

    def load(**more: Any) -> tuple[Any, Mapping[str, Any]]:
        with quiet(options), readable(path, "weights", key):
            model, info = loader.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                attn_implementation=attention,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, by their names
                **options,
                **more,
            )
            return model, info

    what = f"{key}: {path}"
    model, info = load()
    absent = needed(info["missing_keys"], head)
    if absent:
        prefix = prefix_of(absent, info["unexpected_keys"], what)
        if prefix:
            model, info = load(key_mapping={f"^{re.escape(prefix)}": ""})
            absent = needed(info["missing_keys"], head)
    if absent:
        listed = ", ".join(absent[:NAMED]) + (", …" if len(absent) > NAMED else "")
        raise UserError(
            f"{what} lacks {len(absent)} of the weights that its config.json asks for "
            f"({listed}); save the whole model again with save_pretrained"
        )
    refuse_other_code(model, head, what)
    refuse_other_shapes(info["mismatched_keys"], head, what)
    refuse_unused(model, info["unexpected_keys"], what)
    if "gguf_file" not in options:
        types = stored_types(check_encoder(path, key))
        refuse_unreal(model, types, what)
        refuse_twice(model, types, what)
    if head is None and config.is_encoder_decoder and hasattr(model, "get_encoder"):
        model = model.get_encoder()
    refuse_not_finite(model, what)
    return model.eval()


def _float32_bytes(file: Path) -> int:
    """The least memory that the weights of a file take in float32.

    A safetensors file begins with the length of a JSON header and the header, which has the shapes.
    """
    if file.suffix == GGUF:
        from gguf import GGUFReader

        return sum(4 * int(tensor.n_elements) for tensor in GGUFReader(file).tensors)
    with file.open("rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
    return sum(4 * prod(part["shape"]) for part in header.values() if "shape" in part)


def _loader(config: Any, head: str | None) -> Any:
    import transformers

    if head is not None:
        return getattr(transformers, head)
    if config.is_encoder_decoder:
        encoders = transformers.AutoModelForTextEncoding
        if type(config) in encoders._model_mapping:
            return encoders
    return transformers.AutoModel


def _takes_pooling(loader: Any, config: Any) -> bool:
    """Whether the model can be had without the pooling layer that no hidden state passes."""
    made = loader._model_mapping[type(config)]
    return all(
        "add_pooling_layer" in inspect.signature(model).parameters
        for model in (made if isinstance(made, tuple) else (made,))
    )


def refuse_not_finite(model: torch.nn.Module, what: str) -> None:
    """Raises UserError, beginning with ``what``, that names a tensor with NaN or infinity."""
    import torch

    for name, tensor in model.named_parameters():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            kind = "NaN" if bool(tensor.isnan().any()) else "infinity"
            raise UserError(
                f"{what}: the weight {name} holds {kind}; save or train the model again"
            )
