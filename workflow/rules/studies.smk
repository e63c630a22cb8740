# The rules of every kind of study: one job per cell with all its trials, and one table per entry.
from functools import partial

from wordsens.studies.axes import PATTERNS, read

ENVIRONMENT = "../../envs/wordsens.yaml"


def entry(study, wildcards):
    """The entry of the configuration that a job belongs to."""
    return cfg.studies[study.kind][wildcards[study.role]]


def point(study, wildcards):
    """The values of the axes that a cell's path spells."""
    return read(wildcards, study.axes)


def parameters(study, wildcards):
    """All parameters of a cell, or of a study without cells."""
    return entry(study, wildcards).cell(cfg, point(study, wildcards))


def needed(study, wildcards):
    """The files that a cell, or a study without cells, reads."""
    return entry(study, wildcards).inputs(cfg, point(study, wildcards))


def cells(study, wildcards):
    """The cell files of an entry."""
    return entry(study, wildcards).paths()


def memory(study, wildcards, attempt):
    return attempt * entry(study, wildcards).mem_mb(point(study, wildcards))


def code_of(study, part, wildcards):
    """A fingerprint of the code behind a job, of its map and of the plugins that it uses."""
    map = getattr(entry(study, wildcards), "map", None) if part == "cell" else None
    return code(f"{part}.py", f"{study.__module__}.{part}", map=map, study=study)


for study in cfg.kinds.values():
    pattern = study.pattern()
    names = "|".join(cfg.studies[study.kind]) or "-"
    table = f"{{{study.role}}}"

    if study.axes:

        rule:
            name:
                f"{study.kind}_cell"
            input:
                unpack(partial(needed, study)),
            output:
                f"results/{pattern}.h5",
            log:
                f"results/logs/{pattern}.log",
                usage=f"results/benchmarks/{pattern}.tsv",
            wildcard_constraints:
                **{study.role: names},
                **{axis: PATTERNS[kind] for axis, kind in study.axes.items()},
            group:
                study.group
            conda:
                ENVIRONMENT
            threads: cfg.threads
            resources:
                mem_mb=partial(memory, study),
                runtime=partial(
                    lambda study, wildcards, attempt: attempt * study.minutes, study
                ),
                gpu=gpus * study.gpu,
            params:
                kind=study.kind,
                cell=partial(parameters, study),
                device=cfg.device,
                code=partial(code_of, study, "cell"),
            script:
                "../../scripts/cell.py"

    rule:
        name:
            f"{study.kind}_table"
        input:
            unpack(partial(needed, study)) if not study.axes else partial(cells, study),
        output:
            **pages_of(study, table),
            table=report(
                f"results/tables/{table}.csv",
                caption="../report/table.rst",
                category="Tables",
                labels={"table": table},
            ),
        log:
            f"results/logs/{study.kind}_table/{table}.log",
            usage=f"results/benchmarks/{study.kind}_table/{table}.tsv",
        wildcard_constraints:
            **{study.role: names},
        group:
            "figures" if study.axes else None
        conda:
            ENVIRONMENT
        threads: 1 if study.axes else cfg.threads
        resources:
            mem_mb=2000 if study.axes else partial(memory, study),
            runtime=30 if study.axes else study.minutes,
            gpu=0 if study.axes else gpus * study.gpu,
        params:
            kind=study.kind,
            cell=None if study.axes else partial(parameters, study),
            device=None if study.axes else cfg.device,
            code=partial(code_of, study, "table"),
        script:
            "../../scripts/table.py"
