"""What a model report says: headings, sentences and tables, before they are Markdown or HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wordsens.audits import of_table

if TYPE_CHECKING:
    import pandas as pd

SCALES = "Every number is relative: the length of the change over the length of what changed."


@dataclass(frozen=True)
class Part:
    """A heading with sentences, a table, and the entry whose figure stands below.

    ``numbers`` are the columns that are aligned to the right, by their places.
    """

    title: str
    sentences: list[str]
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    figure: str | None = None
    level: int = 2
    text_columns: frozenset[int] = frozenset()


def introduction(
    settings: Mapping[str, Any], counts: Mapping[str, int], shas: Mapping[str, str]
) -> list[str]:
    """What was measured of what."""
    weights = ", ".join(f"{name} (sha256 {value[:12]}…)" for name, value in shas.items())
    return [
        f"Texts: {settings['texts'] or 'the default corpus'}, {counts.get('word_pieces', 0):,} "
        f"word pieces, {counts.get('samples', 0):,} windows. Weights: {weights}.",
        f"What one changed word can do. {SCALES}",
    ]


def parts(
    tables: Mapping[str, pd.DataFrame], words: pd.DataFrame, causal: bool = False
) -> list[Part]:
    """The parts of a report in its order.

    ``tables`` are the entries' tables by the names of their figures, which end in their kind;
    ``words`` is that of ``report_words``, ``causal`` whether the model is a decoder.
    """
    made = {
        "explanation": _explanation,
        "layers": _layers,
        "positions": _positions,
        "attraction": _attraction,
        "attention": _attention,
        "vocabulary": _vocabulary,
    }
    found = []
    for name, table in tables.items():
        if "accuracy" in table:
            found.append(_classifier(table))
            continue
        kind = name.rsplit("_", 1)[1]
        part = made[kind](table, causal)
        found.append(Part(**(vars(part) | {"figure": name})))
        if kind == "layers":
            found.append(_words(words, table))
    return found


def _explanation(table: pd.DataFrame, causal: bool) -> Part:
    best = table[(table["by"] == "real word") & (table["rank"] == 1)]
    last = best["target"].iloc[-1]
    rows = []
    for text, own in best[best["target"] == last].groupby("text"):
        for row in own.nlargest(3, "change").itertuples():
            cells = [str(text + 1), str(row.position + 1), row.piece, row.new]
            rows.append([*cells, f"{row.change:.3f}", f"{row.distance:.2f}"])
    named = last if last != "output" else "the output"
    decoder = " Of a decoder, a word reaches only itself and what comes after it." if causal else ""
    return Part(
        "Your text, word by word",
        [
            "The largest relative change that a word of the vocabulary makes in each word's place; "
            f"every change is exact, and the words are a shortlist.{decoder} Below, the three "
            f"words of each text that change {named} most.",
        ],
        ["text", "token", "word", "becomes", "change", "distance"],
        rows,
        text_columns=frozenset({2, 3}),
    )


def _classifier(table: pd.DataFrame) -> Part:
    rows = [[row.texts, str(row.windows), f"{row.accuracy:.1%}"] for row in table.itertuples()]
    return Part(
        "The classifier",
        ["Logistic regression on the encoder's mean last hidden states; whole texts are held out."],
        ["texts", "windows", "classified right"],
        rows,
        text_columns=frozenset({0}),
    )


def _layers(table: pd.DataFrame, causal: bool) -> Part:
    texts = int(table.groupby("n")["sample"].nunique().max())
    lengths = sorted(table["n"].unique())
    means = table.groupby(["weights", "layer", "n"])["sup"].mean()
    rows = [
        [weights, str(layer), *(f"{means[weights, layer, n]:.3f}" for n in lengths)]
        for weights, layer in sorted({key[:2] for key in means.index})
    ]
    first = int(table["position"].iloc[0]) + 1
    which = "the first word" if first == 1 else f"word {first}"
    why = "; a word of a decoder reaches only itself and what comes after it" if causal else ""
    sentence = (
        "The largest relative change of a layer's hidden states that a search by gradient found "
        f"when {which} moves by at most its own length, ‖Δ‖ ≤ ‖x_i‖, behind the embedding "
        f"layer{why}. Mean over {texts} text{'s' * (texts > 1)}; a lower bound on the word "
        "sensitivity. Layer 0 is the moved word itself. Random weights are the same architecture "
        "before training."
    )
    last, after = table["layer"].max(), []
    for weights in sorted(table["weights"].unique()) if len(lengths) > 1 else ():
        begin, end = (means[weights, last, n] for n in (lengths[0], lengths[-1]))
        after.append(
            f"With {weights} weights the last layer's sensitivity goes from {begin:.3f} at n = "
            f"{lengths[0]} to {end:.3f} at n = {lengths[-1]}, a factor of {end / begin:.2f}; 1/√n "
            f"would give {(lengths[0] / lengths[-1]) ** 0.5:.2f}."
        )
    after += _audited(table)
    columns = ["weights", "layer", *(f"n = {n}" for n in lengths)]
    return Part("Layer by layer", [sentence], columns, rows, after, text_columns=frozenset({0}))


def _words(words: pd.DataFrame, layers: pd.DataFrame) -> Part:
    """Discrete substitutions beside the continuous search at the same word of the same text."""
    own = layers[(layers["weights"] == "pretrained") & (layers["trial"] == 0)]
    found = own.set_index(["n", "layer"])["sup"]
    rows = []
    for row in words[words["rank"] <= 3].itertuples():
        searched = found.get((row.n, row.layer))
        cells = [str(row.n), str(row.layer), row.context, row.new]
        cells += [f"{row.change:.3f}", f"{row.distance:.2f}"]
        rows.append([*cells, "–" if searched is None else f"{searched:.3f}"])
    sentence = (
        "The same word of the same text (the first trial) replaced by another word of the "
        "vocabulary. Every change is exact; which words were run the gradient chose. "
        "Distances are in units of the word's own length; the search above may go as far as 1."
    )
    columns = ["n", "layer", "word in its text", "becomes", "change", "distance", "search found"]
    return Part("Real words", [sentence], columns, rows, level=3, text_columns=frozenset({2, 3}))


def _positions(table: pd.DataFrame, causal: bool) -> Part:
    last = table[table["layer"] == table["layer"].max()]
    means = last.groupby("position_tried")["sup_at_position"].mean()
    first, end = means.index[0], means.index[-1]
    return Part(
        "By position",
        [
            "A word of a decoder reaches only itself and what comes after it, so that later words "
            f"of a text reach less. At n = {int(table['n'].iloc[0])} the last layer changes by "
            f"{means[first]:.3f} when word {first + 1} moves by its own length, and by "
            f"{means[end]:.3f} when word {end + 1} does."
        ],
    )


def _attraction(table: pd.DataFrame, causal: bool) -> Part:
    n = int(table["tokens"].iloc[0])
    changes = table[table["quantity"] == "relative_change"]
    last = changes[changes["layer"] == changes["layer"].max()]
    value = last.groupby("perturbation")["value"].mean()
    received = table[table["quantity"] == "attention_to_word"]
    mean = received.groupby("perturbation")["value"].mean()
    if "queries" not in value:
        gets = f" The attention it gets is {mean['none']:.4f} (1/n = {1 / n:.4f})." * len(mean)
        sentence = (
            "Directions that attract attention are left out: the first block of this model does "
            "not score layer 0 itself by its queries and keys (it normalises before, turns them by "
            f"position, shares or fuses them). One of {n} tokens moves by its own length in "
            f"Gaussian directions, and the last layer changes by {value['noise']:.3f}.{gets}"
        )
        return Part("Attracted attention", [sentence])
    sentence = (
        f"One of {n} tokens moves by its own length in two directions that attract the first "
        "block's attention: along the heads' top singular vectors, and along what all queries "
        "together respond to most. The attention it gets, averaged over queries and heads, goes "
        f"from {mean['none']:.4f} to {mean['singular']:.4f} and {mean['queries']:.4f} (1/n = "
        f"{1 / n:.4f}). The last layer changes by {value['singular']:.3f} and "
        f"{value['queries']:.3f}, and by {value['noise']:.3f} under Gaussian noise of the same "
        "length."
    )
    return Part("Attracted attention", [sentence])


def _attention(table: pd.DataFrame, causal: bool) -> Part:
    sentences = " and ".join(f"“{text}”" for text in table["sentence"].unique())
    decoder = " A token of a decoder attends to itself and to those before it." if causal else ""
    return Part(
        "Attention of two sentences",
        [f"The first block's attention, averaged over heads, of {sentences}.{decoder}"],
    )


def _vocabulary(table: pd.DataFrame, causal: bool) -> Part:
    names = ["continuous", "first", "sup", "sup_in_ball"]
    rows = []
    for n, row in table.groupby("n")[names].mean().iterrows():
        rows.append([str(n), *("–" if row[k] != row[k] else f"{row[k]:.3f}" for k in names)])
    of = f", its first {int(table['d'].iloc[0])} dimensions" if "d" in table else ""
    sentence = (
        f"The paper's random attention layer on the model's own word vectors{of}: the supremum "
        "over the ball at one position beside the most that any real word does, at that position "
        "and anywhere."
    )
    columns = ["n", "any Δ in the ball", "any word there", "any word anywhere", "inside the ball"]
    title = "Any word of the vocabulary, in a random attention layer"
    return Part(title, [sentence], columns, rows, _audited(table))


def _audited(table: pd.DataFrame) -> list[str]:
    """What the audit of the searches says, where there was one."""
    said = of_table(table)
    return [f"What was found lies {said}."] if said else []
