# The checked configuration, and the few functions that the rules share.
import functools
import shlex
import sys

import pandas as pd

from wordsens.config import (
    AXES,
    LAYERS_AXES,
    REPORT_KINDS,
    STUDY_AXES,
    VOCABULARY_AXES,
    load_or_exit,
)
from wordsens.failures import what_failed
from wordsens.provenance import fingerprint

# Snakemake calls a script's interpreter unquoted, which fails below a folder with a space.
if " " in sys.executable and os.path.exists(sys.executable):
    sys.executable = shlex.quote(sys.executable)

cfg = load_or_exit(
    config,
    workflow.configfiles,
    os.path.join(HERE, "workflow", "schemas", "config.schema.yaml"),
)

# A cell's path spells its point, so a value added to the configuration runs only new cells.
spaces = {
    name: Paramspace(pd.DataFrame(sweep.points(), columns=AXES))
    for name, sweep in cfg.sweeps.items()
}
cell_pattern = Paramspace(pd.DataFrame(columns=AXES)).wildcard_pattern
study_spaces = {
    name: Paramspace(pd.DataFrame(study.points(), columns=STUDY_AXES))
    for name, study in cfg.generalization.items()
}
study_pattern = Paramspace(pd.DataFrame(columns=STUDY_AXES)).wildcard_pattern
vocabulary_spaces = {
    name: Paramspace(pd.DataFrame(study.points(), columns=VOCABULARY_AXES))
    for name, study in cfg.vocabulary.items()
}
vocabulary_pattern = Paramspace(pd.DataFrame(columns=VOCABULARY_AXES)).wildcard_pattern
layers_spaces = {
    name: Paramspace(pd.DataFrame(study.points(), columns=LAYERS_AXES))
    for name, study in cfg.layers.items()
}
layers_pattern = Paramspace(pd.DataFrame(columns=LAYERS_AXES)).wildcard_pattern
# With device: auto a run asks for cards only when it is told how many (--resources gpu=N).
cards = workflow.global_resources.get("gpu")
cards = getattr(cards, "value", cards)  # a plain number in older versions of Snakemake
gpus = 1 if cfg.device == "cuda" or (cfg.device == "auto" and cards) else 0

CATEGORIES = {
    **dict.fromkeys(("context_length", "words", "positions"), "Word sensitivity"),
    **dict.fromkeys(
        ("generalization", "tradeoff", "change"), "Generalization on a changed word"
    ),
    **dict.fromkeys(("attention", "attraction", "layers", "prompts"), "Trained models"),
    "vocabulary": "Discrete words",
}


@functools.cache
def code(script, map=None):
    """A fingerprint of a script and of every wordsens module it can reach (with one map)."""
    return fingerprint(os.path.join(HERE, "scripts", script), map=map)


def pages(figure):
    """The files of one figure."""
    return multiext(f"results/figures/{figure.name}", ".pdf", ".png", ".csv", ".rst")


def shown(figure):
    """The files of one figure, in the report under the caption that the figure's job wrote."""
    caption = os.path.abspath(f"results/figures/{figure.name}.rst")
    heading = CATEGORIES.get(figure.kind, figure.kind.replace("_", " ").capitalize())
    *drawn, text = pages(figure)
    files = [text]
    for page, form in zip(drawn, ("PDF", "PNG", "CSV of the numbers")):
        labels = {"figure": figure.name, "format": form}
        files.append(report(page, caption=caption, category=heading, labels=labels))
    return files


def cells(wildcards):
    """The cell files of one sweep."""
    points = spaces[wildcards.sweep].instance_patterns
    return [f"results/sensitivity/{wildcards.sweep}/{point}.h5" for point in points]


def cell(wildcards):
    """All parameters of one cell."""
    point = {axis: int(wildcards[axis]) for axis in AXES}
    return cfg.sweeps[wildcards.sweep].cell(cfg.seed, **point)


def cell_data(wildcards):
    """The embeddings that a cell reads; nothing for synthetic samples."""
    dataset = cfg.datasets[cfg.sweeps[wildcards.sweep].dataset]
    return [f"results/embeddings/{dataset.name}.h5"] if dataset.embedded else []


def cell_mem_mb(wildcards, attempt):
    """Rough memory of a cell: samples and score matrices of all trials, and bases of wide layers."""
    sweep = cfg.sweeps[wildcards.sweep]
    d, n, depth = int(wildcards.d), int(wildcards.n), int(wildcards.depth)
    batch = sweep.shared["trials"] * 8 * (8 * n * d + 8 * n * n)
    wide = 400 * 8 * depth * n * d if sweep.shared["map"] in ("rf", "drf") else 0
    return attempt * min(20000, 1500 + (batch + wide) // 10**6)


def study_cells(wildcards):
    """The cell files of one study."""
    points = study_spaces[wildcards.study].instance_patterns
    return [f"results/generalization/{wildcards.study}/{point}.h5" for point in points]


def study_cell(wildcards):
    """All parameters of one cell."""
    point = {axis: int(wildcards[axis]) for axis in STUDY_AXES}
    return cfg.generalization[wildcards.study].cell(cfg.seed, **point)


def study_data(wildcards):
    """The embeddings that a cell reads; nothing for synthetic samples."""
    dataset = cfg.datasets[cfg.generalization[wildcards.study].dataset]
    return [f"results/embeddings/{dataset.name}.h5"] if dataset.embedded else []


def study_mem_mb(wildcards, attempt):
    """Rough memory of a cell: samples and features of one trial, functionals of all, Gram matrix."""
    study = cfg.generalization[wildcards.study].shared
    d, n, N = (int(wildcards[axis]) for axis in STUDY_AXES)
    size = 8 if study["precision"] == "float64" else 4
    features = study.get("width") or "D"
    p = n * d if features == "D" else features
    floats = (N + 1) * (n * d + p) * size + 40 * study["trials"] * p + 48 * N * N
    if study["map"] == "rf":
        floats += 60 * p * size + p * d * size
    return attempt * min(60000, 800 + 1.2 * floats // 10**6)


def discrete_cells(wildcards):
    """The cell files of one vocabulary study."""
    points = vocabulary_spaces[wildcards.vocabulary].instance_patterns
    return [f"results/vocabulary/{wildcards.vocabulary}/{point}.h5" for point in points]


def discrete_cell(wildcards):
    """All parameters of one cell."""
    point = {axis: int(wildcards[axis]) for axis in VOCABULARY_AXES}
    return cfg.vocabulary[wildcards.vocabulary].cell(cfg.seed, **point)


def discrete_mem_mb(wildcards, attempt):
    """Rough memory of a cell: the vocabulary's vectors, score matrices, and a block of features."""
    d, n = (int(wildcards[axis]) for axis in VOCABULARY_AXES)
    wide = (
        8 * 3 * n * d * d
        if cfg.vocabulary[wildcards.vocabulary].shared["map"] == "rf"
        else 0
    )
    return attempt * min(60000, 2500 + (8 * 8 * n * n + wide) // 10**6)


def layers_cells(wildcards):
    """The cell files of one study of an encoder's layers."""
    points = layers_spaces[wildcards.layers].instance_patterns
    return [f"results/layers/{wildcards.layers}/{point}.h5" for point in points]


def layers_encoder(wildcards):
    """The name of the encoder that a study of layers searches."""
    dataset = cfg.datasets[cfg.layers[wildcards.layers].dataset]
    return dataset.settings["encoder"]


def layers_cell(wildcards):
    """All parameters of one cell."""
    study = cfg.layers[wildcards.layers]
    point = study.cell(cfg.seed, weights=wildcards.weights, n=int(wildcards.n))
    return {**point, "encoder": layers_encoder(wildcards)}


def attraction_data(wildcards):
    """The embeddings that an attraction takes its text from; nothing for a text of its own."""
    dataset = cfg.attraction[wildcards.attraction].get("dataset")
    return [f"results/embeddings/{dataset}.h5"] if dataset else []


def report_entries():
    """The figures of the report, in its order; nothing without an encoder."""
    names = [f"{cfg.report}_{kind}" for kind in REPORT_KINDS]
    return [name for name in names if name in cfg.figures] if cfg.report else []


def report_study(report):
    """The lengths and the dataset of the report's search of layers."""
    study = cfg.layers[f"{report}_layers"]
    return {"dataset": study.dataset, "n": study.axes["n"]}


def report_page(wildcards):
    """The page to make; who asks for it without an encoder is told how."""
    if cfg.report is None:
        # Any other exception in an input function is printed with a traceback.
        print("model_report needs --config encoder=PATH texts=FILE", file=sys.stderr)
        raise SystemExit(1)
    return f"results/model_report/{cfg.report}/report.md"
