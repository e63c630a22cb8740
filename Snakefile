# From texts to figures: what each stage makes is a file under results/.
#     snakemake --cores 2               every figure that config.yaml does not mark default: false
#     snakemake --cores 2 figure2_rf    one figure and only what it needs
#     snakemake --cores 2 tables        the tables of all sweeps
#     snakemake --cores 2 model_report --config encoder=PATH texts=FILE    a report on your encoder
import os

from snakemake.utils import min_version

from wordsens import warm
from wordsens.config import readable_or_exit, results_or_exit
from wordsens.config.targets import targets_or_exit

min_version("9.13")


HERE = workflow.current_basedir.get_path_or_uri(secret_free=True)


configfile: readable_or_exit(os.path.join(HERE, "config.yaml"))


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


if config.get("container"):

    container: config["container"]


results_or_exit("results", write=False)


onstart:
    results_or_exit("results", write=True)
    here = (
        workflow.local_exec and not workflow.deployment_settings.deployment_method
    )
    if here and len(workflow.dag) >= warm.WORTHWHILE:
        inputs = [job.input.keys() for job in workflow.dag.needrun_jobs()]
        warm.start(
            cfg.threads, encoders=any("encoder" in names for names in inputs)
        )


onsuccess:
    warm.stop()


onerror:
    warm.stop()
    # Last on the screen, after all that Snakemake says of a failed job.
    print(what_failed(log), file=sys.stderr)


wildcard_constraints:
    corpus="|".join(cfg.corpora) or "-",
    encoder="|".join(cfg.encoders) or "-",
    dataset="|".join(cfg.datasets) or "-",
    model="|".join(cfg.models) or "-",
    figure="|".join(cfg.figures) or "-",
    report=cfg.report or "-",


localrules:
    all,
    tables,
    fetch_corpus,
    fetch_encoder,
    fetch_model,


rule all:
    default_target: True
    input:
        [shown(figure) for figure in cfg.figures.values() if figure.default],


rule tables:
    input:
        [
            f"results/tables/{name}.csv"
            for entries in cfg.studies.values()
            for name in entries
        ],


include: "workflow/rules/assets.smk"
include: "workflow/rules/embeddings.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


if os.path.samefile(workflow.main_snakefile, os.path.join(HERE, "Snakefile")):
    # As a module of another workflow, the targets may be that one's.
    targets_or_exit(rule.name for rule in workflow.rules)
