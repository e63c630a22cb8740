# Figures from tables; each figure's name is a target.


def drawing(kind):
    """A fingerprint of the code behind a kind of figure."""
    study = figure_kinds()[kind]
    return code("figure.py", f"{study.__module__}.figures.{kind}", study=study)


rule draw_figure:
    input:
        lambda wildcards: expand(
            "results/tables/{sweep}.csv", sweep=cfg.figures[wildcards.figure].sweeps
        ),
    output:
        pdf="results/figures/{figure}.pdf",
        png="results/figures/{figure}.png",
        csv="results/figures/{figure}.csv",
        caption="results/figures/{figure}.rst",
    log:
        "results/logs/draw_figure/{figure}.log",
    benchmark:
        "results/benchmarks/draw_figure/{figure}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    group:
        "figures"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        kind=lambda wildcards: cfg.figures[wildcards.figure].kind,
        options=lambda wildcards: cfg.figures[wildcards.figure].options,
        code=lambda wildcards: drawing(cfg.figures[wildcards.figure].kind),
    script:
        "../../scripts/figure.py"


for figure in cfg.figures.values():

    rule:
        name:
            figure.name
        input:
            shown(figure),
        localrule: True


def together(target):
    """All figures of the kinds of study that share a target."""
    return [f for f in cfg.figures.values() if figure_kinds()[f.kind].target == target]


for target in sorted({study.target for study in cfg.kinds.values() if study.target}):

    rule:
        name:
            target
        input:
            [shown(figure) for figure in together(target)],
        localrule: True
