"""The page of model_report: what was measured of the user's encoder, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wordsens.audits import of_table

if TYPE_CHECKING:
    import pandas as pd

SCALES = "Every number is relative: the length of the change over the length of what changed."


def page(
    settings: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    words: pd.DataFrame,
    counts: Mapping[str, int],
    shas: Mapping[str, str],
) -> str:
    """The report as Markdown, its figures named beside it.

    ``tables`` are the entries' tables by the names of their figures, which end in their kind;
    ``words`` is that of ``report_words``.
    """
    lines = [
        f"# Word sensitivity of {settings['encoder']}",
        "",
        f"Texts: {settings['texts'] or 'the default corpus'}, {counts.get('word_pieces', 0):,} "
        f"word pieces, {counts.get('samples', 0):,} windows. Weights: "
        + ", ".join(f"{name} (sha256 {value[:12]}…)" for name, value in shas.items())
        + ".",
        "",
        f"What one changed word can do. {SCALES}",
    ]
    parts = {
        "layers": _layers,
        "attraction": _attraction,
        "attention": _attention,
        "vocabulary": _vocabulary,
    }
    for name, table in tables.items():
        kind = name.rsplit("_", 1)[1]
        lines += ["", *parts[kind](table), "", f"![{kind}]({name}.png)", ""]
        lines.append(f"Numbers: [{name}.csv]({name}.csv); to print: [{name}.pdf]({name}.pdf).")
        if kind == "layers":
            lines += ["", *_words(words, table)]
    return "\n".join(lines) + "\n"


def _layers(table: pd.DataFrame) -> Iterator[str]:
    yield "## Layer by layer"
    yield ""
    texts = int(table.groupby("n")["sample"].nunique().max())
    yield (
        "The largest relative change of a layer's hidden states that a search by gradient found "
        "when the first word moves by at most its own length, ‖Δ‖ ≤ ‖x_i‖, behind the embedding "
        f"layer. Mean over {texts} text{'s' * (texts > 1)}; a lower bound on the word sensitivity. "
        "Layer 0 is the moved word itself. Random weights are the same architecture before "
        "training."
    )
    yield ""
    lengths = sorted(table["n"].unique())
    yield "| weights | layer | " + " | ".join(f"n = {n}" for n in lengths) + " |"
    yield "|---|--:|" + "--:|" * len(lengths)
    means = table.groupby(["weights", "layer", "n"])["sup"].mean()
    for weights, layer in sorted({key[:2] for key in means.index}):
        cells = [f"{means[weights, layer, n]:.3f}" for n in lengths]
        yield f"| {weights} | {layer} | " + " | ".join(cells) + " |"
    yield from _audited(table)
    if len(lengths) == 1:
        return
    last = table["layer"].max()
    for weights in sorted(table["weights"].unique()):
        yield ""
        first, end = (means[weights, last, n] for n in (lengths[0], lengths[-1]))
        yield (
            f"With {weights} weights the last layer's sensitivity goes from {first:.3f} at n = "
            f"{lengths[0]} to {end:.3f} at n = {lengths[-1]}, a factor of {end / first:.2f}; 1/√n "
            f"would give {(lengths[0] / lengths[-1]) ** 0.5:.2f}."
        )


def _words(words: pd.DataFrame, layers: pd.DataFrame) -> Iterator[str]:
    """Discrete substitutions beside the continuous search at the same word of the same text."""
    yield "### Real words"
    yield ""
    yield (
        "The same word of the same text (the first trial) replaced by another word of the "
        "encoder's vocabulary. Every change is exact; which words were run the gradient chose. "
        "Distances are in units of the word's own length; the search above may go as far as 1."
    )
    yield ""
    yield "| n | layer | word in its text | becomes | change | distance | search found |"
    yield "|--:|--:|---|---|--:|--:|--:|"
    own = layers[(layers["weights"] == "pretrained") & (layers["trial"] == 0)]
    found = own.set_index(["n", "layer"])["sup"]
    for row in words[words["rank"] <= 3].itertuples():
        searched = found.get((row.n, row.layer))
        cells = [str(row.n), str(row.layer), _plain(row.context, keep="*"), _plain(row.new)]
        cells += [f"{row.change:.3f}", f"{row.distance:.2f}"]
        cells.append("–" if searched is None else f"{searched:.3f}")
        yield "| " + " | ".join(cells) + " |"


def _attraction(table: pd.DataFrame) -> Iterator[str]:
    yield "## Attracted attention"
    yield ""
    received = table[table["quantity"] == "attention_to_word"]
    mean = received.groupby("perturbation")["value"].mean()
    n = int(table["tokens"].iloc[0])
    changes = table[table["quantity"] == "relative_change"]
    last = changes[changes["layer"] == changes["layer"].max()]
    value = last.groupby("perturbation")["value"].mean()
    yield (
        f"One of {n} tokens moves by its own length in two directions that attract the first "
        "block's attention: along the heads' top singular vectors, and along what all queries "
        "together respond to most. The attention it gets, averaged over queries and heads, goes "
        f"from {mean['none']:.4f} to {mean['singular']:.4f} and {mean['queries']:.4f} (1/n = "
        f"{1 / n:.4f}). The last layer changes by {value['singular']:.3f} and "
        f"{value['queries']:.3f}, and by {value['noise']:.3f} under Gaussian noise of the same "
        "length."
    )


def _attention(table: pd.DataFrame) -> Iterator[str]:
    yield "## Attention of two sentences"
    yield ""
    sentences = " and ".join(f"“{_plain(text)}”" for text in table["sentence"].unique())
    yield f"The first block's attention, averaged over heads, of {sentences}."


def _vocabulary(table: pd.DataFrame) -> Iterator[str]:
    yield "## Any word of the vocabulary, in a random attention layer"
    yield ""
    yield (
        "The paper's random attention layer on the encoder's own word vectors: the supremum over "
        "the ball at one position beside the most that any real word does, at that position and "
        "anywhere."
    )
    yield ""
    yield "| n | any Δ in the ball | any word there | any word anywhere | inside the ball |"
    yield "|--:|--:|--:|--:|--:|"
    names = ["continuous", "first", "sup", "sup_in_ball"]
    for n, row in table.groupby("n")[names].mean().iterrows():
        cells = ["–" if row[name] != row[name] else f"{row[name]:.3f}" for name in names]
        yield f"| {n} | " + " | ".join(cells) + " |"
    yield from _audited(table)


def _audited(table: pd.DataFrame) -> Iterator[str]:
    """What the audit of the searches says, where there was one."""
    if said := of_table(table):
        yield ""
        yield f"What was found lies {said}."


def _plain(text: Any, keep: str = "") -> str:
    """Text that is no Markdown, but for the signs to keep."""
    return "".join(f"\\{c}" if c in "\\`*_{}<>#|~" and c not in keep else c for c in str(text))
