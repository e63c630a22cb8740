"""What one key of the configuration asks of another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wordsens.config.model import MAP_KEYS, Dataset, Plain, numbered
from wordsens.config.own import Seen, look_at_corpus, look_at_encoder, look_at_model
from wordsens.config.schema import SchemaCheck, nearest
from wordsens.config.size import MOST_BYTES, least_bytes
from wordsens.errors import UserError

if TYPE_CHECKING:
    from wordsens.data.encoders import Encoder

Key = tuple[str, ...]

# Dataset keys that only one policy has.
DOCUMENT_KEYS = ("pad_to", "use_padding")
STUDY_KINDS = ("generalization", "tradeoff", "change")
SECTIONS = {**dict.fromkeys(STUDY_KINDS, "generalization"), "vocabulary": "vocabulary"}
# Kinds of figures that show entries of the section of the same name.
SECTIONS |= {kind: kind for kind in ("layers", "attraction", "attention", "prompts")}
# Sections whose entries' names each name a table.
TABLES = ("sweeps", "generalization", "vocabulary", "layers", "attraction", "attention", "prompts")
# Figure keys that only figures of studies have.
STUDY_OPTIONS = ("n", "N", "losses", "penalties", "swapped")
# Names of the workflow's own rules, which a figure's target may not take.
RESERVED = (
    "all",
    "tables",
    "fetch_corpus",
    "fetch_encoder",
    "embed",
    "sensitivity_cell",
    "sweep_table",
    "generalization_cell",
    "generalization_table",
    "word_pieces",
    "vocabulary_cell",
    "vocabulary_table",
    "fetch_model",
    "layers_cell",
    "layers_table",
    "attraction_table",
    "attention_table",
    "prompts_table",
    "report_words",
    "write_report",
    "model_report",
    "draw_figure",
)


class CrossCheck(SchemaCheck):
    """The schema's checks, then those between keys."""

    def cross(self, filled: Plain) -> None:
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
        for name, model in filled["models"].items():
            if model["source"] == "file":
                with self._own_file(("models", name)) as key:
                    look_at_model(model, key)
        for name, dataset in filled["datasets"].items():
            if dataset["source"] == "text":
                self._dataset(name, dataset, filled)
        if not self.lines:
            for name, sweep in filled["sweeps"].items():
                self._sweep(name, sweep, filled)
            for name, study in filled["generalization"].items():
                self._study(name, study, filled)
            for name, study in filled["vocabulary"].items():
                self._vocabulary(name, study, filled)
            self._trained(filled)
        for name, figure in filled["figures"].items():
            self._figure(name, figure, filled)

    def _known(self, key: Key, value: str, section: str, filled: Plain) -> bool:
        if value in filled[section]:
            return True
        names = ", ".join(filled[section]) or f"nothing yet; add {section}.{value}"
        self.say(
            key,
            f"is {value!r}, which {section} lacks; allowed: {names}"
            + nearest(value, filled[section]),
        )
        return False

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

    def _dataset(self, name: str, dataset: Plain, filled: Plain) -> None:
        key = ("datasets", name)
        self._known((*key, "corpus"), dataset["corpus"], "corpora", filled)
        self._known((*key, "encoder"), dataset["encoder"], "encoders", filled)
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

    def _fits(self, key: Key, entry: Plain, dataset: Plain) -> None:
        """The largest cell's d and memory."""
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

    def _map_keys(self, key: Key, name: str) -> None:
        given = self.config[key[0]][key[1]]
        for only, maps in MAP_KEYS.items():
            if only in given and name not in maps:
                self.say(
                    (*key, only),
                    f"map {name} has none; only for {' and '.join(maps)}; leave it out",
                )

    def _study(self, name: str, study: Plain, filled: Plain) -> None:
        key = ("generalization", name)
        self._map_keys(key, study["map"])
        if name in filled["sweeps"]:
            self.say(key, "is also the name of a sweep, and both name a table; choose another name")
        if self._known((*key, "dataset"), study["dataset"], "datasets", filled):
            self._lengths(key, study, filled["datasets"][study["dataset"]])
            self._fits(key, study, filled["datasets"][study["dataset"]])

    def _vocabulary(self, name: str, study: Plain, filled: Plain) -> None:
        key = ("vocabulary", name)
        self._map_keys(key, study["map"])
        self._one_table(key, filled)
        self._positions(key, study)
        if not self._texts(key, study["dataset"], filled):
            return
        dataset = filled["datasets"][study["dataset"]]
        self._lengths(key, study, dataset)
        if study["vectors"] == "layer0" and dataset["layer"] != 0:
            self.say(
                (*key, "vectors"),
                f"is layer0, but datasets.{study['dataset']}.layer is {dataset['layer']}; allowed: "
                "static, or a dataset of layer: 0",
            )

    def _one_table(self, key: Key, filled: Plain) -> None:
        for section in TABLES[: TABLES.index(key[0])]:
            if key[1] in filled[section]:
                self.say(
                    key, f"is also a name of {section}, and both name a table; choose another name"
                )

    def _trained(self, filled: Plain) -> None:
        """What studies of trained encoders and language models ask for."""
        for name, study in filled["layers"].items():
            key = ("layers", name)
            self._one_table(key, filled)
            self._positions(key, study)
            if self._texts(key, study["dataset"], filled):
                self._of_encoder(key, study, filled["datasets"][study["dataset"]])
        for name, study in filled["attraction"].items():
            key = ("attraction", name)
            self._one_table(key, filled)
            self._known((*key, "encoder"), study["encoder"], "encoders", filled)
            if ("text" in study) == ("dataset" in study):
                self.say((*key, "text"), "it needs either a text or a dataset")
            elif "dataset" in study and self._texts(key, study["dataset"], filled):
                encoder = filled["datasets"][study["dataset"]]["encoder"]
                if encoder != study["encoder"]:
                    self.say(
                        (*key, "dataset"),
                        f"is {study['dataset']!r}, of encoder {encoder}; allowed: a dataset of "
                        f"{study['encoder']}",
                    )
        for section, needed, known in (
            ("attention", "encoder", "encoders"),
            ("prompts", "model", "models"),
        ):
            for name, study in filled[section].items():
                self._one_table((section, name), filled)
                self._known((section, name, needed), study[needed], known, filled)

    def _of_encoder(self, key: Key, study: Plain, dataset: Plain) -> None:
        """Layers and lengths that the user's own encoder has."""
        encoder = self.opened.get(dataset["encoder"])
        if encoder is None:
            return
        layers = study["layers"]
        if isinstance(layers, list) and max(layers) > encoder.layers:
            self.say(
                (*key, "layers"),
                f"is {layers}, but encoder {dataset['encoder']} has layers 0 to {encoder.layers}",
            )
        if max(study["n"]) > encoder.max_tokens:
            self.say(
                (*key, "n"),
                f"is {study['n']}, but encoder {dataset['encoder']} has positions for "
                f"{encoder.max_tokens} tokens; allowed: at most {encoder.max_tokens}",
            )

    def _texts(self, key: Key, dataset: str, filled: Plain) -> bool:
        """Whether a dataset is known and made of texts."""
        if not self._known((*key, "dataset"), dataset, "datasets", filled):
            return False
        if filled["datasets"][dataset]["source"] == "text":
            return True
        self.say(
            (*key, "dataset"),
            f"is {dataset!r}, which has no words; allowed: a dataset of source: text",
        )
        return False

    def _sweep(self, name: str, sweep: Plain, filled: Plain) -> None:
        key = ("sweeps", name)
        given = self.config["sweeps"][name]
        self._map_keys(key, sweep["map"])
        if sweep["map"] == "drf" and "depth" not in sweep:
            self.say((*key, "depth"), "missing, and map drf needs it, for example [2, 4, 8]")
        for only in ("starts", "steps"):
            if only in given and sweep["search"] == "published":
                self.say((*key, only), "only with search: power; leave it out")
        if self._known((*key, "dataset"), sweep["dataset"], "datasets", filled):
            self._lengths(key, sweep, filled["datasets"][sweep["dataset"]])
            self._fits(key, sweep, filled["datasets"][sweep["dataset"]])
        shortest = min(sweep["n"])
        if max(sweep["words"]) > shortest:
            self.say(
                (*key, "words"),
                f"is {sweep['words']}, but n goes down to {shortest}; allowed: at most {shortest}",
            )
        if isinstance(sweep["positions"], list) and max(sweep["words"]) > 1:
            self.say(
                (*key, "positions"),
                f"is {sweep['positions']}, single words, but words is {sweep['words']}; allowed "
                "with several words: first, all, random:m",
            )
        self._positions(key, sweep)

    def _positions(self, key: Key, sweep: Plain) -> None:
        shortest, positions = min(sweep["n"]), sweep["positions"]
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

    def _lengths(self, key: Key, sweep: Plain, dataset: Plain) -> None:
        longest = Dataset(sweep["dataset"], dataset).longest
        if longest is not None and max(sweep["n"]) > longest:
            self.say(
                (*key, "n"),
                f"is {sweep['n']}, but dataset {sweep['dataset']} has samples of at most "
                f"{longest} tokens; allowed: at most {longest}, or raise "
                f"datasets.{sweep['dataset']}.tokens",
            )

    def _searched(self, key: Key, figure: Plain, name: str, study: Plain) -> None:
        """A figure of a study shows only what the study searched for."""
        place, losses = f"generalization.{name}", set(study["losses"])
        if figure["kind"] == "tradeoff" and not study.get("tradeoff"):
            self.say((*key, "sweeps"), f"{place} has no curve; add limits on γ as {place}.tradeoff")
        if figure["kind"] == "change" and "change" not in losses:
            self.say((*key, "sweeps"), f"{place} does not search it; add change to {place}.losses")
        if figure["kind"] == "generalization" and losses <= {"change"}:
            self.say((*key, "sweeps"), f"{place} searches no error; add one to {place}.losses")
        if figure.get("swapped") and not {"features", "alignment"} <= losses:
            self.say((*key, "swapped"), f"it needs features and alignment in {place}.losses")
        for option in ("n", "N", "penalties", "losses"):
            if option in figure and not set(figure[option]) & set(study[option]):
                self.say(
                    (*key, option),
                    f"is {figure[option]}, of which {place} has none; allowed: "
                    f"{', '.join(map(str, study[option]))}",
                )

    def _figure(self, name: str, figure: Plain, filled: Plain) -> None:
        key = ("figures", name)
        if name in RESERVED:
            self.say(key, f"{name} is the name of a rule; allowed: any other name")
        section = SECTIONS.get(figure["kind"], "sweeps")
        for only in STUDY_OPTIONS:
            if only in figure and section != "generalization":
                kinds = " and ".join(STUDY_KINDS)
                self.say((*key, only), f"kind {figure['kind']} has none; only for {kinds}")
        if section != "sweeps":
            for study in figure["sweeps"]:
                known = self._known((*key, "sweeps"), study, section, filled)
                if known and section == "generalization":
                    self._searched(key, figure, study, filled["generalization"][study])
            return
        for sweep in figure["sweeps"]:
            if not self._known((*key, "sweeps"), sweep, "sweeps", filled):
                continue
            first = filled["sweeps"][sweep]["positions"] == "first"
            if figure["kind"] == "positions" and first:
                self.say(
                    (*key, "sweeps"),
                    f"kind positions needs sweeps of several positions, and sweeps.{sweep}."
                    "positions is first; allowed there: all, random:m or a list",
                )
