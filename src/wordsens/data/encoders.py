"""Pretrained models as the library sees them: word pieces, and hidden states up to one layer.

An encoder here is whatever transformers loads from a local folder or a GGUF file: an encoder, the
encoder of a pair, or a decoder with its causal mask.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wordsens.data.folders import GGUF, check_encoder, check_unchanged, unreadable
from wordsens.data.hub import local
from wordsens.data.pieces import joined, shown, shown_in_text, style_of
from wordsens.errors import UserError

if TYPE_CHECKING:
    import torch

    from wordsens.data.blocks import Blocks

SURROGATE = re.compile("[\ud800-\udfff]")  # half of a pair, which no encoding of text holds
UNUSED = re.compile(r"^\[unused\d+\]$")
PROBES = 2000  # words on which a tokenizer is tried
UNLIMITED = 1 << 30  # positions of a model that has relative ones
# Models that count positions from the padding's index on, for the time before one is loaded.
FROM_PADDING = {"camembert", "longformer", "mpnet", "roberta", "roberta-prelayernorm"}
FROM_PADDING |= {"xlm-roberta", "xlm-roberta-xl", "xmod", "data2vec-text", "luke", "esm", "ibert"}
SIZES, POSITIONS = ("hidden_size", "num_hidden_layers"), "max_position_embeddings"


class Encoder:
    """A model's folder, opened; the model itself is loaded when it is first needed."""

    def __init__(self, folder: Path, config: dict[str, Any], key: str) -> None:
        self.folder = folder
        self.key = key
        self.hidden_size = int(config["hidden_size"])
        self.layers = int(config["num_hidden_layers"])
        places = config.get(POSITIONS) or 0
        self.max_tokens = int(places) if places > 0 else UNLIMITED
        if config.get("model_type") in FROM_PADDING:
            padding = config.get("pad_token_id")
            self.max_tokens -= (padding if isinstance(padding, int) else 1) + 1
        named = config.get("architectures") or []
        self.generates = folder.suffix == GGUF or any(map(_generates, named))
        self.classifies = any(map(_classifies, named))
        self._tokenizer: Any = None
        self._blocks: Blocks | None = None
        self._head: Any = None  # the whole model, where it has a head
        self._headed = False  # whether that has been looked for
        self._style = ""

    @classmethod
    def open(cls, folder: str | Path, key: str = "encoder") -> Encoder:
        """Read the config.json of a folder or the header of a GGUF file, or of owner/name@commit.

        Raises UserError, starting with ``key``, when the folder lacks a part, holds sizes that
        cannot be, or has weights other than those that ``fetch_encoder`` noted.
        """
        folder = local(folder, key)
        with unreadable(key):
            check_encoder(folder, key)
            if folder.suffix != GGUF:
                check_unchanged(folder)
            return cls(folder, _sizes(folder, key), key)

    @classmethod
    def described(cls, folder: str | Path, key: str = "encoder") -> Encoder | None:
        """As ``open``, by the config.json alone; None where there is none that can be read."""
        try:
            plain = (Path(folder) / "config.json").is_file()
            return cls(Path(folder), _sizes(Path(folder), key), key) if plain else None
        except (UserError, OSError):
            return None

    @classmethod
    def of(cls, model: Any, tokenizer: Any, key: str = "model") -> Encoder:
        """A model of transformers that is loaded already, with its tokenizer.

        The model is left as it is: what is measured shares its weights, in float32.  Of a model
        with a head, the model below it counts.  Raises UserError for NaN or infinity in a weight.
        """
        from wordsens.data.blocks import Blocks
        from wordsens.data.weights import refuse_not_finite

        if not hasattr(model, "config") or not callable(tokenizer):
            raise UserError(
                f"{key}: a {type(model).__name__} with a {type(tokenizer).__name__} is no model "
                "of transformers with its tokenizer; give both"
            )
        whole = _apart(model)
        refuse_not_finite(whole, key)
        body = getattr(whole, "base_model", whole)
        if getattr(body.config, "is_encoder_decoder", False):
            body = body.get_encoder()
        made = cls(Path(key), _known_sizes(body.config, key), key)
        made._tokenizer = tokenizer
        made._headed = True
        made._head = whole if head_of(whole.config, type(whole).__name__) else None
        made._blocks = Blocks(body, key)
        made._limit(made._blocks.model)
        return made

    @property
    def padding_id(self) -> int:
        """The token id that fills up short documents."""
        return int(self.tokenizer.pad_token_id or 0)

    def tokenize(self, texts: Sequence[str], special_tokens: bool = False) -> list[list[int]]:
        """The word-piece ids of each text, whole: never truncated, never padded.

        Raises UserError for what is no text, or holds a lone surrogate.
        """
        if not texts:
            return []
        for text in texts:
            if not isinstance(text, str):
                raise UserError(f"{self.key}: {text!r} is no text")
            if SURROGATE.search(text):
                raise UserError(f"{self.key}: {text[:40]!r} holds half a character; mend the text")
        try:
            encoded = self.tokenizer(
                list(texts),
                add_special_tokens=special_tokens,
                truncation=False,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
                verbose=False,
            )
        except Exception as error:  # tokenizers has no type of its own for what it cannot read
            reason = str(error).split("\n")[0]
            raise UserError(f"{self.key}: its tokenizer cannot read the text: {reason}") from None
        return [list(ids) for ids in encoded["input_ids"]]

    def embedding_layer(self) -> dict[str, torch.Tensor]:
        """What layer 0 is made of, all float32: vectors (vocabulary, d), and where there are any,

        places (max_tokens, d), the vector of each position with that of the first token type,
        scale and shift (d,) and eps (1,), by which layer 0 is LayerNorm(vectors + places).
        """
        from wordsens.data.embedding import normalised_sum

        blocks = self.blocks()
        parts = {"vectors": blocks.embedding.weight} | normalised_sum(blocks, self.max_tokens)
        return {name: part.detach().clone() for name, part in parts.items()}

    def word_pieces(self) -> tuple[list[str], list[int]]:
        """Every row of the vocabulary as its tokenizer writes it, and the rows that are no word.

        No words are special tokens, [unused…] pieces and rows beyond the tokenizer's vocabulary.
        """
        tokenizer = self.tokenizer
        rows = self.blocks().rows
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

        Layer 0 is what the first block receives and runs no block; layer l runs the first l blocks
        only.  ``token_ids`` and ``mask`` (true where there is a token, false on padding) are
        (batch, tokens).  Raises UserError for a layer that the encoder does not have or more tokens
        than it has positions.
        """
        import torch

        if not 0 <= layer <= self.layers:
            raise UserError(f"{self.key}: has layers 0 to {self.layers}, not {layer}")
        blocks = self.blocks()
        self.check_ids(token_ids)
        blocks.model.to(device)
        with torch.inference_mode():
            states = blocks.states(token_ids.to(device), mask.to(device), layer)
        return states.clone()

    def check_ids(self, token_ids: torch.Tensor) -> None:
        """Raises UserError for more tokens than there are positions and for ids of no word."""
        n, rows = token_ids.shape[-1], self.blocks().rows
        if n > self.max_tokens:
            raise UserError(f"{self.key}: has positions for {self.max_tokens} tokens, not {n}")
        outside = token_ids[(token_ids < 0) | (token_ids >= rows)]
        if len(outside):
            raise UserError(
                f"{self.key}: the token id {int(outside[0])} is in no vocabulary of {rows} words; "
                f"allowed: 0 to {rows - 1} (do tokenizer and model belong together?)"
            )

    def pieces(self, ids: Sequence[int], in_text: bool = True) -> list[str]:
        """How each token id is shown: bytes decoded, and ## before what continues a word.

        Without ``in_text`` the ids do not follow each other, as in a list of words.
        """
        written = self.tokenizer.convert_ids_to_tokens([int(i) for i in ids])
        return (shown_in_text if in_text else shown)(written, self._written())

    def text(self, ids: Sequence[int]) -> str:
        """Token ids as running text."""
        return joined(self.tokenizer.convert_ids_to_tokens([int(i) for i in ids]), self._written())

    def special_tokens(self) -> tuple[list[int], list[int]]:
        """The ids that the encoder's tokenizer puts before and after a text."""
        if not self.tokenize([""], special_tokens=True)[0]:
            return [], []
        for text in self._probes():
            plain, whole = self.tokenize([text])[0], self.tokenize([text], special_tokens=True)[0]
            for before in range(len(whole) - len(plain) + 1 if plain else 0):
                if whole[before : before + len(plain)] == plain:
                    return whole[:before], whole[before + len(plain) :]
        raise UserError(
            f"{self.key}: where its tokenizer puts special tokens around a text cannot be told; "
            "leave them out with special_tokens=False, or mend tokenizer.json"
        )

    def _probes(self) -> Iterator[str]:
        """Short texts; a tokenizer may drop letters of other scripts than its own."""
        yield "a"
        special = set(self.tokenizer.all_special_ids)
        for number in range(min(len(self.tokenizer), PROBES)):
            if number not in special:
                yield self.tokenizer.decode([number])

    def blocks(self) -> Blocks:
        """The model, eager and in float32, and its layers one by one.

        It is shared with ``hidden_states``: copy the model before changing a weight.
        """
        if self._blocks is None:
            from wordsens.data.blocks import Blocks
            from wordsens.data.weights import load_model

            model = load_model(self.folder, self.key)
            self._blocks = Blocks(model, self.key)
            self._limit(model)
        return self._blocks

    def head(self) -> Any:
        """The whole model with its head, class logits or the next token; None without one.

        Its lower part is that of ``blocks``.
        """
        if not self._headed:
            from wordsens.data.blocks import Blocks
            from wordsens.data.weights import load_model, read_config, source_of

            self._headed = True
            named = head_of(read_config(self.folder, self.key))
            if named is None and "gguf_file" in source_of(self.folder)[1]:
                named = "AutoModelForCausalLM"
            if named is not None:
                self._head = load_model(self.folder, self.key, named)
                self._blocks = Blocks(self._head.base_model, self.key)
                self._limit(self._head)
        return self._head

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of transformers."""
        if self._tokenizer is None:
            from wordsens.data.weights import read_tokenizer

            self._tokenizer = read_tokenizer(self.folder, self.key)
        return self._tokenizer

    def _written(self) -> str:
        if not self._style:
            self._style = style_of(self.tokenizer.get_vocab())
        return self._style

    def _limit(self, model: Any) -> None:
        """The sizes as the model itself has them."""
        import torch

        assert self._blocks is not None
        self.layers, self.hidden_size = self._blocks.depth, self._blocks.size
        for name, module in model.named_modules():
            if not isinstance(module, torch.nn.Embedding) or "position" not in name:
                continue
            if module.padding_idx is not None:
                places = module.num_embeddings - module.padding_idx - 1
                self.max_tokens = min(self.max_tokens, places)


def head_of(config: Any, name: str | None = None) -> str | None:
    """The class of transformers that loads the head which a configuration, or a class, names."""
    if config.is_encoder_decoder:
        return None
    for named in [name] if name else config.architectures or []:
        if _classifies(named):
            if config.num_labels < 2:  # a regression has no verdict
                return None
            return "AutoModelForSequenceClassification"
        if _generates(named):
            return "AutoModelForCausalLM"
    return None


def _classifies(named: str) -> bool:
    return named.endswith("ForSequenceClassification")


def _generates(named: str) -> bool:
    return named.endswith(("ForCausalLM", "LMHeadModel"))


def _sizes(folder: Path, key: str) -> dict[str, Any]:
    """The sizes that a model's configuration states; imports transformers only where it must."""
    file = folder / "config.json"
    if folder.suffix != GGUF and file.is_file():
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{key}: {file} is no JSON: {error}") from None
        if not isinstance(config, dict):
            raise UserError(f"{key}: {file} holds a {type(config).__name__} and no object")
        for name in (*SIZES, POSITIONS):
            value = config.get(name)
            if name in config and not (type(value) is int and value >= 1):
                raise UserError(
                    f"{key}: {file}: {name} is {value!r}; allowed: a whole number of 1 or more"
                )
        if all(name in config for name in (*SIZES, POSITIONS, "model_type")):
            return config
    from wordsens.data.weights import read_config

    return _known_sizes(read_config(folder, key), key)


def _known_sizes(config: Any, key: str) -> dict[str, Any]:
    """The sizes by their common names, which a configuration of transformers knows."""
    config = config.get_text_config()
    found: dict[str, Any] = {"model_type": config.model_type}
    for name in (*SIZES, POSITIONS, "pad_token_id", "architectures"):
        value = getattr(config, name, None)
        if name in SIZES and not (isinstance(value, int) and value >= 1):
            raise UserError(f"{key}: the configuration's {name} is {value!r}; allowed: 1 or more")
        found[name] = value
    return found


def _apart(model: Any) -> Any:
    """A copy of a model that shares its weights, in float32 and eval mode."""
    import torch

    shared = {
        id(weight): torch.nn.Parameter(weight.detach(), requires_grad=False)
        for weight in model.parameters()
    }
    return copy.deepcopy(model, shared).float().eval()
