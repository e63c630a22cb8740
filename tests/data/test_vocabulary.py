"""A vocabulary file says of every word what the encoder itself makes of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch

from wordsens.data.encoders import Encoder
from wordsens.data.vocabulary import Vocabulary, make_vocabulary, open_vocabulary
from wordsens.errors import UserError


@pytest.fixture(scope="module")
def vocabulary(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    folder = tmp_path_factory.mktemp("vocabulary") / "new"
    made = make_vocabulary(folder / "tiny.h5", tiny_bert, "encoders.tiny", code="abc")
    assert [path.name for path in folder.iterdir()] == ["tiny.h5"]
    return made


def normalised(x: torch.Tensor, d: int) -> torch.Tensor:
    return x[..., :d] / x[..., :d].norm(dim=-1, keepdim=True) * d**0.5


@pytest.mark.parametrize("d", [16, 7])
def test_layer_zero_is_the_encoders(vocabulary, tiny_bert, d: int) -> None:
    ids = torch.randint(4, 44, (1, 12), generator=torch.Generator().manual_seed(1))
    states = Encoder.open(tiny_bert).hidden_states(ids, torch.ones_like(ids).bool(), 0)[0]
    for position in (0, 3, 11):
        found = vocabulary.at(position, ids[0].numpy(), d)
        assert torch.allclose(found[position], normalised(states, d)[position], atol=1e-5)
        assert torch.allclose(found.norm(dim=1), torch.tensor(d**0.5))


def test_roberta_counts_positions_from_the_padding_on(tiny_bert, tmp_path) -> None:
    from transformers import RobertaConfig, RobertaModel

    folder = tmp_path / "roberta"
    shutil.copytree(tiny_bert, folder)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = RobertaConfig(
        vocab_size=50, intermediate_size=32, max_position_embeddings=20, pad_token_id=0, **size
    )
    RobertaModel(config).save_pretrained(folder)
    made = make_vocabulary(tmp_path / "v.h5", folder, "encoders.roberta")
    assert len(made) == 50
    assert len(made.places) == 19
    assert made.special[44:].all(), "rows that the tokenizer does not know"
    ids = torch.arange(5, 15)[None]
    states = Encoder.open(folder).hidden_states(ids, torch.ones_like(ids).bool(), 0)[0]
    found = made.at(4, ids[0].numpy(), 16)
    assert torch.allclose(found[4], normalised(states, 16)[4], atol=1e-5)


def test_static_vectors_are_the_rows_of_the_table(vocabulary, tiny_bert) -> None:
    table = Encoder.open(tiny_bert).embedding_layer()["vectors"]
    found = vocabulary.static([9, 4, 9], 10, torch.float64)
    assert found.dtype == torch.float64
    assert torch.allclose(found, normalised(table[[9, 4, 9]].double(), 10), rtol=1e-12)
    assert torch.equal(vocabulary.static([0], 10), torch.zeros(1, 10)), "padding has no direction"


def test_special_tokens_are_no_candidates(vocabulary, tiny_bert, tmp_path) -> None:
    data = SimpleNamespace()
    assert vocabulary.pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "w0"]
    assert vocabulary.candidates("all", False, data, "k").tolist() == list(range(4, 44))
    assert vocabulary.candidates("all", True, data, "k").tolist() == list(range(44))
    listed = vocabulary.candidates(["w3", "[CLS]", "w0"], False, data, "k")
    assert listed.tolist() == [2, 4, 7]
    with pytest.raises(UserError, match=r"k\.candidates: 'W3' is no word piece"):
        vocabulary.candidates(["w3", "W3"], False, data, "k")
    folder = tmp_path / "unused"
    shutil.copytree(tiny_bert, folder)
    tokenizer = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(tokenizer.replace('"w5"', '"[unused5]"'))
    made = make_vocabulary(tmp_path / "unused.h5", folder, "encoders.unused")
    assert 9 not in made.candidates("all", False, data, "k")


def test_the_most_frequent_words_of_the_dataset(vocabulary) -> None:
    ids = np.array([[2, 9, 9, 9, 8, 8], [9, 8, 7, 6, 6, 6]], dtype=np.int32)
    data = SimpleNamespace(token_ids=ids, lengths=np.array([6, 3]), tokens=6)
    assert vocabulary.candidates("frequent:2", False, data, "k").tolist() == [8, 9]
    # what stands after a sample's end does not count, nor does the special token 2
    assert vocabulary.candidates("frequent:99", False, data, "k").tolist() == [7, 8, 9]
    assert vocabulary.candidates("frequent:99", True, data, "k").tolist() == [2, 7, 8, 9]
    nothing = SimpleNamespace(token_ids=ids, lengths=np.array([1, 0]), tokens=6)
    with pytest.raises(UserError, match="leaves no word"):
        vocabulary.candidates("frequent:5", False, nothing, "k")


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a", "scoot", "##er", "'", "s"], "a scooter ' s"),
        (["Ġa", "Ġscoot", "er"], "a scooter"),
        (["▁un", "▁velo", "s"], "un velos"),
    ],
)
def test_pieces_of_one_word_are_put_together(vocabulary, pieces, text) -> None:
    other = Vocabulary(**{**vars(vocabulary), "pieces": pieces})
    assert other.text(range(len(pieces))) == text


def test_bad_positions_and_files_are_one_line(vocabulary, tmp_path) -> None:
    with pytest.raises(UserError, match="positions 0 to 63, and not 64"):
        vocabulary.at(64, [4], 16)
    with pytest.raises(UserError, match="16 dimensions, not 17"):
        vocabulary.static([4], 17)
    with pytest.raises(UserError, match="no such file"):
        open_vocabulary(tmp_path / "none.h5")
    torn = tmp_path / "torn.h5"
    torn.write_bytes(vocabulary.path.read_bytes()[:3000])
    with pytest.raises(UserError, match="not readable as a vocabulary"):
        open_vocabulary(torn)
    shutil.copy(vocabulary.path, torn)
    with h5py.File(torn, "a") as file:
        file.attrs["complete"] = False
    with pytest.raises(UserError, match=r"torn\.h5: incomplete.*run snakemake again"):
        open_vocabulary(torn)
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(UserError):
        make_vocabulary(tmp_path / "gpt.h5", tmp_path / "gpt", "encoders.gpt")
    assert not (tmp_path / "gpt.h5").exists()
