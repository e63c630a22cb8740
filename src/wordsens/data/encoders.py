"""Pretrained BERT-style encoders: word pieces, and hidden states up to one layer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.data.assets import check_encoder, check_unchanged
from wordsens.errors import UserError

if TYPE_CHECKING:
    import torch

# Model types with `embeddings` (words and positions) and blocks in `encoder.layer`.
FAMILY = ("bert", "camembert", "roberta", "xlm-roberta")
UNUSED = re.compile(r"^\[unused\d+\]$")


class Encoder:
    """An encoder's folder, opened; the model itself is loaded when it is first needed."""

    def __init__(self, folder: Path, config: dict[str, Any], key: str) -> None:
        self.folder = folder
        self.key = key
        self.hidden_size = int(config["hidden_size"])
        self.layers = int(config["num_hidden_layers"])
        offset = 0
        if config["model_type"] != "bert":
            # RoBERTa counts positions from the padding index on.
            offset = int(config.get("pad_token_id", 1)) + 1
        self.max_tokens = int(config["max_position_embeddings"]) - offset
        self._first_position = offset
        self._tokenizer: Any = None
        self._model: Any = None
        self._depth = -1

    @classmethod
    def open(cls, folder: str | Path, key: str = "encoder") -> Encoder:
        """Read an encoder's config.json.

        Raises UserError, starting with ``key``, when the folder lacks a part, holds another kind of
        model, or has weights other than those that ``fetch_encoder`` noted.
        """
        folder = Path(folder)
        check_encoder(folder, key)
        check_unchanged(folder)
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            if config.get("model_type") not in FAMILY:
                raise UserError(
                    f"{key}: {folder}/config.json says model_type {config.get('model_type')!r}; "
                    f"allowed: {', '.join(FAMILY)}"
                )
            return cls(folder, config, key)
        except (ValueError, KeyError, AttributeError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"{key}: {folder}/config.json cannot be used: {error!r}") from None

    @property
    def padding_id(self) -> int:
        """The token id that fills up short documents."""
        return int(self._load_tokenizer().pad_token_id or 0)

    def tokenize(self, texts: Sequence[str], special_tokens: bool = False) -> list[list[int]]:
        """The word-piece ids of each text, whole: never truncated, never padded."""
        if not texts:
            return []
        encoded = self._load_tokenizer()(
            list(texts),
            add_special_tokens=special_tokens,
            truncation=False,
            padding=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        return [list(ids) for ids in encoded["input_ids"]]

    def embedding_layer(self) -> dict[str, torch.Tensor]:
        """What layer 0 is made of: LayerNorm(words + places), all float32.

        words (vocabulary, hidden size); places (max_tokens, hidden size), the vector of each
        position with that of the first token type; scale and shift (hidden size,); eps (1,).
        """
        import torch

        layer = self._load(max(self._depth, 0)).embeddings
        places = layer.position_embeddings.weight[self._first_position :][: self.max_tokens]
        parts = {
            "words": layer.word_embeddings.weight,
            "places": places + layer.token_type_embeddings.weight[0],
            "scale": layer.LayerNorm.weight,
            "shift": layer.LayerNorm.bias,
            "eps": torch.tensor([layer.LayerNorm.eps]),
        }
        return {name: part.detach().clone() for name, part in parts.items()}

    def words(self) -> tuple[list[str], list[int]]:
        """Every row of the vocabulary as its word piece, and the rows that are no word.

        No words are special tokens, [unused…] pieces and rows beyond the tokenizer's vocabulary.
        """
        tokenizer = self._load_tokenizer()
        rows = len(self._load(max(self._depth, 0)).embeddings.word_embeddings.weight)
        known = min(len(tokenizer), rows)
        pieces = tokenizer.convert_ids_to_tokens(list(range(known)))
        pieces = [piece if piece is not None else "" for piece in pieces]
        special = {i for i in tokenizer.all_special_ids if i < rows} | set(range(known, rows))
        special |= {i for i, piece in enumerate(pieces) if not piece or UNUSED.match(piece)}
        return [*pieces, *[""] * (rows - known)], sorted(special)

    def hidden_states(
        self, token_ids: torch.Tensor, mask: torch.Tensor, layer: int, device: str = "cpu"
    ) -> torch.Tensor:
        """Hidden states (batch, tokens, hidden size) after ``layer`` blocks, float32.

        Layer 0 is the output of the embedding layer and runs no block; layer l loads and runs the
        first l blocks only.  ``token_ids`` and ``mask`` (true where there is a token, false on
        padding) are (batch, tokens).  Raises UserError for a layer that the encoder does not have
        or more tokens than it has positions.
        """
        import torch

        if not 0 <= layer <= self.layers:
            raise UserError(f"{self.key}: has layers 0 to {self.layers}, not {layer}")
        if token_ids.shape[-1] > self.max_tokens:
            raise UserError(
                f"{self.key}: has positions for {self.max_tokens} tokens, not {token_ids.shape[-1]}"
            )
        model = self._load(layer).to(device)
        token_ids = token_ids.to(device)
        with torch.inference_mode():
            if layer == 0:
                states = model.embeddings(input_ids=token_ids)
            else:
                found = model(input_ids=token_ids, attention_mask=mask.to(device).long())
                states = found.last_hidden_state
        return states.clone()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """How each token id is written, without the tokenizer's marks of spaces and joints."""
        written = self._load_tokenizer().convert_ids_to_tokens(list(ids))
        return [piece.removeprefix("##").strip("▁Ġ") or piece for piece in written]

    def special_tokens(self) -> tuple[list[int], list[int]]:
        """The ids that the encoder's tokenizer puts before and after a text."""
        plain, whole = self.tokenize(["a"])[0], self.tokenize(["a"], special_tokens=True)[0]
        for before in range(len(whole) - len(plain) + 1):
            if whole[before : before + len(plain)] == plain:
                return whole[:before], whole[before + len(plain) :]
        return [], []

    def model(self, layers: int | None = None) -> Any:
        """The transformers model with its first ``layers`` blocks (all): eager, float32.

        It is shared with ``hidden_states``: copy it before changing a weight.
        """
        return self._load(self.layers if layers is None else layers)

    def _load(self, layers: int) -> Any:
        """The model with its first ``layers`` blocks only."""
        if self._model is not None and self._depth == layers:
            return self._model
        import torch
        from transformers import AutoConfig, AutoModel
        from transformers.utils import logging

        # The blocks left out are reported as unexpected weights, at length.
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        options = {"local_files_only": True, "trust_remote_code": False}
        with self._readable("weights"):
            config = AutoConfig.from_pretrained(self.folder, **options)
            config.num_hidden_layers = layers
            self._model = AutoModel.from_pretrained(
                self.folder,
                config=config,
                use_safetensors=True,
                add_pooling_layer=False,
                dtype=torch.float32,
                attn_implementation="eager",
                **options,
            ).eval()
        self._depth = layers
        return self._model

    def _load_tokenizer(self) -> Any:
        if self._tokenizer is None:
            from transformers import AutoTokenizer

            with self._readable("tokenizer"):
                self._tokenizer = AutoTokenizer.from_pretrained(
                    self.folder, local_files_only=True, trust_remote_code=False
                )
        return self._tokenizer

    @contextmanager
    def _readable(self, part: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # transformers, tokenizers and safetensors each raise their own
            reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
            raise UserError(
                f"{self.key}: {self.folder}: the {part} cannot be loaded ({reason}); save the "
                "model again with save_pretrained, or delete the folder if snakemake made it"
            ) from None
