"""Word sensitivity of every layer of a trained encoder, by gradient search in its embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch

from wordsens.arguments import token_ids
from wordsens.encoders.layer_search import search_each
from wordsens.encoders.layered import LayeredEncoder, Measurable, layered
from wordsens.encoders.view import EncoderView
from wordsens.errors import UserError, whole_number
from wordsens.randomness import Stream
from wordsens.search.sensitivity import Positions, chosen_sets
from wordsens.tidy import Tidy, several

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class LayerSensitivity(Tidy):
    """Word sensitivity of K layers of an encoder on T texts; for one text the axis T is absent.

    layers    the layers, (K,); layer 0 is the output of the embedding layer
    sup       the largest ‖H_l(X^I(Δ)) − H_l(X)‖/‖H_l(X)‖ found, (T, K), a lower bound on (4)
    position  the (first) changed word where it was found, (T, K)
    start     the start that led there, [T][K]
    steps     the steps that it took, (T, K)
    spread    (max − min)/max of ‖·‖ over the starts of the layer's own search there, at the end of
              their climb, or where they met; where one is left, of it and of the second when that
              was given up, (T, K)
    norm      ‖H_l(X)‖, (T, K)
    delta     the Δ, (T, K, m, d)
    by_position   sup of every set of positions, (T, P, K)
    about     encoder, weights and n, as in a workflow's tables
    """

    layers: torch.Tensor
    sup: torch.Tensor
    position: torch.Tensor
    start: list[list[str]] | list[str]
    steps: torch.Tensor
    spread: torch.Tensor
    norm: torch.Tensor
    delta: torch.Tensor
    by_position: torch.Tensor
    about: Mapping[str, Any] = field(default_factory=dict)

    def summary(self) -> str:
        texts = f"{len(self.sup)} texts, " if self.sup.ndim == 2 else ""
        last = several(self.sup[..., -1])
        return f"{texts}{len(self.layers)} layers, sup {last} in layer {int(self.layers[-1])}"

    def to_dataframe(self) -> pd.DataFrame:
        """One row per text and layer."""
        import pandas as pd

        count = len(self.layers)
        columns: dict[str, Any] = {"layer": self.layers.tolist()}
        texts = self.sup.reshape(-1, count).shape[0]
        columns["layer"] = columns["layer"] * texts
        columns["trial"] = [text for text in range(texts) for _ in range(count)]
        for name in ("sup", "norm", "spread", "position", "steps"):
            columns[name] = getattr(self, name).reshape(-1).tolist()
        rows = self.start if isinstance(self.start[0], list) else [self.start]
        columns["start"] = [name for row in rows for name in row]
        return pd.DataFrame({"study": "", "dataset": "", **self.about, **columns})


def layer_sensitivity(
    encoder: Measurable,
    text: str | Sequence[int] | torch.Tensor,
    *,
    tokenizer: Any = None,
    layers: str | int | Sequence[int] = "all",
    positions: Positions = "first",
    words: int = 1,
    weights: str = "pretrained",
    perturb: str = "layer0",
    special_tokens: bool = True,
    seed: int = 0,
    starts: int = 4,
    steps: int = 60,
    device: str = "cpu",
) -> LayerSensitivity:
    """The supremum (4) of every layer H_l of an encoder or a decoder, searched by its gradient.

    ``encoder`` is a folder in transformers format, a GGUF file, an ``Encoder``, or a loaded model
    of transformers with its ``tokenizer``.  X is what the first block receives and the word moves
    there, x_i + Δ with ‖Δ‖ ≤ ‖x_i‖, as equation (4) has it; with ``perturb="word_vector"`` it moves
    before positions are added and normalised away, in the static word vector that ``inputs_embeds``
    takes.  The search is by momentum on the sphere ‖Δ‖ = ‖x_i‖, for every position.  That of
    layer l begins with what moved layer ⌈l/2⌉ far, and with other words of the vocabulary; that
    of the first block with attracting directions and random ones.  Where all starts of a layer and
    of those below come to one place, few ``steps`` settle the maximum.  One start (``starts=1``)
    climbs in every layer alone.  What is found for one layer is tried on all others.

    ``text`` is a text, the token ids (n,) of one, or of T texts of one length (T, n), without
    special tokens; these are put around it unless ``special_tokens`` is False, and ``positions``
    (as in ``word_sensitivity``) count the text's own tokens from 0.  Texts are never padded.
    ``weights="random"`` draws the encoder's weights anew by ``seed``.  In a decoder a changed word
    reaches only what comes after it, so that its sup falls towards the end of the text.

    Raises UserError for a folder that holds no such encoder, a text longer than its positions, a
    layer or a position that is not there.
    """
    drawn = Stream(whole_number("seed", seed, None), "weights")
    model = layered(
        encoder, tokenizer, weights=weights, stream=drawn, perturb=perturb, device=device
    )
    ids = _token_ids(model, text)
    sets = chosen_sets(positions, words, ids.shape[-1], Stream(seed, "positions"))
    streams = [Stream(seed, "search", trial=t) for t in range(len(ids) if ids.ndim == 2 else 1)]
    found = search_layers(
        model,
        ids if ids.ndim == 2 else ids[None],
        sets,
        chosen_layers(layers, model.depth),
        streams,
        starts=starts,
        steps=steps,
        special_tokens=special_tokens,
    )
    special = sum(map(len, model.encoder.special_tokens())) if special_tokens else 0
    name = model.encoder.folder.name if model.encoder.folder else "model"
    about = {"encoder": name, "weights": model.weights, "n": ids.shape[-1] + special}
    return replace(found if ids.ndim == 2 else _first(found), about=about)


def search_layers(
    model: LayeredEncoder,
    ids: torch.Tensor,
    sets: torch.Tensor,
    layers: list[int],
    streams: Sequence[Stream],
    *,
    starts: int,
    steps: int,
    special_tokens: bool = True,
) -> LayerSensitivity:
    """As ``layer_sensitivity``, with everything chosen: T texts (T, n), sets (P, m), T streams."""
    starts, steps = whole_number("starts", starts), whole_number("steps", steps)
    before, after = model.encoder.special_tokens() if special_tokens else ([], [])
    ends = [torch.tensor(part, dtype=torch.long).expand(len(ids), -1) for part in (before, after)]
    whole = torch.cat([ends[0], ids.long().cpu(), ends[1]], 1)
    # Layer 0 is the moved embedding itself, and its change is ‖Δ‖ in every direction.
    trivial = 0 if model.perturb == "layer0" else -1
    searched = [layer for layer in layers if layer > trivial] or [0]
    view = EncoderView(model, whole, sets + len(before), searched)
    found, names = search_each(view, searched, sets, streams, starts=starts, steps=steps)

    # Every Δ found is tried on every layer: the best of a layer may come from another's search.
    T, P, K = len(ids), len(sets), len(searched)
    moved = (view.tokens + found.delta)[:, :, None]
    every = view.relative_changes(moved)[:, :, 0].reshape(T, P, K, -1)[..., layers]
    by_position, source = every.max(2)  # (T, P, layers)
    sup, best = by_position.max(1)
    at = source.gather(1, best[:, None])[:, 0]
    group = best * K + at
    finals = found.finals.sqrt()
    own = torch.tensor([searched.index(x) if x in searched else 0 for x in layers])
    spreads = (finals.amax(-1) - finals.amin(-1)) / finals.amax(-1).clamp_min(1e-30)
    start, trial = found.start, torch.arange(T, device=group.device)[:, None]
    return LayerSensitivity(
        layers=torch.tensor(layers),
        sup=sup.cpu(),
        position=sets[best.cpu(), 0],
        start=[[names[i] for i in row] for row in start[trial, group].tolist()],
        steps=found.steps[trial, group].cpu(),
        spread=spreads[trial, best * K + own.to(group.device)].cpu(),
        norm=view.norms[layers].T.cpu(),
        delta=view.moved_by(found.delta)[trial, group].cpu(),
        by_position=by_position.cpu(),
    )


def chosen_layers(layers: str | int | Sequence[int], depth: int) -> list[int]:
    """The layers that "all", a number or a list names, checked against the encoder's depth."""
    if isinstance(layers, str) and layers == "all":
        return list(range(depth + 1))
    listed: Any = layers.tolist() if hasattr(layers, "tolist") else layers
    listed = [listed] if isinstance(listed, Integral) else listed
    known = not isinstance(listed, str) and isinstance(listed, Iterable)
    numbers = [whole_number("layer", layer, None) for layer in listed] if known else []
    if not numbers or not all(0 <= layer <= depth for layer in numbers):
        raise UserError(
            f"layers {layers!r}: the encoder has layers 0 to {depth}; choose all or a list"
        )
    return sorted(set(numbers))


def _token_ids(model: LayeredEncoder, text: str | Sequence[int] | torch.Tensor) -> torch.Tensor:
    if isinstance(text, str):
        text = model.encoder.tokenize([text])[0]
    elif not hasattr(text, "shape") and any(isinstance(part, str) for part in text or ()):
        raise UserError("text is a list of texts; give one text, or token ids (T, n) of one length")
    return token_ids("text", text, model.model.get_input_embeddings().num_embeddings)


def _first(found: LayerSensitivity) -> LayerSensitivity:
    """The result for the only text, without the axis of texts."""
    alone = {name: x[0] for name, x in vars(found).items() if name not in ("layers", "about")}
    return LayerSensitivity(layers=found.layers, **alone)
