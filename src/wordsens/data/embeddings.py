"""Token embeddings of a corpus in an HDF5 file that survives being killed half-way.

/embeddings (samples, tokens, dim) float32, one sample per chunk; /labels ±1; /token_ids; /lengths.
Attributes name the encoder, its weights' sha256, the layer, the corpus, how samples were made, the
library versions and the schema version; ``complete`` is written last.

The file grows as ``<name>.partial`` beside its place.  Every chunk is allocated before the first
batch, so that writing batches changes no HDF5 structure, and a counter of finished batches follows
each flush: whenever the writer dies, the next one goes on from the last finished batch.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.data.assets import read_asset, sha256_of
from wordsens.data.corpora import read_texts
from wordsens.errors import UserError
from wordsens.progress import reached, track
from wordsens.randomness import Stream
from wordsens.results import versions

if TYPE_CHECKING:
    from wordsens.data.encoders import Encoder

SCHEMA_VERSION = 1
BATCH = 32  # samples per forward pass; part of a file's identity, since rounding depends on it
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


def make_embeddings(
    path: str | Path,
    texts: str | Path,
    encoder_folder: str | Path,
    settings: Mapping[str, Any],
    *,
    name: str,
    seed: int,
    device: str = "cpu",
    code: str = "",
) -> dict[str, int]:
    """Embed a corpus under an encoder into the HDF5 file ``path``; returns the counts.

    ``settings`` is the dataset's entry of the configuration, ``name`` its name and ``code`` a
    fingerprint: a half-written file of other settings, inputs or code is not gone on with.
    """
    from wordsens.data.encoders import Encoder

    key = f"datasets.{name}"
    encoder = Encoder.open(encoder_folder, f"encoders.{settings['encoder']}")
    layer = int(settings["layer"])
    if layer > encoder.layers:
        raise UserError(
            f"{key}.layer: is {layer}, but encoder {settings['encoder']} has layers 0 to "
            f"{encoder.layers}"
        )
    samples = token_samples(read_texts(texts), encoder, settings, seed, key)
    report = ", ".join(
        f"{count} {what.replace('_', ' ')}" for what, count in samples.counts.items()
    )
    print(f"{name}: {report}", file=sys.stderr)
    asset = read_asset(encoder_folder)
    attributes = {
        **{name: value for name, value in settings.items() if name != "source"},
        "dataset": name,
        "seed": seed,
        "encoder_source": json.dumps(asset["source"], sort_keys=True),
        "encoder_sha256": json.dumps(asset["weights"], sort_keys=True),
        "corpus_sha256": sha256_of(texts),
        "counts": json.dumps(samples.counts),
        "code": code,
    }
    write_embeddings(path, encoder, samples, layer, attributes, device=device)
    return samples.counts


def write_embeddings(
    path: str | Path,
    encoder: Encoder,
    samples: TokenSamples,
    layer: int,
    attributes: Mapping[str, Any],
    device: str = "cpu",
) -> None:
    """Write the embeddings of samples, going on from ``<path>.partial`` where it fits."""
    import h5py
    import torch

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    count, width = samples.token_ids.shape
    signature = hashlib.sha256(
        json.dumps([layer, BATCH, device, dict(attributes)], sort_keys=True).encode()
        + samples.token_ids.tobytes()
        + samples.labels.tobytes()
    ).hexdigest()
    done = _finished(partial, signature)
    if done is None:
        _allocate(partial, samples, encoder.hidden_size, signature)
        done = 0
    elif done:
        print(f"going on after {done} of {count} samples", file=sys.stderr)
    mask = torch.arange(width) < torch.from_numpy(samples.lengths)[:, None]
    ids = torch.from_numpy(samples.token_ids).long()
    what = str(attributes.get("dataset", path.stem))
    with h5py.File(partial, "r+", locking=False) as file, track(what, count, "samples", done):
        for start in range(done, count, BATCH):
            rows = slice(start, min(start + BATCH, count))
            states = encoder.hidden_states(ids[rows], mask[rows], layer, device)
            file["embeddings"][rows] = states.cpu().numpy()
            file.flush()
            # Only once the batch is in the file does the counter say so.
            file["done"][()] = rows.stop
            file.flush()
            reached(rows.stop - done, count - done)
        del file["done"]
        del file.attrs["signature"]
        for name, value in {**attributes, **versions()}.items():
            file.attrs[name] = value
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["complete"] = True
    os.replace(partial, path)


def _finished(partial: Path, signature: str) -> int | None:
    """How many samples a half-written file holds; None when it is not there or does not fit."""
    import h5py

    try:
        with h5py.File(partial, "r", locking=False) as file:
            return int(file["done"][()]) if file.attrs.get("signature") == signature else None
    except (OSError, KeyError):
        return None


def _allocate(partial: Path, samples: TokenSamples, dim: int, signature: str) -> None:
    import h5py

    count, width = samples.token_ids.shape
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with h5py.File(partial, "w", locking=False) as file:
        file.create_dataset(
            "embeddings", (count, width, dim), "float32", chunks=(1, width, dim), dcpl=layout
        )
        file["labels"] = samples.labels.astype(np.int8)
        file["token_ids"] = samples.token_ids.astype(np.int32)
        file["lengths"] = samples.lengths.astype(np.int32)
        file["done"] = 0
        file.attrs["signature"] = signature


@dataclass(frozen=True)
class Embeddings:
    """An embeddings file; arrays are read when they are asked for.

    ``samples``, ``tokens`` and ``dim`` are the shape of /embeddings; ``attributes`` say how it was
    made.
    """

    path: Path
    samples: int
    tokens: int
    dim: int
    attributes: dict[str, Any]

    @cached_property
    def labels(self) -> np.ndarray:
        """±1, (samples,) int8."""
        return self._array("labels")

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens before padding, (samples,) int32."""
        return self._array("lengths")

    @cached_property
    def token_ids(self) -> np.ndarray:
        """(samples, tokens) int32."""
        return self._array("token_ids")

    @property
    def usable(self) -> np.ndarray:
        """Tokens that an experiment may take from each sample: the padding counts if the dataset
        says use_padding."""
        if self.attributes.get("use_padding", False):
            return np.full(self.samples, self.tokens, dtype=np.int32)
        return self.lengths

    def rows(self, indices: Iterable[int], n: int, d: int) -> np.ndarray:
        """The first n tokens and d dimensions of samples, (len(indices), n, d) float32."""
        import h5py

        chosen = [int(index) for index in indices]
        values = np.empty((len(chosen), n, d), dtype=np.float32)
        with h5py.File(self.path, "r", locking=False) as file:
            data = file["embeddings"]
            for row, index in enumerate(chosen):
                data.read_direct(values, np.s_[index, :n, :d], np.s_[row])
        return values

    def _array(self, name: str) -> np.ndarray:
        import h5py

        with h5py.File(self.path, "r", locking=False) as file:
            return np.asarray(file[name][...])


def open_embeddings(path: str | Path) -> Embeddings:
    """Open an embeddings file, checking that it is whole.

    Raises UserError, naming the file and what to do, when it is missing, half-written, of another
    schema version, or its arrays do not fit together.
    """
    import h5py

    remake = "delete it and run snakemake again"
    path = Path(path)
    try:
        with h5py.File(path, "r", locking=False) as file:
            attributes = {name: _plain(value) for name, value in file.attrs.items()}
            if not attributes.get("complete"):
                raise UserError(f"{path}: incomplete (its writer was stopped); {remake}")
            if attributes.get("schema_version") != SCHEMA_VERSION:
                raise UserError(
                    f"{path}: schema_version is {attributes.get('schema_version')}, this wordsens "
                    f"reads {SCHEMA_VERSION}; {remake}"
                )
            samples, tokens, dim = file["embeddings"].shape
            expected = {
                "labels": (samples,),
                "lengths": (samples,),
                "token_ids": (samples, tokens),
            }
            for name, shape in expected.items():
                if file[name].shape != shape:
                    raise UserError(
                        f"{path}: /{name} has shape {file[name].shape} and not {shape}; {remake}"
                    )
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run snakemake to make it") from None
    except (OSError, KeyError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: not a readable embeddings file ({error}); {remake}") from None
    return Embeddings(path, samples, tokens, dim, attributes)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
