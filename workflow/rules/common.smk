# The checked configuration, and the few functions that the rules share.
import functools
import shlex
import sys

from wordsens.config import load_or_exit
from wordsens.config.report import REPORT_KINDS
from wordsens.failures import what_failed
from wordsens.plugins import source
from wordsens.provenance import fingerprint
from wordsens.studies import figure_kinds, targets

# Snakemake calls a script's interpreter unquoted, which fails below a folder with a space.
if " " in sys.executable and os.path.exists(sys.executable):
    sys.executable = shlex.quote(sys.executable)

cfg = load_or_exit(
    config,
    workflow.configfiles,
    os.path.join(HERE, "workflow", "schemas", "config.schema.yaml"),
)
# With device: auto a run asks for cards only when it is told how many (--resources gpu=N).
cards = workflow.global_resources.get("gpu")
cards = getattr(cards, "value", cards)  # a plain number in older versions of Snakemake
gpus = 1 if cfg.device == "cuda" or (cfg.device == "auto" and cards) else 0


@functools.cache
def code(script, *modules, map=None, study=None):
    """A fingerprint of a script and of every wordsens module that it and ``modules`` can reach.

    Of the maps only one counts where ``map`` is given.  A map and a kind of study of somebody's own
    count with all their sources, and such a kind with every map, as it may build any.
    """
    path = os.path.join(HERE, "scripts", script)
    shipped = [name for name in modules if name.startswith("wordsens.")]
    own = [home for each in (study, map) if each and (home := source(each))]
    # what has no map of its own only reads what maps declare
    chosen = map.name if map else None if study and source(study) else ""
    return fingerprint(path, *shipped, map=chosen, extra=own)


def drawing(kind):
    """A fingerprint of the code behind a kind of figure."""
    study = figure_kinds()[kind]
    return code("figure.py", f"{study.__module__}.figures.{kind}", study=study)


def pages(figure):
    """The files of one figure."""
    return multiext(f"results/figures/{figure.name}", ".pdf", ".png", ".csv", ".rst")


def shown(figure):
    """The files of one figure, in the report under the caption that the figure's job wrote."""
    caption = os.path.abspath(f"results/figures/{figure.name}.rst")
    heading = figure_kinds()[figure.kind].category
    *drawn, text = pages(figure)
    files = [text]
    for page, form in zip(drawn, ("PDF", "PNG", "CSV of the numbers")):
        labels = {"figure": figure.name, "format": form}
        files.append(report(page, caption=caption, category=heading, labels=labels))
    return files


def together(target):
    """All figures of the kinds that share a target."""
    figures = cfg.figures.values()
    return [f for f in figures if figure_kinds()[f.kind].target_of(f.kind) == target]


def pages_of(study, entry):
    """What the table rule of a study writes beside the table; pages to read are in the report."""
    made = {name: path.format(entry) for name, path in study.pages.items()}
    for name, path in made.items():
        if path.endswith(".md"):
            labels = {"figure": entry, "format": name}
            caption = "../report/page.rst"
            made[name] = report(
                path, caption=caption, category=study.category, labels=labels
            )
        elif not os.path.splitext(path)[1]:
            made[name] = directory(path)
    if study.axes:
        made["provenance"] = report(
            f"results/provenance/{entry}.html",
            caption="../report/provenance.rst",
            category="Provenance",
            labels={"cells of": entry},
        )
    return made


def report_entries():
    """The figures of the report, in its order; nothing without a model."""
    names = [f"{cfg.report}_{kind}" for kind in REPORT_KINDS]
    return [name for name in names if name in cfg.figures] if cfg.report else []


def report_tables():
    """The tables of the report: those of its figures, and of its classifier if there is one."""
    if not cfg.report:
        return []
    used = cfg.study(f"{cfg.report}_explanation").settings.get("classifier")
    return [*([used] if used else []), *report_entries()]


def report_study(report):
    """The lengths, the dataset and the word of the report's search of layers."""
    study = cfg.studies["layers"][f"{report}_layers"]
    positions = study.settings["positions"]
    position = positions[0] if isinstance(positions, list) else 0
    return {"dataset": study.dataset, "n": study.values("n"), "position": position}


def report_page(wildcards):
    """The page to make; who asks for it without a model is told how."""
    if cfg.report is None:
        # Any other exception in an input function is printed with a traceback.
        print("model_report needs --config encoder=PATH texts=FILE", file=sys.stderr)
        raise SystemExit(1)
    return [
        f"results/model_report/{cfg.report}/report.html",
        f"results/pages/{cfg.report}_explanation",
    ]
