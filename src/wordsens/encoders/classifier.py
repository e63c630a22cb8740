"""A classifier on an encoder's states: logistic regression on their mean over the tokens.

    logits(X) = W · (1/n) Σ_i H_L(X)_i + b

The states are standardised before the fit and the scales folded into W and b; the penalty is chosen
by cross-validation.  Texts, not windows of them, are held out, so that no part of a text is on both
sides.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wordsens.data.encoders import Encoder
from wordsens.encoders.windows import windows
from wordsens.errors import UserError, whole_number
from wordsens.files import REMAKE, write_text
from wordsens.progress import advance, tracked
from wordsens.randomness import Stream

BATCH = 32  # windows per forward pass
ITERATIONS = 5000  # more than any fit has needed
FOLDS, STRENGTHS = 5, [1e-4, 1e-3, 1e-2, 0.1, 1, 10]  # of cross-validation; inverse penalties tried


@dataclass(frozen=True)
class Classifier:
    """Logits of C classes from mean states; ``labels`` name the classes.

    weight (C, d) and bias (C,), float32; ``accuracy`` on ``held_out`` windows of held-out texts,
    after a fit to ``trained`` windows of at most ``tokens`` tokens; ``encoder`` says on whose
    states.
    """

    labels: list[str]
    weight: torch.Tensor
    bias: torch.Tensor
    accuracy: float
    training_accuracy: float
    trained: int
    held_out: int
    tokens: int
    encoder: str

    @property
    def about(self) -> str:
        """What it is, in words."""
        return (
            f"logistic regression on the mean of the last hidden states, fitted to "
            f"{self.trained:,} windows of text and right on {self.accuracy:.1%} of "
            f"{self.held_out:,} held-out ones"
        )

    def check(self, encoder: Encoder) -> None:
        """Raises UserError for an encoder on whose states it was not fitted."""
        if self.encoder != identity(encoder):
            raise UserError(
                f"{encoder.key}: the classifier was fitted on the states of another encoder; train "
                "it on this one"
            )

    def save(self, path: str | Path) -> Path:
        """Write it as JSON, with a digest of its content; returns the path."""
        write_text(path, self.to_json())
        return Path(path)

    def to_json(self) -> str:
        values = vars(self) | {"weight": self.weight.tolist(), "bias": self.bias.tolist()}
        return json.dumps({"sha256": _digest(values), **values}, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """Read what ``save`` wrote; raises UserError where the file is not that, whole."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            if values.pop("sha256") != _digest(values):
                raise UserError(f"{path}: damaged or changed since it was made; {REMAKE}")
            tensors = {name: torch.tensor(values[name]) for name in ("weight", "bias")}
            return cls(**(values | tensors))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(f"{path}: cannot be read as a classifier ({error})") from None


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def identity(encoder: Encoder) -> str:
    """What tells one encoder from another: a digest of its word vectors and its last block."""
    digest = hashlib.sha256()
    blocks = encoder.blocks()
    last = blocks.list[-1].parameters() if blocks.list is not None else ()
    for weight in (blocks.embedding.weight, *last):
        digest.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def train_classifier(
    encoder: Encoder | str | Path,
    texts: Sequence[str],
    labels: Sequence[str],
    *,
    tokens: int = 120,
    held_out: float = 0.25,
    most: int | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> Classifier:
    """Fit a classifier of texts to an encoder's states, and judge it on texts held out.

    Texts longer than ``tokens`` are cut into windows, each with its text's label; of every class
    at most ``most`` windows are used, chosen at random.  Raises UserError for fewer than two
    classes, or fewer than two texts of one.
    """
    from sklearn.preprocessing import StandardScaler

    opened = encoder if isinstance(encoder, Encoder) else Encoder.open(encoder)
    stream = Stream(whole_number("seed", seed, None), "classifier")
    tokens = whole_number("tokens", tokens)
    if not 0 < held_out < 1:
        raise UserError(f"held_out = {held_out!r} must lie between 0 and 1")
    names = sorted(set(map(str, labels)))
    y = np.array([names.index(str(label)) for label in labels], dtype=int)
    if len(texts) != len(y):
        raise UserError(f"there are {len(texts)} texts and {len(y)} labels; give one for each")
    if len(names) < 2 or np.bincount(y).min() < 2:
        raise UserError(
            f"labels: {', '.join(names) or 'none'}; a classifier needs two or more, and two or "
            "more texts of each"
        )
    out = _held_out(y, held_out, stream)
    cut = [(row, ids) for row, ids in _cut(opened, texts, tokens) if ids]
    chosen = _chosen(np.array([y[row] for row, _ in cut]), most, stream)
    rows = np.array([cut[i][0] for i in chosen])
    states = mean_states(opened, [cut[i][1] for i in chosen], device)
    fit, judged = ~out[rows], out[rows]
    if not (set(y[rows][fit]) == set(y[rows][judged]) == set(range(len(names)))):
        raise UserError("texts: too few of one label to hold some out; give more, or raise most")
    scale = StandardScaler().fit(states[fit])
    model = _fitted(scale.transform(states[fit]), y[rows][fit], rows[fit])
    weight = model.coef_ / scale.scale_
    bias = model.intercept_ - weight @ scale.mean_
    if len(names) == 2:  # one score, as the difference of two logits
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    right = (states @ weight.T + bias).argmax(1) == y[rows]
    return Classifier(
        labels=names,
        weight=torch.from_numpy(weight).float(),
        bias=torch.from_numpy(bias).float(),
        accuracy=float(right[judged].mean()),
        training_accuracy=float(right[fit].mean()),
        trained=int(fit.sum()),
        held_out=int(judged.sum()),
        tokens=tokens,
        encoder=identity(opened),
    )


def _fitted(x: np.ndarray, y: np.ndarray, texts: np.ndarray) -> Any:
    """Logistic regression, its penalty the best in cross-validation over texts, not windows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold

    own = min(len(np.unique(texts[y == label])) for label in np.unique(y))
    if own < 2:
        return LogisticRegression(max_iter=ITERATIONS).fit(x, y)
    folds = StratifiedGroupKFold(min(FOLDS, own))
    model = LogisticRegression(max_iter=ITERATIONS)
    search = GridSearchCV(model, {"C": STRENGTHS}, cv=folds)
    return search.fit(x, y, groups=texts).best_estimator_


def mean_states(encoder: Encoder, ids: Sequence[Sequence[int]], device: str) -> np.ndarray:
    """Mean last hidden states of windows of token ids between special tokens, (windows, d)."""
    before, after = encoder.special_tokens()
    whole = [[*before, *each, *after] for each in ids]
    found = np.empty((len(whole), encoder.hidden_size))
    order = np.argsort([len(each) for each in whole], kind="stable")  # little padding
    with tracked("states", len(whole), "windows"):
        for first in range(0, len(order), BATCH):
            part = order[first : first + BATCH]
            width = max(len(whole[i]) for i in part)
            batch = torch.full((len(part), width), encoder.padding_id)
            mask = torch.zeros(len(part), width, dtype=torch.bool)
            for row, i in enumerate(part):
                batch[row, : len(whole[i])] = torch.tensor(whole[i])
                mask[row, : len(whole[i])] = True
            states = encoder.hidden_states(batch, mask, encoder.layers, device).cpu()
            states = states.masked_fill(~mask[..., None], 0)
            found[part] = (states.sum(1) / mask.sum(1, keepdim=True)).double().numpy()
            advance(first + len(part), len(order))
    return found


def _held_out(y: np.ndarray, share: float, stream: Stream) -> np.ndarray:
    """Which texts are held out: of every class this share, at least one and not all."""
    out = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        count = min(len(own) - 1, max(1, round(share * len(own))))
        own = own[stream.child("held out", label=int(label)).generator().permutation(len(own))]
        out[own[:count]] = True
    return out


def _cut(encoder: Encoder, texts: Iterable[str], tokens: int) -> Iterable[tuple[int, list[int]]]:
    room = min(tokens, encoder.max_tokens - sum(map(len, encoder.special_tokens())))
    for row, text in enumerate(texts):
        (ids,) = encoder.tokenize([text])
        for part in windows(encoder.pieces(ids), room):
            yield row, ids[part]


def _chosen(y: np.ndarray, most: int | None, stream: Stream) -> np.ndarray:
    """The windows that are used: of every class as many, and at most so many."""
    least = min(int((y == label).sum()) for label in np.unique(y))
    count = least if most is None else min(least, whole_number("most", most))
    kept = []
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        order = stream.child("windows", label=int(label)).generator().permutation(len(own))
        kept.append(own[order[:count]])
    return np.sort(np.concatenate(kept))
