"""A model's output as a one-token view, to search the ball of (4) for what changes it most."""

from __future__ import annotations

import torch

from wordsens.encoders.layered import LayeredEncoder
from wordsens.encoders.outputs import Head, in_parts
from wordsens.perturbation import OneTokenView, Pullback


class OutputView(OneTokenView):
    """φ(X^i(·)) of one text (n,) at P positions; words count in units of ‖x_i‖/√d.

    ``model`` says where a word is moved, and embeds; ``positions`` (P,) are rows of the text.
    """

    def __init__(
        self, head: Head, model: LayeredEncoder, token_ids: torch.Tensor, positions: torch.Tensor
    ) -> None:
        self.head, self.moves_states = head, model.perturb == "layer0"
        self.ids = token_ids.to(model.device)[None]
        self.embedded = model.embed(self.ids)  # (1, n, d)
        self.rows = positions.to(model.device)
        words = self.embedded[:, self.rows, None]  # (1, P, 1, d)
        self.unit = torch.linalg.vector_norm(words, dim=-1, keepdim=True) / words.shape[-1] ** 0.5
        self.tokens = words / self.unit
        with torch.no_grad():
            self.base = self._outputs(self.embedded)[0]
        self.norm = torch.linalg.vector_norm(self.base).expand(1, len(positions))

    def features(self, v: torch.Tensor) -> torch.Tensor:
        """φ(X^i(v − x_i)), (1, P, S, C)."""
        flat, _, P, S = v.flatten(0, 2), *v.shape[:3]
        with torch.no_grad():
            parts = [self._moved(flat[part], part, S) for part in self._parts(len(flat))]
        return torch.cat(parts).reshape(1, P, S, -1)

    def value_and_grad(
        self, v: torch.Tensor, sharpness: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """F (1, P, S) and ∇F (1, P, S, 1, d), in the view's units."""
        flat, S = v.flatten(0, 2), v.shape[2]
        values, slopes = [], []
        for part in self._parts(len(flat)):
            with torch.enable_grad():
                leaf = flat[part].detach().requires_grad_()
                value = (self._moved(leaf, part, S) - self.base).square().sum(1)
                (slope,) = torch.autograd.grad(value.sum(), leaf)
            values.append(value.detach())
            slopes.append(slope)
        return torch.cat(values).reshape(v.shape[:3]), torch.cat(slopes).reshape(v.shape)

    def linear(self, v: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, Pullback]:
        """⟨φ(X^i(v − x_i)), u_c⟩ for u (1, C, outputs), and the pullback of ∇_v."""
        with torch.enable_grad():
            leaf = v.flatten(0, 2).detach().requires_grad_()
            found = self._moved(leaf, slice(0, len(leaf)), v.shape[2]) @ u[0].T

        def pullback(weights: torch.Tensor) -> torch.Tensor:
            (slope,) = torch.autograd.grad(found, leaf, weights.flatten(0, 2), retain_graph=True)
            return slope.reshape(v.shape)

        return found.detach().reshape(*v.shape[:3], -1), pullback

    def _parts(self, count: int) -> list[slice]:
        # The way back keeps what each block did.
        kept = max(1, self.head.blocks.depth // 2)
        return list(in_parts(count, max(1, self.head.at_once(self.ids.shape[1]) // kept)))

    def _moved(self, words: torch.Tensor, part: slice, starts: int) -> torch.Tensor:
        """φ with words (k, 1, d) put in, those of candidates ``part``; differentiable."""
        group = torch.arange(part.start, part.stop, device=words.device) // starts
        index = self.rows[group][:, None, None].expand_as(words)
        moved = self.embedded.expand(len(words), -1, -1).scatter(
            1, index, words * self.unit[0, group]
        )
        return self._outputs(moved)

    def _outputs(self, embedded: torch.Tensor) -> torch.Tensor:
        ids = self.ids.expand(len(embedded), -1)
        given = {"states" if self.moves_states else "vectors": embedded}
        return self.head.features(self.head.logits(ids, **given))
