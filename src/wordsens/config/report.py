"""The entries that ``--config encoder=PATH texts=FILE`` adds, for the target model_report.

A model is sized by what its config.json says: a decoder is measured at a word with others before
and after it, and of a deep model some layers, unless the report's settings say otherwise.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wordsens.config.model import report_name
from wordsens.errors import UserError
from wordsens.yamls import Plain

if TYPE_CHECKING:
    from wordsens.data.encoders import Encoder

# In the order of the report.
REPORT_KINDS = ("explanation", "layers", "positions", "attraction", "attention", "vocabulary")
SECTIONS = {"explanation": "explanations", "positions": "layers"}  # where not the kind's own name
DRAWN = {"positions": "layer_positions"}  # the kind of figure, where not the kind's own name
UNKNOWN_D = 96  # dimensions taken of a model that is not here yet to say how many it has
DEEP, SOME = 12, 6  # of models with more layers than that, so many are searched
NEAR = 32  # tokens of the texts whose positions are compared


def with_report(config: Mapping[str, Any], schema: Plain) -> Plain:
    """The configuration with a corpus, a dataset, studies and figures of the user's own encoder.

    Without ``encoder`` nothing is added.  Values that break the schema are left for its check.
    """
    filled = _at_home(copy.deepcopy(dict(config)))
    encoder = filled.get("encoder")
    if not isinstance(encoder, str) or not encoder:
        return filled
    name = report_name(encoder)
    used, encoder = _named(filled, encoder)  # the entry of encoders that is reported on
    given = filled.get("report")
    sizes = {key: part["default"] for key, part in _properties(schema, "report").items()}
    known = opened(encoder)
    window = known.max_tokens if known else None
    sizes["n"] = [n for n in sizes["n"] if window is None or n <= window] or [window]
    if known and known.layers > DEEP:
        sizes["layers"] = [round(known.layers * (k + 1) / SOME) for k in range(SOME)]
    # What breaks the schema is said once, of the report, and not of each entry made from it.
    sizes |= {k: v for k, v in _items(given) if k in sizes and _alike(v, sizes[k])}

    def add(section: str, entry: Plain, key: str = name) -> None:
        if isinstance(filled.setdefault(section, {}), dict):
            filled[section][key] = entry

    if used is None:
        add("encoders", _source(encoder))
    used = used or name
    corpora = filled.get("corpora") or {}
    texts = filled.get("texts") or next(iter(corpora), None)
    corpus = texts if texts in corpora else name
    pages = corpus
    if corpus == name and isinstance(texts, str):
        own = {"source": "file", "path": texts, "text": sizes["text"], "labelled": False}
        add("corpora", {**own, "join": "all"})
        pages = f"{name}_texts"
        add("corpora", own, pages)
    lengths, decoder = sizes["n"], bool(known and known.generates)
    dataset = {"source": "text", "corpus": corpus, "encoder": used, "layer": 0}
    add("datasets", {**dataset, "policy": "windows", "tokens": max(lengths), "balanced": False})
    shared = {key: sizes[key] for key in ("n", "trials")}
    effort = {key: sizes[key] for key in ("layers", "starts", "steps", "audit")}
    # In a decoder the first word is what all others attend to, and the last reaches nothing.
    word = {"positions": [max(0, min(lengths) // 2 - 1)]} if decoder else {}
    add("layers", {"dataset": name, **shared, **effort, **word}, f"{name}_layers")
    if decoder:
        near = {"n": [min(NEAR, max(lengths))], "trials": sizes["trials"], "starts": 1, "steps": 5}
        several = {"weights": ["pretrained"], "layers": sizes["layers"], "positions": "random:8"}
        if near["n"][0] >= 16:
            add("layers", {"dataset": name, **near, **several}, f"{name}_positions")
    longest = max(lengths)  # two special tokens included, as a rule
    middle = {"position": max(0, min(longest // 3, longest - 3)), "tokens": longest}
    add("attraction", {"encoder": used, "dataset": name, **middle}, f"{name}_attraction")
    map_ = {"map": "raf", "dataset": name, "d": [known.hidden_size if known else UNKNOWN_D]}
    add("vocabulary", {**map_, **shared, "audit": sizes["audit"]}, f"{name}_vocabulary")
    page = {key: sizes[key] for key in ("tokens", "windows", "effort")}
    page |= {"encoder": used, "corpus": pages, "texts": sizes["texts"]}
    labelled = isinstance(corpora.get(corpus), dict) and corpora[corpus].get("labelled", True)
    if labelled and not (known and (known.generates or known.classifies)):
        page["classifier"] = _classifier(filled, used, str(corpus)) or f"{name}_classifier"
        if page["classifier"] == f"{name}_classifier":
            add("classifiers", {"encoder": used, "corpus": corpus}, page["classifier"])
    add("explanations", page, f"{name}_explanation")
    sentences = next(iter((filled.get("attention") or {}).values()), None)
    if isinstance(sentences, dict) and "sentences" in sentences:
        add("attention", {**sentences, "encoder": used}, f"{name}_attention")
    for kind in REPORT_KINDS:
        key = f"{name}_{kind}"
        if key in filled.get(SECTIONS.get(kind, kind), {}):
            add("figures", {"kind": DRAWN.get(kind, kind), "sweeps": [key], "default": False}, key)
    return filled


def _classifier(config: Plain, encoder: str, corpus: Any) -> str | None:
    """The first entry of classifiers that is of this encoder and corpus."""
    wanted = {"encoder": encoder, "corpus": corpus}
    for name, entry in _items(config.get("classifiers")):
        if isinstance(entry, dict) and wanted.items() <= entry.items():
            return str(name)
    return None


def _source(encoder: str) -> Plain:
    """Where a model comes from: a path, or a name on the hub with its commit."""
    from wordsens.data.hub import pinned

    found = None if os.path.exists(encoder) else pinned(encoder)
    if found is None:
        return {"source": "file", "path": encoder}
    return {"source": "hub", "name": found[0], "revision": found[1]}


def _at_home(config: Plain) -> Plain:
    """The same with ~ at the beginning of a path as the home directory."""
    for key in ("encoder", "texts"):
        if isinstance(config.get(key), str):
            config[key] = os.path.expanduser(config[key])
    for section in ("corpora", "encoders", "models"):
        for _, entry in _items(config.get(section)):
            if isinstance(entry, dict) and isinstance(entry.get("path"), str):
                entry["path"] = os.path.expanduser(entry["path"])
    return config


def _named(config: Plain, encoder: str) -> tuple[str | None, str]:
    """The entry of encoders that goes by this name, if no folder does, and its own folder."""
    entry = dict(_items(config.get("encoders"))).get(encoder)
    if not isinstance(entry, dict) or os.path.exists(encoder):
        return None, encoder
    return encoder, str(entry.get("path", "")) if entry.get("source") == "file" else ""


def opened(folder: str) -> Encoder | None:
    """The encoder, by its config.json; None where the check of the configuration refuses it."""
    if not folder:
        return None
    from wordsens.data.encoders import Encoder

    try:
        return Encoder.open(folder)
    except UserError:
        return None


def _properties(schema: Plain, name: str) -> Plain:
    """The properties of one of the schema's definitions, references followed."""
    definitions = schema["$defs"]
    return {
        key: {**definitions.get(str(part.get("$ref", "")).rsplit("/", 1)[-1], {}), **part}
        for key, part in definitions[name]["properties"].items()
    }


def _items(given: Any) -> list[tuple[str, Any]]:
    return list(given.items()) if isinstance(given, dict) else []


def _alike(value: Any, default: Any) -> bool:
    """Whether a value is of its default's kind; layers may be "all" or a list."""
    if isinstance(value, list) and not isinstance(default, int):
        return bool(value) and all(type(n) is int for n in value)
    return type(value) is type(default)
