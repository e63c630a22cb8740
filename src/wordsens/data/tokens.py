"""Texts cut into samples of word pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.errors import UserError
from wordsens.randomness import Stream

if TYPE_CHECKING:
    from wordsens.data.encoders import Encoder

TOKENIZE_BATCH = 256  # texts per tokenizer call, which bounds memory on a long corpus


@dataclass(frozen=True)
class TokenSamples:
    """Samples as token ids: (samples, tokens) int32, labels ±1, true lengths, and the counts."""

    token_ids: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray
    counts: dict[str, int]


def token_samples(
    texts: Iterable[Mapping[str, Any]],
    encoder: Encoder,
    settings: Mapping[str, Any],
    seed: int,
    key: str,
) -> TokenSamples:
    """Turn texts into samples of word pieces as a dataset's settings say.

    windows: the running text of each entry, without [CLS] and [SEP], cut into windows of ``tokens``
    word pieces; what is left at the end of a text is dropped.
    documents: texts of fewer than ``tokens`` word pieces, [CLS] and [SEP] included, padded to
    ``pad_to``.

    Identical samples are kept once, and left out altogether where their labels contradict.
    ``balanced`` and ``max_samples`` choose at random, by the run's seed; what is chosen grows with
    ``max_samples`` without being reshuffled.  Raises UserError when nothing or, if balanced, only
    one class is left, or the encoder has too few positions.
    """
    windows = settings["policy"] == "windows"
    width = int(settings["tokens"] if windows else settings["pad_to"])
    if width > encoder.max_tokens:
        raise UserError(
            f"{key}.{'tokens' if windows else 'pad_to'}: is {width}, but encoder "
            f"{settings['encoder']} has positions for {encoder.max_tokens} tokens; allowed: at "
            f"most {encoder.max_tokens}"
        )
    counts = {"texts": 0, "word_pieces": 0, "samples_cut": 0, "too_long": 0}
    found: dict[bytes, tuple[int, int]] = {}  # ids → (length, label), in order of appearance
    contradictory: set[bytes] = set()
    for text, ids in _tokenized(texts, encoder, special_tokens=not windows):
        counts["texts"] += 1
        counts["word_pieces"] += len(ids)
        for sample in _cut(ids, width) if windows else [ids]:
            if not windows and len(sample) >= settings["tokens"]:
                counts["too_long"] += 1
                continue
            counts["samples_cut"] += 1
            name = np.asarray(sample, dtype=np.int32).tobytes()
            first = found.setdefault(name, (len(sample), int(text["label"])))
            if first[1] != text["label"]:
                contradictory.add(name)
    copies = counts["samples_cut"] - len(found)
    for name in contradictory:
        del found[name]
    counts |= {"duplicates": copies, "contradictory": len(contradictory)}
    labels = np.array([label for _, label in found.values()], dtype=np.int8)
    counts |= {"positive": int((labels == 1).sum()), "negative": int((labels == -1).sum())}
    chosen = _choose(labels, settings, Stream(seed, "dataset", **_identity(settings)), counts, key)
    token_ids = np.full((len(chosen), width), encoder.padding_id, dtype=np.int32)
    lengths = np.empty(len(chosen), dtype=np.int32)
    entries = list(found.items())
    for row, index in enumerate(chosen):
        name, (length, _) = entries[index]
        token_ids[row, :length] = np.frombuffer(name, dtype=np.int32)
        lengths[row] = length
    counts |= {"samples": len(chosen)}
    return TokenSamples(token_ids, labels[chosen], lengths, counts)


def _identity(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What names the random choice: how samples are made, not how many are kept."""
    names = ("corpus", "encoder", "policy", "tokens")
    return {name: settings[name] for name in names}


def _tokenized(
    texts: Iterable[Mapping[str, Any]], encoder: Encoder, special_tokens: bool
) -> Iterator[tuple[Mapping[str, Any], list[int]]]:
    batch: list[Mapping[str, Any]] = []
    for text in texts:
        batch.append(text)
        if len(batch) == TOKENIZE_BATCH:
            ids = encoder.tokenize([entry["text"] for entry in batch], special_tokens)
            yield from zip(batch, ids, strict=True)
            batch = []
    ids = encoder.tokenize([entry["text"] for entry in batch], special_tokens)
    yield from zip(batch, ids, strict=True)


def _cut(ids: list[int], width: int) -> Iterator[list[int]]:
    for start in range(0, len(ids) - width + 1, width):
        yield ids[start : start + width]


def _choose(
    labels: np.ndarray,
    settings: Mapping[str, Any],
    stream: Stream,
    counts: Mapping[str, int],
    key: str,
) -> np.ndarray:
    """Indices of the samples to keep, in order."""
    if not len(labels):
        length = f"{'at least' if settings['policy'] == 'windows' else 'fewer than'}"
        raise UserError(
            f"{key}: no sample is left: none of {counts['texts']} texts has {length} "
            f"{settings['tokens']} word pieces; change {key}.tokens"
        )
    most = settings.get("max_samples") or len(labels)
    if not settings["balanced"]:
        order = stream.generator().permutation(len(labels))
        return np.sort(order[:most])
    if not (counts["positive"] and counts["negative"]):
        raise UserError(
            f"{key}.balanced: needs both labels, but there are {counts['positive']} positive and "
            f"{counts['negative']} negative samples; set balanced: false or check the labels"
        )
    each = min(counts["positive"], counts["negative"], max(1, most // 2))
    kept = []
    for label in (1, -1):
        of_label = np.flatnonzero(labels == label)
        order = stream.child("label", label=label).generator().permutation(len(of_label))
        kept.append(of_label[order[:each]])
    return np.sort(np.concatenate(kept))
