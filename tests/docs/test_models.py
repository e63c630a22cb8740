"""The examples of docs/models.md, run in a folder with an encoder, a classifier and a decoder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import word_level
from tests.encoders.zoo import with_head

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "models.md"
BLOCKS = dict(re.findall(r"(?ms)^```\w+ title=(\S+)\n(.*?)^```", PAGE.read_text("utf-8")))
WORDS = ["a", "and", "cold", "dull", "film", "good", "joke", "one", "warm", "with", "but", "old"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of this page's words, as transformers saves them."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("docs") / "my run"
    plain = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    for name, family, auto in (
        ("my-classifier", "distilbert", "AutoModelForSequenceClassification"),
        ("my-encoder", "bert", "AutoModel"),
        ("my-decoder", "llama", "AutoModelForCausalLM"),
    ):
        tokenizer = word_level(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])
        options = dict(plain)
        if name != "my-decoder":
            ends = [("[CLS]", 2), ("[SEP]", 3)]
            tokenizer.post_processor = processors.TemplateProcessing(
                single="[CLS] $A [SEP]", special_tokens=ends
            )
            options |= {"cls_token": "[CLS]", "sep_token": "[SEP]"}
        changes = {"vocab_size": 4 + len(WORDS), "max_position_embeddings": 80}
        with_head(family, auto, **changes).save_pretrained(path / "models" / name)
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **options)
        fast.save_pretrained(path / "models" / name)
    rows = [
        f"a {'good' if up else 'dull'} film {i},{'up' if up else 'down'}"
        for i, up in enumerate([True, False] * 6)
    ]
    (path / "my-texts.csv").write_text("text,verdict\n" + "\n".join(rows) + "\n")
    return path


def run(folder: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.mark.parametrize("name", [name for name in BLOCKS if name.endswith(".py")])
def test_an_example_runs(folder: Path, name: str) -> None:
    (folder / name).write_text(BLOCKS[name], encoding="utf-8")
    printed = run(folder, name)
    said = {
        "classifier.py": "LABEL_",
        "encoder.py": "LayerSensitivity(",
        "train.py": "of the held-out texts",
        "decoder.py": "next token:",
        "texts.py": "Explanations(2 texts, 3 windows)",
    }
    assert said[name] in printed
    assert (folder / "page.html").exists() or name != "classifier.py"


def test_the_configuration_makes_its_figure_and_pages(folder: Path) -> None:
    (folder / "mine.yaml").write_text(BLOCKS["mine.yaml"], encoding="utf-8")
    text = PAGE.read_text("utf-8")
    command = re.search(r"^    snakemake (.*mine_words.*)$", text, re.M)
    assert command is not None
    run(folder, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), *command[1].split())
    assert (folder / "results" / "figures" / "mine_words.pdf").stat().st_size > 1000
    pages = {path.name for path in (folder / "results" / "pages" / "mine_pages").iterdir()}
    assert pages >= {"index.html", "text-1.html", "text-2.html"}
    assert "held-out" in (folder / "results" / "pages" / "mine_pages" / "text-1.html").read_text()
