"""What any word of the vocabulary does in a word's place, to a layer of a trained encoder.

    ‖H_l(X with x_i → e_v) − H_l(X)‖ / ‖H_l(X)‖

Every change that is returned is exact: the encoder has run on the changed text.  Exhaustively that
is one run per word.  Else the gradient says which words to run: at a word u already tried, F =
‖H_l − H_l(X)‖² grows to first order by ⟨∇F(e_u), e_v − e_u⟩ (as in HotFlip, Ebrahimi et al., ACL
2018), the most promising words are run, and the best of them is the next u.  At the text's own word
F has no gradient, so that the first words are chosen at random.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from wordsens.arguments import real_tensor
from wordsens.arguments import token_ids as checked_ids
from wordsens.encoders.layered import LayeredEncoder
from wordsens.errors import UserError, whole_number
from wordsens.randomness import Stream
from wordsens.search.vocabulary import OWN, Substitutions

WORKING_BYTES = 1 << 28  # what a batch of changed texts may take, roughly


def word_changes(
    model: LayeredEncoder,
    token_ids: torch.Tensor,
    position: int,
    *,
    layer: int = 1,
    candidates: Sequence[int] | torch.Tensor | None = None,
    shortlist: int | None = None,
    rounds: int = 5,
    top: int = 10,
    stream: Stream | None = None,
) -> Substitutions:
    """The ``top`` words v by the change of H_layer when token ``position`` of a text becomes v.

    ``token_ids`` (n,) is the text; ``candidates`` are token ids, by default all that are words.
    Without ``shortlist`` all of them run; with it so many at random (from ``stream``) and then,
    ``rounds`` times, so many by gradient, and what is found is a lower bound on what all give.
    ``distance`` is ‖e_v − x_i‖/‖x_i‖; the text's own word is not listed.  Raises UserError for a
    position, a layer or candidates that do not exist.
    """
    pieces, special = model.encoder.word_pieces()
    token_ids = checked_ids("token_ids", token_ids, len(pieces))
    layer = whole_number("layer", layer, None)
    n, position = len(token_ids), whole_number("position", position, None)
    if not 0 <= position < n:
        raise UserError(
            f"position {position} is not in a text of {n} tokens; allowed: 0 to {n - 1}"
        )
    if not 0 <= whole_number("layer", layer, None) <= model.depth:
        raise UserError(f"{model.encoder.key}: has layers 0 to {model.depth}, not {layer}")
    for name, value in {"shortlist": shortlist, "rounds": rounds, "top": top}.items():
        if value is not None:
            whole_number(name, value)
    if candidates is None:
        words = torch.tensor(sorted(set(range(len(pieces))) - set(special)))
    else:
        words = real_tensor("candidates", candidates).long().unique()
    if not len(words) or words[0] < 0 or words[-1] >= len(pieces):
        raise UserError(f"candidates must be token ids from 0 to {len(pieces) - 1}, at least one")
    words = words[words != int(token_ids[position])]  # no word is its own substitute
    if not len(words):
        none = torch.empty(0)
        return Substitutions(none, words, words, none)
    text = _Text(model, token_ids, position, layer)
    if shortlist is None or shortlist >= len(words):
        tried, changes = words, text.changes(words)
    else:
        shuffled = (stream or Stream(0, "words")).generator().permutation(len(words))
        tried, changes = _by_gradient(text, words, torch.from_numpy(shuffled[:shortlist]), rounds)
    apart = text.distances(tried)
    changes = torch.where(apart > OWN, changes, -1.0)  # another row may hold the same vector
    order = changes.argsort(descending=True, stable=True)[:top]
    order = order[changes[order] >= 0]
    best = tried[order]
    return Substitutions(changes[order], torch.full_like(best, position), best, apart[order])


def _by_gradient(
    text: _Text, words: torch.Tensor, first: torch.Tensor, rounds: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The words that were run, and the change each made."""
    vectors = text.vectors(words)
    changes = torch.full((len(words),), -1.0)  # of the words not run
    expanded = torch.zeros(len(words), dtype=torch.bool)
    changes[first] = text.changes(words[first])
    for _ in range(rounds):
        best = int(torch.where(expanded, -1, changes).argmax())
        expanded[best] = True
        gradient = text.gradient(words[best])
        promise = ((vectors - vectors[best]) @ gradient).cpu()
        promise = promise.masked_fill(changes >= 0, -torch.inf)
        chosen = promise.topk(min(len(first), int((changes < 0).sum()))).indices
        if not len(chosen):
            break
        changes[chosen] = text.changes(words[chosen])
    run = changes >= 0
    return words[run], changes[run]


class _Text:
    """A text in which one token is replaced, seen through the first blocks of an encoder."""

    def __init__(
        self, model: LayeredEncoder, token_ids: torch.Tensor, position: int, layer: int
    ) -> None:
        self.model, self.position, self.layer = model, position, layer
        self.ids = token_ids.to(model.device).long()
        with torch.no_grad():
            embedded = model.embed(self.ids[None])
            self.own = embedded[0, position]
            self.before = self._states(embedded, self.ids[None])
        n, d = self.before.shape[1:]
        heads = model.model.config.num_attention_heads
        self.at_once = max(1, WORKING_BYTES // (4 * (16 * n * d + 3 * heads * n * n)))

    def changes(self, words: torch.Tensor) -> torch.Tensor:
        """‖H − H(X)‖ / ‖H(X)‖ for each word, (len(words),) on the CPU."""
        size = self.before.norm()
        found = []
        with torch.no_grad():
            for part in words.split(self.at_once):
                gap = self._states(*self._embedded(part)) - self.before
                found.append(gap.flatten(1).norm(dim=1) / size)
        return torch.cat(found).cpu()

    def vectors(self, words: torch.Tensor) -> torch.Tensor:
        """What stands at the position when it holds each of the words, (len(words), d)."""
        parts = [self._embedded(part)[0][:, self.position] for part in words.split(self.at_once)]
        return torch.cat(parts)

    def distances(self, words: torch.Tensor) -> torch.Tensor:
        """‖e_v − x_i‖/‖x_i‖ of each word, (len(words),) on the CPU."""
        parts = [
            (self._embedded(part)[0][:, self.position] - self.own).norm(dim=-1)
            for part in words.split(self.at_once)
        ]
        return (torch.cat(parts) / self.own.norm()).cpu()

    def gradient(self, word: torch.Tensor) -> torch.Tensor:
        """∇‖H − H(X)‖² in the position's vector, where it is the word's, (d,)."""
        embedded, ids = self._embedded(word[None])
        embedded = embedded.clone().requires_grad_()
        square = ((self._states(embedded, ids) - self.before) ** 2).sum()
        (gradient,) = torch.autograd.grad(square, embedded)
        return gradient[0, self.position]

    def _embedded(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The changed texts, embedded, and their token ids."""
        changed = self.ids.repeat(len(words), 1)
        changed[:, self.position] = words.to(changed)
        return self.model.embed(changed), changed

    def _states(self, embedded: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        layers = self.model.layers(embedded, ids)
        states = next(layers)
        for _ in range(self.layer):
            states = next(layers)
        return states
