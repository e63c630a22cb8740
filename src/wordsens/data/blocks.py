"""Any transformers model as word vectors, layer 0 and L blocks, without knowing its family.

H_0 is what the first block receives, H_l for 0 < l < L what block l hands to the next, and H_L the
model's last hidden state, behind a final normalisation where there is one.  Masks, positions and
whatever else the blocks are given are the model's own: they are noted while the model itself runs
on a text of the same length.  A model whose layers cannot be followed block by block, or that are
not the same when they are, runs whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from wordsens.errors import UserError

PROBE = 6  # tokens of the text on which a model is first tried
NOTED = 8  # lengths whose calls are kept


class _Stopped(Exception):
    """The model has come as far as it was to run."""


@dataclass(frozen=True)
class _Call:
    """One call of a block, apart from the states: called once for each layer."""

    block: torch.nn.Module
    before: str | None  # the name of the argument with the states; None where it is the first
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Blocks:
    """A model in eval mode; weights are not copied and not changed."""

    def __init__(self, model: Any, key: str) -> None:
        self.model, self.key = model, key
        if hasattr(model.config, "use_cache"):
            model.config.use_cache = False
        self.embedding: Any = model.get_input_embeddings()  # looks static word vectors up
        self.list: torch.nn.ModuleList | None = None
        self._turned = self._embedding_turned = False
        self._tail: list[torch.nn.Module] = []
        self._calls: dict[Any, list[_Call]] = {}
        self._explore()

    @property
    def rows(self) -> int:
        """The number of rows of the table of word vectors."""
        return len(self.embedding.weight)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.embedding.weight.device
        return device

    @property
    def stepwise(self) -> bool:
        """Whether the layers can be followed block by block, so that layer 0 can be moved."""
        return self.list is not None

    def enter(self, ids: torch.Tensor, vectors: torch.Tensor | None = None) -> torch.Tensor:
        """H_0 of texts (batch, n), or of word vectors in the place of theirs; differentiable.

        Positions are those that the model counts for ``ids``, whatever the vectors are.
        """
        if not self.stepwise:
            raise UserError(f"{self.key}: has no blocks that can be followed; use word_vector")
        return self._run(ids, vectors, None, stop=0)[0]

    def step(self, layer: int, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """H_layer from H_{layer-1} (batch, n, d), layer = 1 … L; ``ids`` gives the length."""
        call = self._noted(ids)[layer - 1]
        turned = states.transpose(0, 1) if self._turned else states
        if call.before is None:
            found = call.block(turned, *call.args, **call.kwargs)
        else:
            found = call.block(*call.args, **{call.before: turned}, **call.kwargs)
        found = found[0] if isinstance(found, tuple) else found
        found = found.transpose(0, 1) if self._turned else found
        return self._ended(found) if layer == self.depth else found

    def whole(self, ids: torch.Tensor, vectors: torch.Tensor | None = None) -> list[torch.Tensor]:
        """H_0 … H_L in one run of the model, as transformers gives them; differentiable."""
        with self._instead(vectors):
            output = self.model(input_ids=ids, output_hidden_states=True)
        return list(output.hidden_states)

    def upto(self, ids: torch.Tensor, layer: int) -> torch.Tensor:
        """H_layer of texts (batch, n), without the blocks above it; differentiable."""
        if self.stepwise and layer < self.depth:
            return self._run(ids, None, None, stop=layer)[0]
        return self.whole(ids)[layer]

    def states(self, ids: torch.Tensor, mask: torch.Tensor, layer: int) -> torch.Tensor:
        """H_layer of padded texts; ``mask`` (batch, n) is true where there is a token."""
        if self.stepwise and layer < self.depth:
            return self._run(ids, None, mask, stop=layer)[0]
        output = self.model(
            input_ids=ids, attention_mask=mask.long(), output_hidden_states=layer < self.depth
        )
        last = layer == self.depth
        states: torch.Tensor = output.last_hidden_state if last else output.hidden_states[layer]
        return states

    @contextmanager
    def instead(
        self, vectors: torch.Tensor | None = None, states: torch.Tensor | None = None
    ) -> Iterator[None]:
        """Whatever runs the model meanwhile sees these word vectors, or this H_0, (batch, n, d)."""
        if states is None:
            with self._instead(vectors):
                yield
            return
        if self.list is None:
            raise UserError(f"{self.key}: has no blocks that can be followed; use word_vector")
        given, waiting = states.transpose(0, 1) if self._turned else states, [True]

        def put(block: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if not waiting:
                return None
            waiting.clear()
            if args:
                return (given, *args[1:]), kwargs
            return args, kwargs | {"hidden_states": given}

        with ExitStack() as hooks:
            for block in self.list:
                hooks.callback(block.register_forward_pre_hook(put, with_kwargs=True).remove)
            yield

    def _noted(self, ids: torch.Tensor) -> list[_Call]:
        """How the blocks are called on a text of this length."""
        weight = self.embedding.weight
        name = (ids.shape[1], weight.dtype, weight.device)
        if name not in self._calls:
            while len(self._calls) >= NOTED:
                del self._calls[next(iter(self._calls))]
            with torch.no_grad():
                self._calls[name] = self._run(ids[:1], None, None, stop=None)[1]
        return self._calls[name]

    def _run(
        self,
        ids: torch.Tensor,
        vectors: torch.Tensor | None,
        mask: torch.Tensor | None,
        stop: int | None,
    ) -> tuple[torch.Tensor, list[_Call]]:
        """Run the model up to the call of block ``stop`` + 1: its states, and the calls so far."""
        calls: list[_Call] = []
        seen: list[torch.Tensor] = []

        def note(block: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            states, before, args, kwargs = _split(args, kwargs)
            calls.append(_Call(block, before, args, kwargs))
            if stop is not None and len(calls) > stop:
                seen.append(states.transpose(0, 1) if self._turned else states)
                raise _Stopped

        assert self.list is not None
        options = {} if mask is None else {"attention_mask": mask.long()}
        with ExitStack() as hooks, self._instead(vectors):
            for block in self.list:
                handle = block.register_forward_pre_hook(note, with_kwargs=True)
                hooks.callback(handle.remove)
            try:
                output = self.model(input_ids=ids, **options)
            except _Stopped:
                return seen[0], calls
        return output.last_hidden_state, calls

    @contextmanager
    def _instead(self, vectors: torch.Tensor | None) -> Iterator[None]:
        """``vectors`` (batch, n, d) come out of the table of word vectors."""
        if vectors is None:
            yield
            return
        given = vectors.transpose(0, 1) if self._embedding_turned else vectors
        handle = self.embedding.register_forward_hook(lambda *_: given)
        try:
            yield
        finally:
            handle.remove()

    def _ended(self, states: torch.Tensor) -> torch.Tensor:
        for module in self._tail:
            states = module(states)
        return states

    @torch.no_grad()
    def _explore(self) -> None:
        """Run the model twice and find its layers, its list of blocks and what comes after it."""
        numbers = torch.arange(2 * PROBE, device=self.device)
        first = (7 * numbers + self.rows // 2).remainder(self.rows).reshape(2, PROBE)
        other = (5 * numbers + 1).remainder(self.rows).reshape(2, PROBE)
        record: list[tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Any]] = []
        with ExitStack() as hooks:
            for module in self.model.modules():
                handle = module.register_forward_hook(
                    lambda *call: record.append(call), with_kwargs=True
                )
                hooks.callback(handle.remove)
            layers = self.whole(first)
        for layer, states in enumerate(layers):
            if not bool(states.isfinite().all()):
                raise UserError(
                    f"{self.key}: layer {layer} is not finite on a text of {PROBE} tokens, though "
                    "every weight is; look for sizes or constants in config.json that cannot be"
                )
        self.depth = len(layers) - 1
        self.size = layers[-1].shape[-1]
        self._find_embedding(record)
        for blocks in self.model.modules():
            if isinstance(blocks, torch.nn.ModuleList) and self._follows(blocks, layers, record):
                self.list = blocks
                if not self._same(other):
                    self.list = None
                break
        last = other.clone()
        last[:, -1] = (last[:, -1] + 1).remainder(self.rows)
        gap = (self.whole(other)[-1] - self.whole(last)[-1]).abs().amax((0, 2))
        # A changed word of a decoder reaches only what comes after it.
        self.causal = bool((gap[:-1] == 0).all())

    def _find_embedding(self, record: list[Any]) -> None:
        """The module that is called; tied ones share the table of the one transformers names."""
        for module, _, _, out in record:
            weight = getattr(module, "weight", None)
            if weight is not None and weight.data_ptr() == self.embedding.weight.data_ptr():
                self.embedding, self._embedding_turned = module, out.shape[:2] == (PROBE, 2)
                return
        raise UserError(
            f"{self.key}: a {type(self.model).__name__} does not look its words up in a table that "
            "transformers names; it cannot be measured"
        )

    def _follows(
        self, blocks: torch.nn.ModuleList, layers: list[torch.Tensor], record: list[Any]
    ) -> bool:
        """Whether the blocks of a list receive the layers 0 … L-1, one after the other."""
        entries = list(blocks)
        called = [at for at, (module, *_) in enumerate(record) if module in entries]
        if len(called) != self.depth:
            return False
        for turned in (False, True):
            for at, states in zip(called, layers, strict=False):
                _, args, kwargs, _ = record[at]
                if not _alike(
                    _split(args, kwargs)[0], states.transpose(0, 1) if turned else states
                ):
                    break
            else:
                self._turned = turned
                self._tail = self._behind(record[called[-1] :], layers[-1])
                return True
        return False

    def _behind(self, record: list[Any], last: torch.Tensor) -> list[torch.nn.Module]:
        """The modules that turn the last block's output into the last hidden state."""
        states = record[0][-1]
        states = states[0] if isinstance(states, tuple) else states
        found: list[torch.nn.Module] = []
        for module, args, _, out in record[1:]:
            end = states.transpose(0, 1) if self._turned else states
            if _alike(end, last):
                break
            if args and args[0] is states and torch.is_tensor(out):
                found.append(module)
                states = out
        if self._turned:  # what stands behind a turned list is dropout, which does nothing here
            return []
        return found

    def _same(self, ids: torch.Tensor) -> bool:
        """Whether block by block gives what the model gives, on another text."""
        expected = self.whole(ids)
        vectors = self.embedding(ids)
        states = self.enter(ids, vectors)
        try:
            for layer, right in enumerate(expected):
                states = self.step(layer, states, ids) if layer else states
                if not torch.allclose(states, right, rtol=1e-4, atol=1e-5):
                    return False
        except (TypeError, RuntimeError, ValueError):
            return False
        return True


def _split(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.Tensor, str | None, tuple[Any, ...], dict[str, Any]]:
    """A block's call as its states, the name of their argument, and the rest of the call."""
    if args:
        return args[0], None, args[1:], kwargs
    name = "hidden_states"
    return kwargs[name], name, args, {k: v for k, v in kwargs.items() if k != name}


def _alike(one: Any, other: torch.Tensor) -> bool:
    return torch.is_tensor(one) and one.shape == other.shape and bool(torch.equal(one, other))
