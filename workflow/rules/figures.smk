# Figures from tables; each figure's name is a target.


rule draw_figure:
    input:
        lambda wildcards: expand(
            "results/tables/{sweep}.csv", sweep=cfg.figures[wildcards.figure].sweeps
        ),
    output:
        pdf=report(
            "results/figures/{figure}.pdf",
            caption="../report/figure.rst",
            category="Word sensitivity",
            labels={"figure": "{figure}", "format": "PDF"},
        ),
        png=report(
            "results/figures/{figure}.png",
            caption="../report/figure.rst",
            category="Word sensitivity",
            labels={"figure": "{figure}", "format": "PNG"},
        ),
        csv="results/figures/{figure}.csv",
    log:
        "results/logs/draw_figure/{figure}.log",
    benchmark:
        "results/benchmarks/draw_figure/{figure}.tsv"
    conda:
        "../../envs/wordsens.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        kind=lambda wildcards: cfg.figures[wildcards.figure].kind,
        options=lambda wildcards: cfg.figures[wildcards.figure].options,
        code=code("figure.py"),
    script:
        "../../scripts/figure.py"


for figure in cfg.figures.values():

    rule:
        name:
            figure.name
        input:
            pages(figure),
        localrule: True
