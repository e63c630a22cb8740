"""What one key of the configuration asks of another.

Here stand the checks that every kind of study may ask for; which ones an entry needs, its kind
says (``Study.check``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wordsens.config.assembly import figure_options
from wordsens.config.model import Dataset
from wordsens.config.own import (
    Seen,
    described,
    look_at_corpus,
    look_at_encoder,
    look_at_model,
)
from wordsens.config.schema import SchemaCheck, nearest
from wordsens.config.size import MOST_BYTES, least_bytes
from wordsens.errors import UserError
from wordsens.studies import Study, figure_kinds, kinds, targets
from wordsens.studies.base import ENCODER
from wordsens.studies.maps import numbered
from wordsens.yamls import Plain

if TYPE_CHECKING:
    from wordsens.data.encoders import Encoder

Key = tuple[str, ...]

# Dataset keys that only one policy has.
DOCUMENT_KEYS = ("pad_to", "use_padding")
# Names of the workflow's own rules, which a figure's target may not take.
RULES = (
    *("all", "tables", "fetch_corpus", "fetch_encoder", "fetch_model", "embed", "word_pieces"),
    *("report_words", "write_report", "model_report", "draw_figure"),
)


def reserved() -> set[str]:
    """Names of rules."""
    made = {f"{kind}_{what}" for kind in kinds() for what in ("cell", "table")}
    return {*RULES, *made, *targets()}


class CrossCheck(SchemaCheck):
    """The schema's checks, then those between keys."""

    filled: Plain

    def cross(self, filled: Plain) -> None:
        self.filled = filled
        self.seen: dict[str, Seen] = {}
        self.opened: dict[str, Encoder] = {}
        for name, asset in filled["corpora"].items():
            if asset["source"] == "file":
                with self._own_file(("corpora", name)) as key:
                    self.seen[name] = look_at_corpus(asset, key)
        for name, asset in filled["encoders"].items():
            if asset["source"] == "file":
                with self._own_file(("encoders", name)) as key:
                    self.opened[name] = look_at_encoder(asset, key)
            elif (fetched := described(ENCODER.format(name))) is not None:
                self.opened[name] = fetched
        for name, model in filled["models"].items():
            if model["source"] == "file":
                with self._own_file(("models", name)) as key:
                    look_at_model(model, key)
        for name, dataset in filled["datasets"].items():
            if dataset["source"] == "text":
                self._dataset(name, dataset)
        entries = [
            study(name, entry)
            for study in kinds().values()
            for name, entry in filled[study.section].items()
        ]
        self._tables(entries)
        if not self.lines:
            for entry in entries:
                entry.check(self)
        for name, figure in filled["figures"].items():
            self._figure(name, figure)

    # What studies may ask (``studies.checks``)

    def given(self, key: Key) -> Plain:
        found = self.config[key[0]][key[1]]
        return dict(found)

    def known(self, key: Key, value: str, section: str) -> bool:
        names = self.filled[section]
        if value in names:
            return True
        allowed = ", ".join(names) or f"nothing yet; add {section}.{value}"
        self.say(
            key, f"is {value!r}, which {section} lacks; allowed: {allowed}" + nearest(value, names)
        )
        return False

    def texts(self, key: Key, dataset: str) -> bool:
        if not self.known((*key, "dataset"), dataset, "datasets"):
            return False
        if self.filled["datasets"][dataset]["source"] == "text":
            return True
        self.say(
            (*key, "dataset"),
            f"is {dataset!r}, which has no words; allowed: a dataset of source: text",
        )
        return False

    def lengths(self, key: Key, entry: Plain) -> None:
        dataset = entry["dataset"]
        longest = Dataset(dataset, self.filled["datasets"][dataset]).longest
        if longest is not None and max(entry["n"]) > longest:
            self.say(
                (*key, "n"),
                f"is {entry['n']}, but dataset {dataset} has samples of at most {longest} tokens; "
                f"allowed: at most {longest}, or raise datasets.{dataset}.tokens",
            )

    def fits(self, key: Key, entry: Plain) -> None:
        dataset = self.filled["datasets"][entry["dataset"]]
        encoder = self.opened.get(dataset.get("encoder", ""))
        if encoder is not None and max(entry["d"]) > encoder.hidden_size:
            self.say(
                (*key, "d"),
                f"is {entry['d']}, but encoder {dataset['encoder']} gives {encoder.hidden_size} "
                f"dimensions; allowed: at most {encoder.hidden_size}",
            )
        largest: dict[str, int] = {
            axis: max(entry[axis]) for axis in ("d", "n", "N") if axis in entry
        }
        cell = numbered(entry | largest, largest)
        least = least_bytes(cell)
        if least > MOST_BYTES:
            self.say(
                key,
                f"a cell at {', '.join(f'{axis} = {value}' for axis, value in largest.items())} "
                f"needs more than {least / 1e12:.0f} TB of memory; lower "
                f"{', '.join(largest)} or width",
            )

    def positions(self, key: Key, entry: Plain) -> None:
        shortest, positions = min(entry["n"]), entry["positions"]
        if isinstance(positions, list) and max(positions) >= shortest:
            self.say(
                (*key, "positions"),
                f"is {positions}, but n goes down to {shortest}; allowed: 0 to {shortest - 1}",
            )
        if isinstance(positions, str) and positions.startswith("random:"):
            count = int(positions.partition(":")[2])
            if count > shortest:
                self.say(
                    (*key, "positions"),
                    f"is {positions}, but n goes down to {shortest}; allowed: at most "
                    f"random:{shortest}",
                )

    def layers(self, key: Key, entry: Plain) -> None:
        name = self.filled["datasets"][entry["dataset"]]["encoder"]
        encoder = self.opened.get(name)
        if encoder is None:
            return
        layers = entry["layers"]
        if isinstance(layers, list) and max(layers) > encoder.layers:
            self.say(
                (*key, "layers"),
                f"is {layers}, but encoder {name} has layers 0 to {encoder.layers}",
            )
        if max(entry["n"]) > encoder.max_tokens:
            self.say(
                (*key, "n"),
                f"is {entry['n']}, but encoder {name} has positions for {encoder.max_tokens} "
                f"tokens; allowed: at most {encoder.max_tokens}",
            )

    # The user's own files, and datasets of them

    @contextmanager
    def _own_file(self, key: Key) -> Iterator[str]:
        dotted = ".".join(key)
        try:
            yield dotted
        except UserError as error:
            at, _, message = str(error).partition(": ")
            if not at.startswith(dotted):
                at, message = f"{dotted}.path", str(error)
            self.say(tuple(at.split(".")), message)

    def _dataset(self, name: str, dataset: Plain) -> None:
        key = ("datasets", name)
        self.known((*key, "corpus"), dataset["corpus"], "corpora")
        self.known((*key, "encoder"), dataset["encoder"], "encoders")
        self._own_texts(key, dataset)
        if dataset["policy"] == "windows":
            given = self.config["datasets"][name]
            for only in DOCUMENT_KEYS:
                if only in given:
                    self.say((*key, only), "only with policy: documents; leave it out")
                dataset.pop(only, None)
            return
        dataset.setdefault("pad_to", dataset["tokens"])
        if dataset["pad_to"] < dataset["tokens"] - 1:
            self.say(
                (*key, "pad_to"),
                f"is {dataset['pad_to']}, shorter than texts of up to {dataset['tokens'] - 1} "
                f"tokens; allowed: tokens - 1 = {dataset['tokens'] - 1} or more",
            )

    def _own_texts(self, key: Key, dataset: Plain) -> None:
        seen, encoder = self.seen.get(dataset["corpus"]), self.opened.get(dataset["encoder"])
        if seen and seen.whole and dataset["balanced"] and len(seen.labels) == 1:
            self.say(
                (*key, "balanced"),
                f"needs both labels, but every text of corpora.{dataset['corpus']} has the label "
                f"{min(seen.labels)}; set balanced: false or check the labels",
            )
        if encoder is None:
            return
        if dataset["layer"] > encoder.layers:
            self.say(
                (*key, "layer"),
                f"is {dataset['layer']}, but encoder {dataset['encoder']} has layers 0 to "
                f"{encoder.layers}",
            )
        width = "pad_to" if dataset.get("pad_to") and dataset["policy"] != "windows" else "tokens"
        if dataset[width] > encoder.max_tokens:
            self.say(
                (*key, width),
                f"is {dataset[width]}, but encoder {dataset['encoder']} has positions for "
                f"{encoder.max_tokens} tokens; allowed: at most {encoder.max_tokens}",
            )

    # Entries and figures

    def _tables(self, entries: list[Study]) -> None:
        """Each entry names a table, so no two may have one name."""
        first: dict[str, str] = {}
        for entry in entries:
            section = first.setdefault(entry.name, entry.section)
            if section != entry.section:
                self.say(
                    (entry.section, entry.name),
                    f"is also a name of {section}, and both name a table; choose another name",
                )

    def _figure(self, name: str, figure: Plain) -> None:
        key = ("figures", name)
        if name in reserved():
            self.say(key, f"{name} is the name of a rule; allowed: any other name")
        study = figure_kinds()[figure["kind"]]
        for option, having in figure_options().items():
            if option in figure and figure["kind"] not in having:
                self.say(
                    (*key, option),
                    f"kind {figure['kind']} has none; only for {' and '.join(having)}",
                )
        for entry in figure["sweeps"]:
            if self.known((*key, "sweeps"), entry, study.section):
                study(entry, self.filled[study.section][entry]).check_figure(self, name, figure)
