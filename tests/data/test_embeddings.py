"""The embeddings file: its samples, its schema, and being killed at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from wordsens.data import assets, embeddings
from wordsens.data.embeddings import make_embeddings, open_embeddings
from wordsens.data.encoders import Encoder
from wordsens.data.tokens import token_samples
from wordsens.errors import UserError

WINDOWS = {
    "source": "text",
    "corpus": "c",
    "encoder": "tiny",
    "layer": 0,
    "policy": "windows",
    "tokens": 5,
    "balanced": False,
}
DOCUMENTS = WINDOWS | {"policy": "documents", "tokens": 8, "pad_to": 10, "use_padding": False}


def text(numbers: Any, label: int) -> dict[str, Any]:
    return {"text": " ".join(f"w{number % 40}" for number in numbers), "label": label, "group": ""}


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> Encoder:
    return Encoder.open(tiny_bert, "encoders.tiny")


def some_texts(count: int = 150) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [text(rng.integers(40, size=12), 1 if i % 3 else -1) for i in range(count)]


@pytest.fixture
def inputs(tmp_path: Path, tiny_bert: Path) -> tuple[Path, Path]:
    """A texts.jsonl and an encoder's folder, in a path with a space."""
    folder = tmp_path / "with a space"
    folder.mkdir()
    texts = folder / "texts.jsonl"
    texts.write_text("".join(json.dumps(entry) + "\n" for entry in some_texts()))
    settings = {"source": "file", "path": str(tiny_bert)}
    assets.fetch_encoder(settings, folder / "encoder", "encoders.tiny")
    return texts, folder / "encoder"


def test_windows_are_the_running_text(encoder: Encoder) -> None:
    samples = token_samples([text(range(12), 1)], encoder, WINDOWS, 0, "datasets.x")
    pieces = encoder.tokenize([text(range(12), 1)["text"]])[0]
    assert samples.token_ids.tolist() == [pieces[:5], pieces[5:10]]
    assert samples.lengths.tolist() == [5, 5]
    assert samples.counts["word_pieces"] == 12


def test_documents_are_whole_and_padded(encoder: Encoder) -> None:
    entries = [text(range(count), 1) for count in (5, 6, 20)]
    samples = token_samples(entries, encoder, DOCUMENTS, 0, "datasets.x")
    # 5 words and [CLS] and [SEP] are 7 < 8 word pieces; 6 words are 8 and too many.
    assert samples.lengths.tolist() == [7]
    assert samples.token_ids[0, 0] == 2
    assert samples.token_ids[0, 6] == 3
    assert samples.token_ids[0, 7:].tolist() == [0, 0, 0]
    assert samples.counts["too_long"] == 2


def test_identical_windows_are_kept_once_and_contradictions_never(encoder: Encoder) -> None:
    entries = [text(range(5), 1), text(range(5), 1), text(range(5, 10), 1), text(range(5, 10), -1)]
    samples = token_samples(entries, encoder, WINDOWS, 0, "datasets.x")
    assert len(samples.labels) == 1
    assert samples.counts["duplicates"] == 2
    assert samples.counts["contradictory"] == 1


def test_balanced_and_limited(encoder: Encoder) -> None:
    settings = WINDOWS | {"balanced": True}
    everything = token_samples(some_texts(), encoder, settings, 0, "datasets.x")
    assert (everything.labels == 1).sum() == (everything.labels == -1).sum() > 20
    names = {row.tobytes() for row in everything.token_ids}
    few = token_samples(some_texts(), encoder, settings | {"max_samples": 20}, 0, "datasets.x")
    more = token_samples(some_texts(), encoder, settings | {"max_samples": 40}, 0, "datasets.x")
    assert (few.labels == 1).sum() == (few.labels == -1).sum() == 10
    few_names = {row.tobytes() for row in few.token_ids}
    assert few_names < {row.tobytes() for row in more.token_ids} < names
    other = token_samples(some_texts(), encoder, settings | {"max_samples": 20}, 1, "datasets.x")
    assert {row.tobytes() for row in other.token_ids} != few_names
    again = token_samples(some_texts(), encoder, settings | {"max_samples": 20}, 0, "datasets.x")
    np.testing.assert_array_equal(again.token_ids, few.token_ids)


def test_one_class_nothing_left_and_too_few_positions(encoder: Encoder) -> None:
    with pytest.raises(UserError, match=r"datasets\.x\.balanced: needs both .* 2 positive and 0"):
        token_samples([text(range(12), 1)], encoder, WINDOWS | {"balanced": True}, 0, "datasets.x")
    with pytest.raises(UserError, match=r"none of 1 texts has at least 5 .* datasets\.x\.tokens"):
        token_samples([text(range(4), 1)], encoder, WINDOWS, 0, "datasets.x")
    with pytest.raises(UserError, match=r"datasets\.x\.tokens: is 65, .*at most 64"):
        token_samples([], encoder, WINDOWS | {"tokens": 65}, 0, "datasets.x")


def test_file_holds_what_the_schema_says(inputs, tmp_path: Path, encoder: Encoder) -> None:
    texts, folder = inputs
    path = tmp_path / "e.h5"
    settings = WINDOWS | {"layer": 2}
    counts = make_embeddings(path, texts, folder, settings, name="x", seed=3, code="abc")
    data = open_embeddings(path)
    assert (data.samples, data.tokens, data.dim) == (counts["samples"], 5, 16)
    with h5py.File(path) as file:
        assert sorted(file) == ["checksums", "embeddings", "labels", "lengths", "token_ids"]
        assert file["embeddings"].chunks == (1, 5, 16)
        assert file["embeddings"].dtype == np.float32
        assert (file["labels"].dtype, file["token_ids"].dtype) == (np.int8, np.int32)
        stored = file["embeddings"][...]
        attributes = dict(file.attrs)
    assert attributes["complete"]
    assert attributes["layer"] == 2
    assert attributes["corpus"] == "c"
    assert json.loads(attributes["encoder_sha256"]) == {
        "model.safetensors": assets.sha256_of(folder / "model.safetensors")
    }
    assert attributes["version_torch"] == torch.__version__
    ids = torch.from_numpy(data.token_ids).long()
    expected = encoder.hidden_states(ids, torch.ones_like(ids).bool(), 2)
    np.testing.assert_allclose(stored, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(data.rows([4, 1], 3, 7), stored[[4, 1], :3, :7])
    assert not list(tmp_path.glob("*.partial"))


def content(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        return {name: data[...].tobytes() for name, data in file.items()} | {
            name: str(value) for name, value in file.attrs.items()
        }


def test_stopped_anywhere_it_goes_on_to_the_same_file(inputs, tmp_path, monkeypatch) -> None:
    texts, folder = inputs
    arguments = {"settings": WINDOWS | {"layer": 1}, "name": "x", "seed": 0}
    make_embeddings(tmp_path / "whole.h5", texts, folder, **arguments)
    forward, asked = Encoder.hidden_states, []

    def dies(self, ids, mask, layer, device="cpu"):
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(len(ids))
        return forward(self, ids, mask, layer, device)

    monkeypatch.setattr(Encoder, "hidden_states", dies)
    path = tmp_path / "e.h5"
    with pytest.raises(KeyboardInterrupt):
        make_embeddings(path, texts, folder, **arguments)
    assert not path.exists()
    asked.clear()
    monkeypatch.setattr(
        Encoder,
        "hidden_states",
        lambda self, ids, *rest: asked.append(len(ids)) or forward(self, ids, *rest),
    )
    make_embeddings(path, texts, folder, **arguments)
    samples = open_embeddings(path).samples
    assert sum(asked) == samples - 3 * embeddings.BATCH, "finished batches were computed again"
    assert content(path) == content(tmp_path / "whole.h5")


@pytest.mark.parametrize("change", ["layer", "texts", "code"])
def test_a_half_file_of_something_else_is_not_gone_on_with(
    inputs, tmp_path, monkeypatch, change: str
) -> None:
    texts, folder = inputs
    path = tmp_path / "e.h5"
    forward = Encoder.hidden_states

    def dies(self, ids, *rest):
        dies.left -= 1
        if dies.left < 0:
            raise KeyboardInterrupt
        return forward(self, ids, *rest)

    dies.left = 2
    monkeypatch.setattr(Encoder, "hidden_states", dies)
    with pytest.raises(KeyboardInterrupt):
        make_embeddings(path, texts, folder, WINDOWS, name="x", seed=0)
    monkeypatch.setattr(Encoder, "hidden_states", forward)
    settings = WINDOWS | ({"layer": 1} if change == "layer" else {})
    if change == "texts":
        entries = some_texts()[::-1]
        texts.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    code = "other" if change == "code" else ""
    make_embeddings(path, texts, folder, settings, name="x", seed=0, code=code)
    make_embeddings(tmp_path / "f.h5", texts, folder, settings, name="x", seed=0, code=code)
    assert content(path) == content(tmp_path / "f.h5")


def test_a_broken_half_file_is_started_again(inputs, tmp_path: Path) -> None:
    texts, folder = inputs
    (tmp_path / "e.h5.partial").write_bytes(b"not HDF5")
    make_embeddings(tmp_path / "e.h5", texts, folder, WINDOWS, name="x", seed=0)
    assert open_embeddings(tmp_path / "e.h5").samples


SLOW = """
import sys, time
from pathlib import Path
from wordsens.data.embeddings import make_embeddings
from wordsens.data.encoders import Encoder
forward = Encoder.hidden_states
def slowly(self, *rest):
    time.sleep(0.15)
    return forward(self, *rest)
Encoder.hidden_states = slowly
texts, folder, path = map(Path, sys.argv[1:])
make_embeddings(path, texts, folder, SETTINGS, name="x", seed=0)
"""


def test_sigkill_in_the_middle_loses_no_finished_batch(inputs, tmp_path: Path) -> None:
    texts, folder = inputs
    path = tmp_path / "e.h5"
    partial = path.with_name("e.h5.partial")
    script = tmp_path / "slow.py"
    script.write_text(SLOW.replace("SETTINGS", repr(WINDOWS)))
    command = [sys.executable, str(script), str(texts), str(folder), str(path)]
    writer = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    finished = 0
    deadline = time.monotonic() + 60
    while finished < 2 * embeddings.BATCH and time.monotonic() < deadline:
        time.sleep(0.02)
        try:
            with h5py.File(partial, "r", locking=False) as file:
                finished = int(file["done"][()])
        except (OSError, KeyError):
            continue
    os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    assert not path.exists()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    resumed = int(done.stderr.split("going on after ")[1].split()[0])
    assert resumed >= finished
    make_embeddings(tmp_path / "whole.h5", texts, folder, WINDOWS, name="x", seed=0)
    assert content(path) == content(tmp_path / "whole.h5")


def test_layer_that_the_encoder_lacks(inputs, tmp_path: Path) -> None:
    texts, folder = inputs
    with pytest.raises(UserError, match=r"datasets\.x\.layer: is 4, .* layers 0 to 3"):
        make_embeddings(tmp_path / "e.h5", texts, folder, WINDOWS | {"layer": 4}, name="x", seed=0)


def test_bad_files_are_named(inputs, tmp_path: Path) -> None:
    texts, folder = inputs
    path = tmp_path / "e.h5"
    make_embeddings(path, texts, folder, WINDOWS, name="x", seed=0)
    with h5py.File(path, "r+") as file:
        del file["labels"]
        file["labels"] = np.ones(3, dtype=np.int8)
    with pytest.raises(UserError, match=r"e\.h5: /labels has shape \(3,\) .* delete it and run"):
        open_embeddings(path)
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = 0
    with pytest.raises(UserError, match="schema_version is 0"):
        open_embeddings(path)
    with h5py.File(path, "r+") as file:
        del file.attrs["complete"]
    with pytest.raises(UserError, match=r"e\.h5: incomplete"):
        open_embeddings(path)
    path.write_bytes(b"")
    with pytest.raises(UserError, match=r"e\.h5: not readable as"):
        open_embeddings(path)
    path.unlink()
    with pytest.raises(UserError, match=r"e\.h5: no such file"):
        open_embeddings(path)
