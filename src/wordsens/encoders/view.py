"""A trained encoder as a one-token view: hidden states as a function of the changed words.

A *set* of the view is one set of changed positions together with one layer l, and
F(v) = ‖H_l(X^I(v − x_I)) − H_l(X)‖².  Tokens of a trained encoder have lengths of their own; the
view counts each in units of ‖x_i‖/√d, in which every token has length √d and ‖Δ‖ ≤ √d means, as in
equation (4), that a word moves by at most its own length.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice

import torch

from wordsens.encoders.attraction import attracting_directions
from wordsens.encoders.layered import LayeredEncoder
from wordsens.memory import batch_bytes, require
from wordsens.perturbation import OneTokenView, Pullback

CHUNK_BYTES = 1 << 30  # activations of the candidates that run together, roughly
FEW = 8  # candidates that should fit with all activations kept


class EncoderView(OneTokenView):
    """H_l(X^I(·)) for T samples of one length, at every pair of a set of positions and a layer.

    ``token_ids`` (T, n); ``positions`` (P, m) rows of X; ``layers`` the layers l.  The view's sets
    are the pairs, positions outermost.
    """

    def __init__(
        self,
        model: LayeredEncoder,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        layers: list[int],
    ) -> None:
        self.model = model
        self.token_ids = token_ids.to(model.device)
        self.embedded = model.embed(token_ids)  # (T, n, d)
        d = self.embedded.shape[-1]
        self._refuse_what_does_not_fit(*token_ids.shape)
        device = self.embedded.device
        self.rows = positions.to(device).repeat_interleave(len(layers), 0)
        self.targets = torch.tensor(layers, device=device).repeat(len(positions))
        words = self.embedded[:, self.rows]
        self.unit = torch.linalg.vector_norm(words, dim=-1, keepdim=True) / d**0.5
        self.tokens = words / self.unit
        with torch.no_grad():
            self.base = torch.stack(
                list(model.layers(self.embedded, self.token_ids))
            )  # (L+1, T, n, d)
        self.norms = torch.linalg.vector_norm(self.base.flatten(2), dim=-1)  # (L+1, T)
        self.norm = self.norms[self.targets].T

    def select(self, positions: slice) -> EncoderView:
        chosen = copy.copy(self)
        chosen.rows, chosen.targets = self.rows[positions], self.targets[positions]
        chosen.unit, chosen.tokens = self.unit[:, positions], self.tokens[:, positions]
        chosen.norm = self.norm[:, positions]
        return chosen

    def at_layer(self, layer: int) -> EncoderView:
        """The same positions, every one of them in ``layer``."""
        chosen = copy.copy(self)
        chosen.targets = torch.full_like(self.targets, layer)
        chosen.norm = self.norms[chosen.targets].T
        return chosen

    def trials(self, index: list[int]) -> EncoderView:
        chosen = copy.copy(self)
        chosen.token_ids, chosen.embedded = self.token_ids[index], self.embedded[index]
        chosen.unit, chosen.tokens = self.unit[index], self.tokens[index]
        chosen.base, chosen.norms = self.base[:, index], self.norms[:, index]
        chosen.norm = self.norm[index]
        return chosen

    def features(self, v: torch.Tensor) -> torch.Tensor:
        """H_l(X^I(v − x_I)), (T, P, S, n, d)."""
        T, P, S = v.shape[:3]
        found = v.new_empty(T * P * S, *self.base.shape[2:])
        with torch.no_grad():
            for chosen in self._chunks(v):
                for done, states, _ in self._run(v, chosen):
                    found[done] = states
        return found.reshape(T, P, S, *found.shape[1:])

    def value_and_grad(
        self, v: torch.Tensor, sharpness: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """F (T, P, S) and ∇F (T, P, S, m, d), in the view's units."""
        value = v.new_empty(v.shape[:3]).flatten()
        grad = torch.empty_like(v)
        for chosen in self._chunks(v):
            with torch.enable_grad():
                leaf = v.flatten(0, 2)[chosen].requires_grad_()
                total = leaf.new_zeros(())
                for done, states, base in self._run(v, chosen, leaf):
                    squared = (states - base).square().flatten(1).sum(1)
                    value[done] = squared.detach()
                    total = total + squared.sum()
                (slope,) = torch.autograd.grad(total, leaf)
            grad.view(-1, *v.shape[3:])[chosen] = slope
        return value.reshape(v.shape[:3]), grad

    def linear(self, v: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, Pullback]:
        """⟨H_l(X^I(v − x_I)), u_c⟩ for u (T, C, n, d), and the pullback of ∇_v."""
        T, P, S = v.shape[:3]
        every = torch.arange(T * P * S, device=v.device)
        every = every[torch.argsort(self._target(every, P, S), descending=True, stable=True)]
        with torch.enable_grad():
            leaf = v.flatten(0, 2)[every].requires_grad_()
            values = [
                (done, torch.einsum("bnd,bcnd->bc", states, u[done // (P * S)]))
                for done, states, _ in self._run(v, every, leaf)
            ]
        order = torch.cat([done for done, _ in values])
        stacked = torch.cat([part for _, part in values])
        found = v.new_empty(T * P * S, u.shape[1])
        found[order] = stacked.detach()

        def pullback(weights: torch.Tensor) -> torch.Tensor:
            (slope,) = torch.autograd.grad(
                stacked, leaf, weights.flatten(0, 2)[order], retain_graph=True
            )
            grad = torch.empty_like(v)
            grad.view(-1, *v.shape[3:])[every] = slope
            return grad

        return found.reshape(T, P, S, -1), pullback

    def relative_changes(self, v: torch.Tensor, last: int | None = None) -> torch.Tensor:
        """‖H_l(X^I(v − x_I)) − H_l(X)‖/‖H_l(X)‖ of every layer 0 … ``last`` (T, P, S, last + 1).

        Without ``last`` up to layer L.
        """
        T, P, S = v.shape[:3]
        depth = len(self.base) if last is None else last + 1
        found = v.new_empty(T * P * S, depth)
        with torch.no_grad():
            for chosen in self._chunks(v):
                trial = chosen // (P * S)
                moved = self._moved(v.flatten(0, 2)[chosen], chosen, P, S)
                every = self.model.layers(moved, self.token_ids[trial])
                for layer, states in enumerate(islice(every, depth)):
                    change = (states - self.base[layer, trial]).flatten(1)
                    norm = self.norms[layer, trial]
                    found[chosen, layer] = torch.linalg.vector_norm(change, dim=-1) / norm
        return found.reshape(T, P, S, -1)

    def directions(self) -> dict[str, torch.Tensor]:
        """Directions that attract the first block's attention, the stronger one first.

        {} where the first block's heads do not score what is moved.
        """
        if self.embedded.shape[-1] != self.base.shape[-1] or not self.model.attracts:
            return {}
        found = [attracting_directions(self.model, x) for x in self.embedded]
        shape = (*self.tokens.shape[:2], 1, *self.tokens.shape[2:])
        return {
            name: torch.stack([each[name] for each in found])[:, None, None, None].expand(shape)
            for name in ("queries", "singular")
        }

    def towards(self, words: torch.Tensor) -> torch.Tensor:
        """x' − x_I (T, P, S, m, d) to other words in the same places, given their token ids.

        A view of one layer; ``words`` are (T, P, S, m).
        """
        found = self.tokens.new_empty(*words.shape, self.tokens.shape[-1])
        for trial, at_sets in enumerate(words.to(self.token_ids.device)):
            for group, chosen in enumerate(at_sets):
                texts = self.token_ids[trial].repeat(len(chosen), 1)
                texts[:, self.rows[group]] = chosen
                moved = [self.model.embed(part) for part in texts.split(self._at_once())]
                found[trial, group] = torch.cat([x[:, self.rows[group]] for x in moved])
        return found / self.unit[:, :, None] - self.tokens[:, :, None]

    def moved_by(self, delta: torch.Tensor) -> torch.Tensor:
        """Δ (T, P, …, m, d) in the embedding's own units."""
        shape = (*self.unit.shape[:2], *[1] * (delta.ndim - 4), *self.unit.shape[2:])
        return delta * self.unit.reshape(shape)

    def _target(self, chosen: torch.Tensor, P: int, S: int) -> torch.Tensor:
        return self.targets[chosen // S % P]

    def _chunks(self, v: torch.Tensor) -> Iterator[torch.Tensor]:
        """Candidates that run together, deepest layers first, so that a chunk is of like depth."""
        T, P, S = v.shape[:3]
        every = torch.arange(T * P * S, device=v.device)
        order = torch.argsort(self._target(every, P, S), descending=True, stable=True)
        yield from every[order].split(self._at_once())

    def _at_once(self) -> int:
        blocks = 1 if self._recompute() else len(self.base) - 1
        size = blocks * self._block_floats() + self.base[:, 0].numel()
        return max(1, self.chunk // (4 * size))

    def _recompute(self) -> bool:
        """Whether blocks run again on the way back, as memory is too small for all of them."""
        return FEW * 4 * len(self.base) * self._block_floats() > self.chunk

    def _refuse_what_does_not_fit(self, texts: int, n: int) -> None:
        """One sample with its gradient, block by block, is the least that a search can do with."""
        layers = (texts + 2) * (self.model.depth + 1) * n * self.model.blocks.size
        require(
            4 * (layers + 2 * self._block_floats()),
            f"{self.model.encoder.key}: a search on {n} tokens",
            "take a shorter text, or cut it into windows",
            self.model.device,
        )
        self.chunk = batch_bytes(CHUNK_BYTES, self.model.device)

    def _block_floats(self) -> int:
        """Numbers that one block makes of one sample, roughly."""
        n, d = self.token_ids.shape[-1], self.model.blocks.size
        config = self.model.model.config
        inner = getattr(config, "intermediate_size", None) or 4 * d
        block = 4 * config.num_attention_heads * n * n
        return block + n * (12 * d + 4 * inner)

    def _moved(self, v: torch.Tensor, chosen: torch.Tensor, P: int, S: int) -> torch.Tensor:
        """The embeddings of candidates ``chosen``, their changed words put in; differentiable."""
        trial, group = chosen // (P * S), chosen // S % P
        rows = self.rows[group]
        words = v * self.unit[trial, group]
        index = rows[..., None].expand_as(words)
        return self.embedded[trial].scatter(1, index, words)

    def _run(
        self, v: torch.Tensor, chosen: torch.Tensor, leaf: torch.Tensor | None = None
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Candidates at their layer: indices, states, and the states of the unchanged samples.

        ``chosen`` is sorted by layer, deepest first; who is done leaves the batch.
        """
        P, S = v.shape[1:3]
        targets = self._target(chosen, P, S)
        words = v.flatten(0, 2)[chosen] if leaf is None else leaf
        moved = self._moved(words, chosen, P, S)
        ids = self.token_ids[chosen // (P * S)]
        steps = self.model.layers(moved, ids, recompute=self._recompute())
        states = next(steps)
        for layer in range(len(self.base)):
            left = int((targets > layer).sum())
            done = chosen[left:]
            if len(done):
                yield done, states[left:], self.base[layer, done // (P * S)]
            if not left:
                return
            chosen, targets = chosen[:left], targets[:left]
            states = steps.send(states[:left])
