"""Token embeddings of a corpus in an HDF5 file that survives being killed half-way.

/embeddings (samples, tokens, dim) float32, one sample per chunk, and /checksums, the CRC-32 of each
sample's bytes; /labels ±1; /token_ids; /lengths.
Attributes name the encoder, its weights' sha256, the layer, the corpus, how samples were made, the
library versions and the schema version; ``complete`` is written last.

The file grows as ``<name>.partial`` beside its place.  Everything is allocated and its disk space
taken before the first batch, so that writing batches changes no HDF5 structure and meets no full
disk, and a counter of finished batches follows each flush: whenever the writer dies, the next one
goes on from the last finished batch.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wordsens.data.corpora import check_texts, read_texts
from wordsens.data.folders import read_asset
from wordsens.data.tokens import TokenSamples, token_samples
from wordsens.errors import UserError
from wordsens.files import REMAKE, reading_h5, sha256_of, updating_h5, writing
from wordsens.progress import advance, track
from wordsens.results import versions

if TYPE_CHECKING:
    from wordsens.data.encoders import Encoder

SCHEMA_VERSION = 1
BATCH = 32  # samples per forward pass; part of a file's identity, since rounding depends on it


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
    counts: str | Path | None = None,
) -> dict[str, int]:
    """Embed a corpus under an encoder into the HDF5 file ``path``; returns the counts.

    ``counts`` is what ``make_corpus`` noted of the texts, to be checked; ``settings`` is the
    dataset's entry of the configuration, ``name`` its name and ``code`` a fingerprint: a
    half-written file of other settings, inputs or code is not gone on with.
    """
    from wordsens.data.encoders import Encoder

    key = f"datasets.{name}"
    if counts is not None:
        check_texts(texts, counts)
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
    import h5py  # noqa: F401  (versions() notes what is loaded)
    import torch

    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    count, width = samples.token_ids.shape
    attributes = {**attributes, **versions()}
    signature = hashlib.sha256(
        json.dumps([layer, BATCH, device, attributes], sort_keys=True).encode()
        + samples.token_ids.tobytes()
        + samples.labels.tobytes()
    ).hexdigest()
    done = _finished(partial, signature)
    if done is None:
        _allocate(partial, samples, encoder.hidden_size, {**attributes, "signature": signature})
        done = 0
    elif done:
        print(f"going on after {done} of {count} samples", file=sys.stderr)
    mask = torch.arange(width) < torch.from_numpy(samples.lengths)[:, None]
    ids = torch.from_numpy(samples.token_ids).long()
    what = str(attributes.get("dataset", path.stem))
    with updating_h5(partial) as file, track(what, count, "samples", done):
        for start in range(done, count, BATCH):
            rows = slice(start, min(start + BATCH, count))
            states = encoder.hidden_states(ids[rows], mask[rows], layer, device).cpu().numpy()
            _finite(states, start, encoder, layer)
            file["embeddings"][rows] = states
            file["checksums"][rows] = [zlib.crc32(sample) for sample in states]
            file.flush()
            # Only once the batch is in the file does the counter say so.
            file["done"][()] = rows.stop
            file.flush()
            advance(rows.stop - done, count - done)
        del file["done"]
        del file.attrs["signature"]
        # Everything else is on the disk before the file is called complete.
        file.flush()
        file.attrs.modify("complete", np.bool_(True))
        file.flush()
        os.fsync(file.id.get_vfd_handle())
    with writing(path):
        os.replace(partial, path)


def _finite(states: np.ndarray, start: int, encoder: Encoder, layer: int) -> None:
    if not np.isfinite(states).all():
        sample, token, _ = np.argwhere(~np.isfinite(states))[0]
        raise UserError(
            f"{encoder.key}: layer {layer} gives NaN or infinity at sample {start + sample}, token "
            f"{token}; its weights or its number format are broken"
        )


def _finished(partial: Path, signature: str) -> int | None:
    """How many samples a half-written file holds; None when it is not there or does not fit."""
    if not partial.exists():
        return None
    # Held for writing even to look: another writer must not be disturbed, least of all cut short.
    try:
        with updating_h5(partial) as file:
            return int(file["done"][()]) if file.attrs.get("signature") == signature else None
    except UserError:
        raise
    except (OSError, KeyError, ValueError, TypeError, RuntimeError):
        return None


def _allocate(
    partial: Path, samples: TokenSamples, dim: int, attributes: Mapping[str, Any]
) -> None:
    """A file with room for everything, every attribute included; its disk space is taken."""
    import h5py

    count, width = samples.token_ids.shape
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with writing(partial):
        partial.parent.mkdir(parents=True, exist_ok=True)
        _reserve(partial, 4 * count * width * (dim + 1) + 20 * count + (1 << 20))
        with h5py.File(partial, "w", locking=False) as file:
            file.create_dataset(
                "embeddings", (count, width, dim), "float32", chunks=(1, width, dim), dcpl=layout
            )
            file["labels"] = samples.labels.astype(np.int8)
            file["token_ids"] = samples.token_ids.astype(np.int32)
            file["lengths"] = samples.lengths.astype(np.int32)
            file["checksums"] = np.zeros(count, dtype=np.uint32)
            file["done"] = 0
            for name, value in attributes.items():
                file.attrs[name] = value
            file.attrs["schema_version"] = SCHEMA_VERSION
            file.attrs["complete"] = False
        _reserve(partial, partial.stat().st_size)


def _reserve(path: Path, size: int) -> None:
    """Take disk space for a file.  HDF5 meeting a full disk ends in a segmentation fault."""
    with path.open("ab") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                path.unlink()
                raise


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
        chosen = [int(index) for index in indices]
        values = np.empty((len(chosen), n, d), dtype=np.float32)
        whole = np.empty((self.tokens, self.dim), dtype=np.float32)
        with reading_h5(self.path, "embeddings") as file:
            data, checksums = file["embeddings"], file["checksums"][...]
            for row, index in enumerate(chosen):
                # One sample is one chunk, which HDF5 reads whole in any case.
                data.read_direct(whole, np.s_[index])
                if zlib.crc32(whole.data) != checksums[index]:
                    raise UserError(f"{self.path}: sample {index} is damaged; {REMAKE}")
                values[row] = whole[:n, :d]
        return values

    def _array(self, name: str) -> np.ndarray:
        with reading_h5(self.path, "embeddings") as file:
            return np.asarray(file[name][...])


def open_embeddings(path: str | Path) -> Embeddings:
    """Open an embeddings file, checking that it is whole.

    Raises UserError, naming the file and what to do, when it is missing, half-written, of another
    schema version, or its arrays do not fit together.
    """
    path = Path(path)
    with reading_h5(path, "embeddings") as file:
        attributes = {name: _plain(value) for name, value in file.attrs.items()}
        if not attributes.get("complete"):
            raise UserError(f"{path}: incomplete (its writer was stopped); {REMAKE}")
        if attributes.get("schema_version") != SCHEMA_VERSION:
            raise UserError(
                f"{path}: schema_version is {attributes.get('schema_version')}, this wordsens "
                f"reads {SCHEMA_VERSION}; {REMAKE}"
            )
        samples, tokens, dim = file["embeddings"].shape
        expected = {
            "embeddings": ((samples, tokens, dim), "f"),
            "checksums": ((samples,), "u"),
            "labels": ((samples,), "i"),
            "lengths": ((samples,), "i"),
            "token_ids": ((samples, tokens), "i"),
        }
        for name, (shape, kind) in expected.items():
            data = file[name]
            if data.shape != shape or data.dtype.kind != kind:
                kinds = {"f": "floats", "i": "integers", "u": "unsigned integers"}[kind]
                raise UserError(
                    f"{path}: /{name} has shape {data.shape} and type {data.dtype}, and not {shape}"
                    f" and {kinds}; {REMAKE}"
                )
        labels, lengths = file["labels"][...], file["lengths"][...]
        if not np.isin(labels, (1, -1)).all():
            raise UserError(f"{path}: /labels holds numbers other than 1 and -1; {REMAKE}")
        if samples and not (lengths.min() >= 0 and lengths.max() <= tokens):
            raise UserError(f"{path}: /lengths holds numbers outside 0 to {tokens}; {REMAKE}")
    return Embeddings(path, samples, tokens, dim, attributes)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
